package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
)

// getStream goes on with a reply where the client stopped reading.
func (s *Server) getStream(c echo.Context) error {
	chatID, err := pathChatID(c)
	if err != nil {
		return err
	}
	protocol, err := namedProtocol(c.Request())
	if err != nil {
		return err
	}
	cursor, err := placeToResume(c.Request())
	if err != nil {
		return err
	}
	user := principal(c)
	place, err := s.streams.acquire(user.UserID)
	if err != nil {
		return err
	}
	defer place.leave()
	reply, err := s.config.Chat.Resume(c.Request().Context(), user, chatID, cursor)
	if err != nil {
		return nothingToStream(c, err)
	}
	return s.answerEvents(c, reply, place, protocol)
}

func pathChatID(c echo.Context) (uuid.UUID, error) {
	id, err := parseUUID(c.Param("chat_id"))
	if err != nil {
		return uuid.Nil, fault.New(fault.BadUUID, "The chat id in the path is not a uuid.")
	}
	return id, nil
}

// placeToResume is the Last-Event-ID header or else ?after; nil when there is neither.
func placeToResume(request *http.Request) (*chat.Cursor, error) {
	if cursor, err := lastEventID(request.Header); cursor != nil || err != nil {
		return cursor, err
	}
	query := request.URL.Query()
	if !query.Has("after") {
		return nil, nil //nolint:nilnil // no cursor means to follow what is running
	}
	cursor, err := chat.ParsePlace(query.Get("after"))
	if err != nil {
		return nil, err
	}
	return &cursor, nil
}

// cancelBody is the answer to POST /v1/message/:chat_id/cancel.
type cancelBody struct {
	ChatID    uuid.UUID `json:"chat_id"`
	MessageID uuid.UUID `json:"message_id" description:"The reply that was stopped, or the chat's latest one when none was running."`
	Status    string    `json:"status" enum:"complete,streaming,failed,cancelled,interrupted" description:"The reply's state now; streaming while another server is still stopping it."`
}

// postCancel stops the reply that a chat is busy with.
func (s *Server) postCancel(c echo.Context) error {
	chatID, err := pathChatID(c)
	if err != nil {
		return err
	}
	stored, err := s.config.Chat.Cancel(c.Request().Context(), principal(c), chatID)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, cancelBody{ChatID: stored.ChatID, MessageID: stored.MessageID, Status: string(stored.Status)})
}

// answerWhole answers with the reply as one object, once there is all of it.
func (s *Server) answerWhole(c echo.Context, reply *chat.Reply, place *place) error {
	ended := false
	defer func() { s.letGo(reply, ended, place) }()
	liftDeadline(c)
	whole, err := reply.Wait(c.Request().Context())
	ended = err == nil || isFault(err)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, whole)
}

// liftDeadline takes the one for reading away, since a reply may take longer: when it passes, net/http takes the
// client for gone.
func liftDeadline(c echo.Context) {
	_ = http.NewResponseController(c.Response().Writer).SetReadDeadline(time.Time{}) // recorders have none
}

// letGo ends the reading of a reply. One that this request started still runs when its reader left
// early, and keeps its user's place until it is done, or else leaving would be a way around the limit.
func (s *Server) letGo(reply *chat.Reply, ended bool, place *place) {
	if ended || reply.Started.Resumed || s.config.MaxStreamsPerUser <= 0 {
		reply.Close()
		return
	}
	kept := place.takeOver()
	go func() {
		defer kept.leave()
		defer reply.Close()
		for {
			// Every reply ends, at the latest by its own timeout, so this wait needs no other end.
			if chunk, err := reply.Next(context.Background()); err != nil || chunk.End != nil {
				return
			}
		}
	}()
}
