package chat

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/google/uuid"
)

// Retriever retrieves a section of the prompt for a question, for example with a search or a call of another model. It
// runs once the turn is stored, when it is known what the prompt shows in any case.
type Retriever interface {
	// Section returns the section's name in package prompt.
	Section() string
	// Needed reports whether there may be something to retrieve. Otherwise Retrieve is not called and nothing is waited for.
	Needed(query *Query) bool
	// Retrieve returns the section without its heading; without text when there is nothing to show. It has to quote the
	// texts that people wrote. It should return when ctx ends: what it returns later is not used.
	Retrieve(ctx context.Context, user auth.Principal, query Query) (prompt.Section, error)
}

// Query is the message for which a Retriever retrieves, and what its prompt shows in any case.
type Query struct {
	ChatID  uuid.UUID
	Content string // of the user's message
	Chat    memory.Chat
	// ShownFrom is the seq from which on the prompt shows the chat's turns, and Shown are the seqs of single messages
	// that it shows besides.
	ShownFrom int64
	Shown     []int64
	// Room is the most tokens that all retrieved sections may take together.
	Room int
}

// LeftPrompt reports whether indexed turns of the chat may be out of the prompt: after the last clear, and before the
// first turn that is shown.
func (q *Query) LeftPrompt() bool {
	cleared := q.Chat.Brief.ClearedSeq
	return q.Chat.IndexedSeq > cleared && q.ShownFrom > cleared+1
}

// retrieve returns the sections that are retrieved for a question, with those that are missing. All lookups have a common
// deadline, RetrieveTimeout from now.
func (s *Service) retrieve(ctx context.Context, user auth.Principal, query Query) []prompt.Section {
	sections := make([]prompt.Section, len(s.Retrievers))
	var needed []int
	for i, retriever := range s.Retrievers {
		sections[i].Name = retriever.Section()
		if retriever.Needed(&query) {
			needed = append(needed, i)
		}
	}
	if len(needed) == 0 {
		return sections
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.RetrieveTimeout)
	defer cancel()
	found := make([]chan prompt.Section, len(s.Retrievers)) // with room for the section, so that a late one ends
	for _, i := range needed {
		found[i] = make(chan prompt.Section, 1)
		s.background.Go(func() { found[i] <- s.lookUp(ctx, s.Retrievers[i], user, query) })
	}
	for _, i := range needed {
		section, inTime := await(ctx, found[i])
		if !inTime {
			section.Failure = lookupLate
		}
		section.Name = sections[i].Name
		sections[i] = section
		s.Metrics.Retrievals.WithLabelValues(section.Name, resultOfLookup(section)).Inc()
	}
	return sections
}

// await returns the section of a lookup, and whether it came before the deadline.
func await(ctx context.Context, found <-chan prompt.Section) (section prompt.Section, inTime bool) {
	select {
	case section = <-found:
		return section, true
	case <-ctx.Done():
	}
	select {
	case section = <-found: // both at once
		return section, true
	default:
		return prompt.Section{}, false
	}
}

// lookUp returns what a retriever found. An error or a panic becomes a section with a failure, so that the reply does not
// fail with it.
func (s *Service) lookUp(ctx context.Context, retriever Retriever, user auth.Principal, query Query) (section prompt.Section) {
	var err error
	defer func() {
		if broken := recover(); broken != nil {
			err = fmt.Errorf("panic of type %T", broken)
		}
		if err != nil {
			section = prompt.Section{Account: prompt.Account{Failure: failureOfLookup(err)}}
			s.Logger.LogAttrs(ctx, slog.LevelWarn, "not retrieved", slog.String("section", retriever.Section()), slog.Any("error", err))
		}
	}()
	section, err = retriever.Retrieve(ctx, user, query)
	return section
}

// The failures of a lookup in receipts and metrics.
const (
	lookupLate   = "late"
	lookupFailed = "failed"
)

func failureOfLookup(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return lookupLate
	}
	return lookupFailed
}

func resultOfLookup(section prompt.Section) string {
	switch {
	case section.Failure != "":
		return section.Failure
	case section.Text == "":
		return "nothing"
	default:
		return "found"
	}
}
