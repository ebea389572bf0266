package httpapi

import (
	"context"
	"errors"
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
	open := func() (*chat.Reply, error) {
		return s.config.Chat.Resume(c.Request().Context(), principal(c), chatID, cursor)
	}
	return s.answerReply(c, open, func(reply *chat.Reply) (bool, error) { return s.answerEvents(c, reply, protocol) })
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
	Status    string    `json:"status" enum:"complete,streaming,failed,cancelled,interrupted" doc:"cancelResult.status"`
}

// cancelReply stops the reply that is being generated for a chat.
func (s *Server) cancelReply(ctx context.Context, user auth.Principal, chatID uuid.UUID, _ none) (cancelResult, error) {
	stored, err := s.config.Chat.Cancel(ctx, user, chatID)
	return cancelResult{ChatID: stored.ChatID, MessageID: stored.MessageID, Status: string(stored.Status)}, err
}

// answerReply opens a reply in one of the user's stream slots, and answers with it or, when nothing of it is left to send,
// with 204. answer reports whether the reply has ended.
func (s *Server) answerReply(c echo.Context, open func() (*chat.Reply, error), answer func(*chat.Reply) (ended bool, err error)) error {
	release, err := s.streams.acquire(principal(c).UserID, "replies")
	if err != nil {
		return err
	}
	finish := release
	defer func() { finish() }()
	reply, err := open()
	switch {
	case errors.Is(err, chat.ErrNothingToStream):
		return c.NoContent(http.StatusNoContent)
	case err != nil:
		return err
	}
	ended := false
	finish = func() { s.letGo(reply, ended, release) }
	liftDeadline(c)
	ended, err = answer(reply)
	return err
}

// answerWhole answers with the whole reply as one object.
func answerWhole(c echo.Context, reply *chat.Reply) (ended bool, err error) {
	whole, err := reply.Wait(c.Request().Context())
	if err != nil {
		return isFault(err), err
	}
	return true, writeJSON(c, http.StatusOK, whole)
}

// liftDeadline removes the deadline for reading, because a reply may take longer: when it passes, net/http cancels the
// request.
func liftDeadline(c echo.Context) {
	_ = http.NewResponseController(c.Response().Writer).SetReadDeadline(time.Time{}) // recorders have none
}

// letGo closes the reader and releases its slot. If the client left early, the user's stream slot is held until generation ends; otherwise
// disconnecting would bypass MaxStreamsPerUser.
func (s *Server) letGo(reply *chat.Reply, ended bool, release func()) {
	if ended || reply.Started.Resumed || s.config.MaxStreamsPerUser <= 0 {
		reply.Close()
		release()
		return
	}
	go func() {
		defer release()
		defer reply.Close()
		for {
			// Every reply ends, at the latest by its own timeout.
			if chunk, err := reply.Next(context.Background()); err != nil || chunk.End != nil {
				return
			}
		}
	}()
}
