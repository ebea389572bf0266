package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/jackc/pgx/v5"
)

// kept is a reply as it is stored.
type kept struct {
	status, content string
}

// stored reads the one reply to a message.
func (e *environment) stored(ctx context.Context, a asking) (kept, error) {
	const replies = `select r.status, r.content
		from public.messages u join public.messages r on r.chat_id = u.chat_id and r.reply_to = u.id and r.role = 'assistant'
		where u.user_id = $1 and u.client_message_id = $2 and u.chat_id = $3`
	rows, err := e.admin.Query(ctx, replies, a.principal.UserID, a.clientID, a.id)
	if err != nil {
		return kept{}, err
	}
	found, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (k kept, err error) {
		return k, row.Scan(&k.status, &k.content)
	})
	if err != nil {
		return found, fmt.Errorf("the reply to a message: %w", err)
	}
	return found, nil
}

// said asks the model what it said.
func said(ctx context.Context, model *process, a asking) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, model.address+saidPath+a.clientID.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, errors.New("the model was never asked")
	}
	return io.ReadAll(response.Body)
}

// whole checks that a reply which ran to its end is the same for the model, the client and Postgres.
func (e *environment) whole(ctx context.Context, model *process, a asking, h *heard) error {
	spoken, err := said(ctx, model, a)
	if err != nil {
		return err
	}
	row, err := e.stored(ctx, a)
	switch {
	case err != nil:
		return err
	case h.end != "completion" || row.status != "complete":
		return fmt.Errorf("a reply ended with %q, %s, and is stored as %s", h.end, h.code, row.status)
	case !bytes.Equal(spoken, h.text):
		return fmt.Errorf("the model said %d bytes, the client put %d together, and %d characters came twice", len(spoken), len(h.text), h.twice)
	case row.content != string(spoken):
		return fmt.Errorf("of %d bytes %d are stored", len(spoken), len(row.content))
	}
	return nil
}
