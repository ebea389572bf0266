package chat

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/google/uuid"
)

// Retriever retrieves a section of the prompt for a question, for example with a call of another model. It runs while the
// turn is stored.
type Retriever interface {
	// Section returns the section's name in package prompt.
	Section() string
	// Retrieve returns the section without its heading; without text when there is nothing to show. It has to quote the
	// texts that people wrote. It should return when ctx ends: what it returns later is not used.
	Retrieve(ctx context.Context, user auth.Principal, query Query) (prompt.Section, error)
}

// Query is the message for which a Retriever retrieves.
type Query struct {
	ChatID  uuid.UUID // the chat may not exist, or belong to another user
	NewChat bool
	Content string // of the user's message
}

// retrieval is the running lookups of one turn.
type retrieval struct {
	ctx    context.Context //nolint:containedctx // ends at the deadline of the lookups
	cancel context.CancelFunc
	found  []chan prompt.Section // one per retriever, with room for its section
}

// retrieve starts all lookups. They have a common deadline, RetrieveTimeout from now.
func (s *Service) retrieve(ctx context.Context, user auth.Principal, turn NewTurn) *retrieval {
	r := &retrieval{found: make([]chan prompt.Section, len(s.Retrievers))}
	r.ctx, r.cancel = context.WithTimeout(context.WithoutCancel(ctx), s.RetrieveTimeout)
	query := Query{ChatID: turn.ChatID, NewChat: turn.NewChat, Content: turn.Content}
	for i, retriever := range s.Retrievers {
		r.found[i] = make(chan prompt.Section, 1)
		s.background.Go(func() { r.found[i] <- s.lookUp(r.ctx, retriever, user, query) })
	}
	return r
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
		}
		if err != nil && !errors.Is(context.Cause(ctx), context.Canceled) { // not because the message was refused
			s.Logger.LogAttrs(ctx, slog.LevelWarn, "not retrieved", slog.String("section", retriever.Section()), slog.Any("error", err))
		}
		section.Name = retriever.Section()
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

// retrieved waits for the lookups until their deadline and returns their sections, with those that failed.
func (s *Service) retrieved(r *retrieval) []prompt.Section {
	sections := make([]prompt.Section, len(r.found))
	for i, retriever := range s.Retrievers {
		section, inTime := r.await(i)
		if !inTime {
			section = prompt.Section{Account: prompt.Account{Name: retriever.Section(), Failure: lookupLate}}
		}
		sections[i] = section
		s.Metrics.Retrievals.WithLabelValues(retriever.Section(), resultOfLookup(sections[i])).Inc()
	}
	return sections
}

// await returns the section of a lookup, and whether it came before the deadline. The start of the turn may have taken
// longer than that: then there is a section to take, although the deadline has passed.
func (r *retrieval) await(i int) (section prompt.Section, inTime bool) {
	select {
	case section = <-r.found[i]:
		return section, true
	default:
	}
	select {
	case section = <-r.found[i]:
		return section, true
	case <-r.ctx.Done():
		return prompt.Section{}, false
	}
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
