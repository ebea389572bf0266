package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/client"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/terminal"
)

// memoriesTimeout bounds the part about memories: four short chats and two extractions.
const memoriesTimeout = 3 * time.Minute

// rememberer tells one chat and asks another. It checks what it prints: a memory that did not come about, did not reach
// the next chat, was not corrected or not forgotten is an error.
type rememberer struct{ scene }

// showMemories plays the part about memories: tell chat one, ask chat two, correct it, forget it.
func (p *player) showMemories(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, memoriesTimeout)
	defer cancel()
	r := &rememberer{p.scene()}
	err := r.play(ctx)
	if client.IsCode(err, fault.MemoryOff) {
		fmt.Fprintln(p.Out, "  The server keeps no memories (LONG_TERM_MEMORY=false).")
		return nil
	}
	if err != nil {
		return fmt.Errorf("memories: %w", err)
	}
	return nil
}

func (r *rememberer) play(ctx context.Context) error {
	if _, _, err := r.find(ctx, "active", "walnut"); err != nil {
		return err // the server keeps none
	}
	fmt.Fprintln(r.out, "\nMEMORIES  what one chat is told, the next one knows")
	told, _, err := r.say(ctx, uuid.Nil, "I am allergic to walnuts. I live in Lyon.")
	if err != nil {
		return err
	}
	if err := r.extract(ctx, told); err != nil {
		return err
	}
	allergy, err := r.mustFind(ctx, "active", "remembered", "walnut")
	if err != nil {
		return err
	}
	asked, err := r.knows(ctx, "What am I allergic to?", allergy)
	if err != nil {
		return err
	}
	if err := r.correct(ctx, asked); err != nil {
		return err
	}
	return r.forget(ctx, allergy)
}

// correct says what is no longer so in a chat of its own, and asks the next one.
func (r *rememberer) correct(ctx context.Context, chat uuid.UUID) error {
	if _, _, err := r.say(ctx, chat, "Actually, I moved to Porto."); err != nil {
		return err
	}
	if err := r.extract(ctx, chat); err != nil {
		return err
	}
	home, err := r.mustFind(ctx, "active", "remembered", "Porto")
	if err != nil {
		return err
	}
	if _, err := r.mustFind(ctx, "superseded", "no longer so, kept as history", "Lyon"); err != nil {
		return err
	}
	if err := r.mustNotFind(ctx, "Lyon"); err != nil {
		return err
	}
	_, err = r.knows(ctx, "Where do I live?", home)
	return err
}

// forget forgets by words, in two steps, and asks a last chat.
func (r *rememberer) forget(ctx context.Context, allergy history.Memory) error {
	var offer struct {
		Candidates []history.ForgetCandidate `json:"candidates"`
		Token      string                    `json:"token"`
	}
	if err := r.call(ctx, http.MethodPost, "/v1/memories/forget", nil, map[string]any{"query": "walnuts"}, &offer); err != nil {
		return err
	}
	fmt.Fprintln(r.out, "  forget  \"walnuts\" would forget:")
	for _, candidate := range offer.Candidates {
		fmt.Fprintf(r.out, "            %s\n", terminal.OneLine(candidate.Content))
	}
	var done struct {
		Forgotten int `json:"forgotten"`
	}
	if err := r.call(ctx, http.MethodPost, "/v1/memories/forget", nil, map[string]any{"token": offer.Token}, &done); err != nil {
		return err
	}
	fmt.Fprintf(r.out, "          yes: %d forgotten\n", done.Forgotten)
	if err := r.mustNotFind(ctx, "walnut"); err != nil {
		return err
	}
	_, shown, err := r.say(ctx, uuid.Nil, "What am I allergic to?")
	if err != nil {
		return err
	}
	if slices.Contains(shown.Receipt.Memories, allergy.ID) {
		return errors.New("a memory that was forgotten was shown again")
	}
	return nil
}

// knows asks a new chat, and checks that the memory was shown to it.
func (r *rememberer) knows(ctx context.Context, question string, about history.Memory) (uuid.UUID, error) {
	chat, answer, err := r.say(ctx, uuid.Nil, question)
	if err != nil {
		return chat, err
	}
	if !slices.Contains(answer.Receipt.Memories, about.ID) {
		return chat, fmt.Errorf("the memory %s did not reach the next chat: it was shown %d others", about.ID, len(answer.Receipt.Memories))
	}
	tokens := 0
	if answer.Receipt.MemoryTokens != nil {
		tokens = *answer.Receipt.MemoryTokens
	}
	fmt.Fprintf(r.out, "          (its prompt had %s of this user: %s)\n", counted(len(answer.Receipt.Memories), "memory", "memories"), count(tokens, "token"))
	return chat, nil
}

// extract has a chat read at once, instead of when it has rested, and prints what came of it.
func (r *rememberer) extract(ctx context.Context, chat uuid.UUID) error {
	var read history.Extraction
	if err := r.call(ctx, http.MethodPost, client.ChatPath(chat, "/extract"), nil, map[string]any{}, &read); err != nil {
		return err
	}
	fmt.Fprintf(r.out, "          read for memories (%s, %s): %d added, %d superseded\n", terminal.OneLine(read.Result), count(read.Calls, "model call"), read.Added, read.Superseded)
	return nil
}

// find returns the memory with this status and a word in it, false if there is none.
func (r *rememberer) find(ctx context.Context, status, word string) (history.Memory, bool, error) {
	var page history.MemoryPage
	if err := r.call(ctx, http.MethodGet, "/v1/memories", url.Values{"status": {status}, "limit": {"100"}}, nil, &page); err != nil {
		return history.Memory{}, false, err
	}
	for _, m := range page.Memories {
		if m.Status == status && strings.Contains(strings.ToLower(m.Content), strings.ToLower(word)) {
			return m, true, nil
		}
	}
	return history.Memory{}, false, nil
}

// mustFind is find for a memory that has to be there. It prints it.
func (r *rememberer) mustFind(ctx context.Context, status, label, word string) (history.Memory, error) {
	m, found, err := r.find(ctx, status, word)
	if err == nil && !found {
		err = fmt.Errorf("there is no memory (%s) of %s", status, word)
	}
	if err != nil {
		return m, err
	}
	fmt.Fprintf(r.out, "          %s: %s\n", label, terminal.OneLine(m.Content))
	return m, nil
}

// mustNotFind checks that nothing active has a word in it any more.
func (r *rememberer) mustNotFind(ctx context.Context, word string) error {
	m, found, err := r.find(ctx, "active", word)
	if err == nil && found {
		err = fmt.Errorf("memory %s of %s is still active", m.ID, word)
	}
	return err
}

// counted formats a number of things whose plural is irregular.
func counted(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return grouped(n) + " " + more
}
