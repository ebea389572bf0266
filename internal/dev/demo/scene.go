package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/client"
	"github.com/arcoscribe/throughline/internal/terminal"
)

// scene is a part of the demo beside the long conversation.
type scene struct {
	Options
	client *client.Client
	bar    *progress
	out    io.Writer
	chats  int // that were begun
}

func (p *player) scene() scene {
	return scene{Options: p.Options, client: p.client, bar: newProgress(io.Discard, false, 1), out: p.Out}
}

// say sends a message to a chat, or begins one, and prints both sides.
func (s *scene) say(ctx context.Context, chat uuid.UUID, content string) (uuid.UUID, Answer, error) {
	label := "        "
	if chat == uuid.Nil {
		s.chats++
		label = fmt.Sprintf("  chat %d", s.chats)
	}
	p := &player{Options: s.Options, client: s.client, bar: s.bar, Summary: Summary{ChatID: chat}}
	answer, failure, err := p.ask(ctx, content)
	switch {
	case err != nil:
		return chat, answer, err
	case failure != "":
		return chat, answer, fmt.Errorf("the reply failed (%s)", failure)
	}
	fmt.Fprintf(s.out, "%s  > %s\n          < %s\n", label, content, terminal.OneLine(answer.Text))
	return p.ChatID, answer, nil
}

func (s *scene) call(ctx context.Context, method, path string, query url.Values, body any, into any) error {
	raw, err := s.client.Call(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%s %s: the answer cannot be read: %w", method, path, err)
	}
	return nil
}
