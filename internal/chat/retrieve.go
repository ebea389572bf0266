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

// Retriever retrieves sections of the prompt for a question, for example with a search or a call of another model. It
// runs once the turn is stored, when it is known what the prompt shows in any case.
type Retriever interface {
	// Section returns the name in package prompt of the section under which the receipt speaks of the lookup, also where
	// it found nothing or failed.
	Section() string
	// Applies reports whether prompts of the chat may have the section. Otherwise the receipt does not speak of it.
	Applies(query *Query) bool
	// Needed reports whether there may be something to retrieve. Otherwise Retrieve is not called and nothing is waited for.
	Needed(query *Query) bool
	// Retrieve returns sections with their names and without their headings: that of Section in any case, without text
	// when there is nothing to show, and others that it found. It has to quote the texts that people wrote. It should
	// return when ctx ends: what it returns later is not used. With an error it may return what is worth showing all the same.
	Retrieve(ctx context.Context, user auth.Principal, query Query) ([]prompt.Section, error)
}

// Query is the message for which a Retriever retrieves, and what its prompt shows in any case.
type Query struct {
	ChatID  uuid.UUID
	Content string // of the user's message
	Chat    memory.Chat
	// Visible are the messages that the prompt shows word for word, or cut.
	Visible []memory.Message
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
	var sections []prompt.Section
	var needed []Retriever
	for _, retriever := range s.Retrievers {
		switch {
		case !retriever.Applies(&query):
		case retriever.Needed(&query):
			needed = append(needed, retriever)
		default:
			sections = append(sections, missing(retriever, ""))
		}
	}
	if len(needed) == 0 {
		return sections
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.RetrieveTimeout)
	defer cancel()
	lookups := make([]chan []prompt.Section, len(needed))
	for i, retriever := range needed {
		lookups[i] = make(chan []prompt.Section, 1) // with room for the sections, so that a late lookup ends
		s.background.Go(func() { lookups[i] <- s.lookUp(ctx, retriever, user, query) })
	}
	for i, retriever := range needed {
		found, inTime := await(ctx, lookups[i])
		if !inTime {
			found = []prompt.Section{missing(retriever, lookupLate)}
		}
		for _, section := range found {
			s.Metrics.Retrievals.WithLabelValues(section.Name, resultOfLookup(section)).Inc()
		}
		sections = append(sections, found...)
	}
	prompt.FitRetrieved(sections, query.Room)
	return sections
}

// missing is the section of a retriever that found nothing or failed.
func missing(retriever Retriever, failure string) prompt.Section {
	return prompt.Section{Account: prompt.Account{Name: retriever.Section(), Failure: failure}}
}

// await returns what a lookup found, and whether it came before the deadline.
func await(ctx context.Context, lookup <-chan []prompt.Section) (found []prompt.Section, inTime bool) {
	select {
	case found = <-lookup:
		return found, true
	case <-ctx.Done():
	}
	select {
	case found = <-lookup: // both at once
		return found, true
	default:
		return nil, false
	}
}

// lookUp returns what a retriever found. An error or a panic becomes a section with a failure, so that the reply does not
// fail with it.
func (s *Service) lookUp(ctx context.Context, retriever Retriever, user auth.Principal, query Query) (found []prompt.Section) {
	var err error
	defer func() {
		if broken := recover(); broken != nil {
			err = fmt.Errorf("panic of type %T", broken)
		}
		if err != nil {
			if len(found) == 0 {
				found = []prompt.Section{missing(retriever, "")}
			}
			found[0].Failure = failureOfLookup(err)
			s.Logger.LogAttrs(ctx, slog.LevelWarn, "not retrieved", slog.String("section", retriever.Section()), slog.Any("error", err))
		}
	}()
	found, err = retriever.Retrieve(ctx, user, query)
	return found
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
