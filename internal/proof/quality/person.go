package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/streaming"
)

// person is a user of the server.
type person struct {
	kit.Client
	s  *system
	id uuid.UUID
}

func (s *system) person(ctx context.Context) (*person, error) {
	id, token, err := kit.NewUser(ctx, s.admin)
	return &person{kit.Client{HTTP: s.http, Token: token}, s, id}, err
}

// call sends a request and decodes the answer, unless into is nil. It returns the status; every one but 2xx is an
// error as well.
func (p *person) call(ctx context.Context, method, path string, body, into any) (int, error) {
	var raw []byte
	if body != nil {
		raw = []byte(encode(body))
	}
	response, err := p.Do(ctx, method, p.s.base+path, raw, "")
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }() // read to its end
	answer, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return response.StatusCode, err
	case response.StatusCode >= http.StatusMultipleChoices:
		return response.StatusCode, fmt.Errorf("%s %s: %d %.200s", method, path, response.StatusCode, answer)
	case into == nil || len(answer) == 0:
		return response.StatusCode, nil
	}
	return response.StatusCode, json.Unmarshal(answer, into)
}

// said is a message with its time.
type said struct {
	Role    string `json:"role"`
	Content string `json:"content"`
	At      string `json:"created_at"`
}

const (
	fromUser      = "user"
	fromAssistant = "assistant"
	fromTool      = "tool"
)

// at returns a message that was said at a time.
func at(moment time.Time, role, content string) said {
	return said{role, content, moment.UTC().Format(time.RFC3339)}
}

// tell imports a chat. Nothing is extracted from it before it is asked for.
func (p *person) tell(ctx context.Context, messages ...said) (uuid.UUID, error) {
	var file bytes.Buffer
	for _, one := range messages {
		file.WriteString(encode(one) + "\n")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.s.base+"/v1/chats/import", &file)
	if err != nil {
		return uuid.Nil, err
	}
	request.Header.Set("Authorization", "Bearer "+p.Token)
	request.Header.Set("Content-Type", "application/x-ndjson")
	response, err := p.HTTP.Do(request)
	if err != nil {
		return uuid.Nil, err
	}
	defer func() { _ = response.Body.Close() }() // read to its end
	var answer struct {
		Chats []struct {
			ID uuid.UUID `json:"chat_id"`
		}
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || len(answer.Chats) != 1 {
		return uuid.Nil, fmt.Errorf("import: %s: %w", response.Status, err)
	}
	return answer.Chats[0].ID, nil
}

// say sends a message, uuid.Nil for a new chat, and returns the whole reply.
func (p *person) say(ctx context.Context, chat uuid.UUID, content string) (reply kit.Reply, err error) {
	path, message := "/v1/message", map[string]any{"content": content, "chat_id": chat}
	if chat == uuid.Nil {
		path = "/v1/message/first"
		delete(message, "chat_id")
	}
	response, err := p.Do(ctx, http.MethodPost, p.s.base+path, []byte(encode(message)), "")
	if err != nil {
		return reply, err
	}
	defer func() { _ = response.Body.Close() }() // read to its end
	if response.StatusCode != http.StatusOK {
		return reply, fmt.Errorf("POST %s: %s %s", path, response.Status, kit.CodeOf(response.Body))
	}
	for e, err := range kit.Events(response.Body) {
		if err != nil {
			return reply, err
		}
		if _, err := reply.Take(e); err != nil || reply.End != "" {
			break
		}
	}
	if reply.End != streaming.EventCompleted {
		return reply, errors.New("the reply ended with " + reply.End + " " + reply.Code)
	}
	return reply, nil
}

// receipt is what a reply says about the memories in its prompt.
type receipt struct {
	Memories []uuid.UUID `json:"memories"`
	Recalled []int64     `json:"recalled"`
	Recall   string      `json:"recall"`
}

func receiptOf(reply kit.Reply) (r receipt, err error) {
	return r, json.Unmarshal(reply.Completed.Memory, &r)
}

// learn asks for extractions until nothing is left of a chat, or the chat is gone.
func (p *person) learn(ctx context.Context, chat uuid.UUID) error {
	return until(ctx, "the chat is extracted", func() (bool, error) {
		status, err := p.call(ctx, http.MethodPost, "/v1/chats/"+chat.String()+"/extract", map[string]any{}, nil)
		if err != nil {
			return status == http.StatusNotFound, ignore(err, status == http.StatusNotFound)
		}
		left, err := p.s.number(ctx, `select count(*) from public.messages m join public.conversation_briefs b on b.chat_id = m.chat_id
			where m.chat_id = $1 and m.seq > b.extracted_seq`, chat)
		return left == 0, err
	})
}

func ignore(err error, expected bool) error {
	if expected {
		return nil
	}
	return err
}

// tellAndLearn imports a chat and extracts it.
func (p *person) tellAndLearn(ctx context.Context, messages ...said) error {
	chat, err := p.tell(ctx, messages...)
	if err != nil {
		return err
	}
	return p.learn(ctx, chat)
}

// memory is a row of memories.
type memory struct {
	ID           uuid.UUID
	Content      string
	MemoryType   string
	Status       string
	Confidence   float64
	Durable      bool
	Lang         *string
	ValidFrom    *time.Time
	ValidTo      *time.Time
	SupersededBy *uuid.UUID
	RetractedAt  *time.Time
}

// memories returns a user's memories in the order in which they were made.
func (p *person) memories(ctx context.Context) ([]memory, error) {
	return rows[memory](ctx, p.s, `select id, content, memory_type, status, confidence, durable, lang, valid_from, valid_to, superseded_by, retracted_at
		from public.memories where user_id = $1 order by created_at, id`, p.id)
}

// dropped returns how many proposals were dropped, by reason.
func (p *person) dropped(ctx context.Context) (map[string]int, error) {
	found, err := rows[struct {
		Reason string
		Count  int
	}](ctx, p.s, `select reason.key as reason, sum(reason.value::int)::int as count from public.memory_extractions e
		cross join lateral jsonb_each_text(e.dropped) reason where e.user_id = $1 group by 1`, p.id)
	all := map[string]int{}
	for _, one := range found {
		all[one.Reason] = one.Count
	}
	return all, err
}
