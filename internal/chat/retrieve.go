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

// Retriever looks up a section of the prompt that the question calls for and that costs more than the turn's own
// round trip, such as a call of another model.
type Retriever interface {
	// Section names the section, as package prompt does.
	Section() string
	// Retrieve returns the section without its heading; one without text when there is nothing to show. Texts that
	// people wrote are quoted already. It should return when ctx ends: what it returns later is not used.
	Retrieve(ctx context.Context, user auth.Principal, query Query) (prompt.Section, error)
}

// Query is what a Retriever looks for.
type Query struct {
	ChatID  uuid.UUID // of a chat that may not exist, or not for this user
	NewChat bool
	Content string // of the user's message
}

// retrieval is the lookups of one turn under way.
type retrieval struct {
	ctx    context.Context //nolint:containedctx // the lookups' own: it ends at their deadline
	cancel context.CancelFunc
	found  []chan prompt.Section // of one element, by the service's retrievers
}

// retrieve starts all lookups beside the start of the turn. They have one deadline, counted from here.
func (s *Service) retrieve(ctx context.Context, user auth.Principal, turn NewTurn) *retrieval {
	r := &retrieval{found: make([]chan prompt.Section, len(s.Retrievers))}
	r.ctx, r.cancel = context.WithTimeout(context.WithoutCancel(ctx), s.RetrieveTimeout)
	query := Query{ChatID: turn.ChatID, NewChat: turn.NewChat, Content: turn.Content}
	for i, retriever := range s.Retrievers {
		r.found[i] = make(chan prompt.Section, 1)
		s.keeping.Go(func() { r.found[i] <- s.lookUp(r.ctx, retriever, user, query) })
	}
	return r
}

// lookUp returns what a retriever found. A failure, a panic among them, is a section that says so: it must not cost
// the reply.
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
		section.Name = retriever.Section()
	}()
	section, err = retriever.Retrieve(ctx, user, query)
	return section
}

// The failures of a lookup, as the receipt and the metrics name them.
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

// retrieved waits for the lookups until their deadline and returns their sections, those that failed included.
func (s *Service) retrieved(r *retrieval) []prompt.Section {
	sections := make([]prompt.Section, len(r.found))
	for i, retriever := range s.Retrievers {
		select {
		case sections[i] = <-r.found[i]:
		case <-r.ctx.Done():
			sections[i] = prompt.Section{Account: prompt.Account{Name: retriever.Section(), Failure: lookupLate}}
		}
		s.Metrics.Retrievals.WithLabelValues(retriever.Section(), resultOfLookup(sections[i])).Inc()
	}
	return sections
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
