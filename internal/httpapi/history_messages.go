package httpapi

import (
	"net/http"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
)

// messageChangeBody is the body of PATCH /v1/messages/:message_id.
type messageChangeBody struct {
	_          struct{} `additionalProperties:"false"`
	Pinned     *bool    `json:"pinned,omitempty" nullable:"false" description:"Whether hybrid chats keep the message in the prompt word for word."`
	Importance *float64 `json:"importance,omitempty" nullable:"true" minimum:"0" maximum:"1" description:"As the app sees it; null for not rated."`

	named map[string]bool
}

func (b *messageChangeBody) fields() map[string]reader {
	return map[string]reader{
		"pinned": optionalValue(&b.Pinned, "must be true or false"), "importance": optionalValue(&b.Importance, "must be a number"),
	}
}

// patchMessage changes how a message is rated.
func (s *Server) patchMessage(c echo.Context) error {
	messageID, err := pathMessageID(c)
	if err != nil {
		return err
	}
	raw, err := s.readBody(c)
	if err != nil {
		return err
	}
	var body messageChangeBody
	if body.named, err = decodeNamed(raw, body.fields()); err != nil {
		return err
	}
	if body.named["pinned"] && body.Pinned == nil {
		return invalid(map[string]any{"pinned": "must be true or false"})
	}
	changed, err := s.config.History.ChangeMessage(c.Request().Context(), principal(c), messageID,
		history.MessageChange{Pinned: body.Pinned, Importance: field(body.named, "importance", body.Importance)})
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, changed)
}

// pathMessageID is the id of the message that the path names.
func pathMessageID(c echo.Context) (uuid.UUID, error) {
	id, err := parseUUID(c.Param("message_id"))
	if err != nil {
		return uuid.Nil, fault.New(fault.BadUUID, "The message id in the path is not a uuid.")
	}
	return id, nil
}

// deleteMessage deletes a message.
func (s *Server) deleteMessage(c echo.Context) error {
	messageID, err := pathMessageID(c)
	if err != nil {
		return err
	}
	if err := s.config.History.DeleteMessage(c.Request().Context(), principal(c), messageID); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}
