package terminal

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/arcoscribe/throughline/internal/api"
)

const memoriesShown = 50

// MemoryLine formats a memory as one line.
func MemoryLine(memory api.Memory) string {
	notes := []string{memory.MemoryType}
	if memory.Status != "active" {
		notes = append(notes, memory.Status)
	}
	if memory.Pinned {
		notes = append(notes, "pinned")
	}
	return fmt.Sprintf("%s  (%s)", OneLine(memory.Content), OneLine(strings.Join(notes, ", ")))
}

// memories lists what the user is remembered for, or what some words are about.
func (t *talk) memories(ctx context.Context, words string) error {
	query := url.Values{"limit": {strconv.Itoa(memoriesShown)}}
	if words != "" {
		query.Set("q", words)
	}
	page, err := t.Client.Memories(ctx, query)
	if err != nil {
		return err
	}
	t.remembered = page.Memories
	for i, memory := range page.Memories {
		t.print("%3d  %s\n", i+1, MemoryLine(memory))
	}
	switch {
	case len(page.Memories) == 0 && words == "":
		t.print("Nothing is remembered yet.\n")
	case len(page.Memories) == 0:
		t.print("Nothing was found.\n")
	case page.NextCursor != nil:
		t.print("     … and more: `throughline memories list` shows all of them.\n")
	}
	return nil
}

func (t *talk) remember(ctx context.Context, content string) error {
	if content == "" {
		return errors.New("/remember wants a sentence, such as: I prefer oat milk")
	}
	memory, err := t.Client.Remember(ctx, content)
	return t.told(err, "Remembered in all chats: %s\n", MemoryLine(memory))
}

// forgetMemories forgets the memory with a number of /memories, or those that words mean.
func (t *talk) forgetMemories(ctx context.Context, which string) error {
	if number, err := strconv.Atoi(which); err == nil {
		return t.forgetNumber(ctx, number)
	}
	found, err := t.Client.ProposeForgetting(ctx, which)
	if err != nil {
		return err
	}
	if len(found.Candidates) == 0 {
		return t.told(nil, "Nothing is remembered of that.\n")
	}
	for _, candidate := range found.Candidates {
		t.print("     %s\n", OneLine(candidate.Content))
	}
	yes, err := t.ask(ctx, "Forget this for good?")
	forgotten := 0
	if yes && err == nil {
		forgotten, err = t.Client.Forget(ctx, found.Token)
	}
	return t.told(err, "%s\n", CountForgotten(forgotten))
}

func (t *talk) forgetNumber(ctx context.Context, number int) error {
	if number < 1 || number > len(t.remembered) {
		return errors.New("/forget NUMBER wants one of the last /memories")
	}
	return t.told(t.Client.ForgetMemory(ctx, t.remembered[number-1].ID), "%s\n", CountForgotten(1))
}

// CountForgotten says how many memories were forgotten.
func CountForgotten(n int) string {
	switch n {
	case 0:
		return "Nothing was forgotten."
	case 1:
		return "1 memory was forgotten."
	}
	return fmt.Sprintf("%d memories were forgotten.", n)
}
