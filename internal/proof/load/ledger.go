package main

import (
	"crypto/md5" //nolint:gosec // compares texts, protects nothing
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/streaming"
)

// turn is what a client knows of one message that it sent.
type turn struct {
	user, chat, client uuid.UUID // client is the message's client_message_id
	message            uuid.UUID // the reply's
	acknowledged       bool      // the server said that it has the message
	end                string    // the terminal event, "" when none was heard
	code               string    // a failure's
	asked, heard       [md5.Size]byte
}

// newTurn is what is known after hearing all there was to hear.
func newTurn(user, client uuid.UUID, content string, h *heard) turn {
	return turn{
		user: user, client: client, chat: h.started.ChatID, message: h.started.MessageID,
		acknowledged: h.started.MessageID != uuid.Nil, end: h.end, code: h.code,
		asked: md5.Sum([]byte(content)), heard: md5.Sum(h.text), //nolint:gosec // see the import
	}
}

// whole: the client saw all of the reply.
func (t turn) whole() bool { return t.end == streaming.EventCompleted }

// ledger is what all clients know.
type ledger struct {
	mu    sync.Mutex
	turns []turn
}

func (l *ledger) add(t turn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turns = append(l.turns, t)
}

func (l *ledger) all() []turn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clip(l.turns)
}
