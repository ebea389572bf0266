package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
)

// getStream resumes a reply where the client stopped reading.
func (s *Server) getStream(c echo.Context) error {
	chatID, err := pathID(c)
	if err != nil {
		return err
	}
	protocol, err := namedProtocol(c.Request())
	if err != nil {
		return err
	}
	cursor, err := resumeCursor(c.Request())
	if err != nil {
		return err
	}
	user := principal(c)
	slot, err := s.streams.acquire(user.UserID)
	if err != nil {
		return err
	}
	defer slot.release()
	reply, err := s.config.Chat.Resume(c.Request().Context(), user, chatID, cursor)
	if err != nil {
		return nothingToStream(c, err)
	}
	return s.answerEvents(c, reply, slot, protocol)
}

// resumeCursor reads the Last-Event-ID header or else ?after; nil without either.
func resumeCursor(request *http.Request) (*chat.Cursor, error) {
	if cursor, err := lastEventID(request.Header); cursor != nil || err != nil {
		return cursor, err
	}
	query := request.URL.Query()
	if !query.Has("after") {
		return nil, nil //nolint:nilnil // no cursor means to follow what is running
	}
	cursor, err := chat.ParsePosition(query.Get("after"))
	if err != nil {
		return nil, err
	}
	return &cursor, nil
}

type cancelResult struct {
	_         struct{}  `description:"The reply that was stopped."`
	ChatID    uuid.UUID `json:"chat_id"`
	MessageID uuid.UUID `json:"message_id" description:"The reply that was stopped, or the chat's latest one when none was running."`
	Status    string    `json:"status" enum:"complete,streaming,failed,cancelled,interrupted" description:"The reply's state now; streaming while another server is still stopping it."`
}

// cancelReply stops the reply that is being generated for a chat.
func (s *Server) cancelReply(ctx context.Context, user auth.Principal, chatID uuid.UUID, _ none) (cancelResult, error) {
	stored, err := s.config.Chat.Cancel(ctx, user, chatID)
	return cancelResult{ChatID: stored.ChatID, MessageID: stored.MessageID, Status: string(stored.Status)}, err
}

// answerWhole answers with the whole reply as one object.
func (s *Server) answerWhole(c echo.Context, reply *chat.Reply, slot *slot) error {
	ended := false
	defer func() { s.letGo(reply, ended, slot) }()
	liftDeadline(c)
	whole, err := reply.Wait(c.Request().Context())
	ended = err == nil || isFault(err)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, whole)
}

// liftDeadline removes the deadline for reading, because a reply may take longer: when it passes, net/http cancels the
// request.
func liftDeadline(c echo.Context) {
	_ = http.NewResponseController(c.Response().Writer).SetReadDeadline(time.Time{}) // recorders have none
}

// letGo closes the reader. If the client left early, the user's stream slot is held until generation ends; otherwise
// disconnecting would bypass MaxStreamsPerUser.
func (s *Server) letGo(reply *chat.Reply, ended bool, slot *slot) {
	if ended || reply.Started.Resumed || s.config.MaxStreamsPerUser <= 0 {
		reply.Close()
		return
	}
	held := slot.transfer()
	go func() {
		defer held.release()
		defer reply.Close()
		for {
			// Every reply ends, at the latest by its own timeout.
			if chunk, err := reply.Next(context.Background()); err != nil || chunk.End != nil {
				return
			}
		}
	}()
}
