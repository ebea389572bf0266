package graph

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/google/uuid"
)

// Store keeps the graph.
type Store interface {
	// NextUser returns a user with memories that the graph has not looked at, whom no worker has and who was not put
	// off, but for those; uuid.Nil for none. Those for whom it failed least come first.
	NextUser(ctx context.Context, but []uuid.UUID) (uuid.UUID, error)
	// Unlinked returns memories of a user that the graph has not looked at, the oldest first.
	Unlinked(ctx context.Context, user uuid.UUID, most int) ([]Memory, error)
	// Link writes the entities of memories that are still as they were read, and returns how many these are.
	Link(ctx context.Context, user uuid.UUID, memories []Memory, found []Found) (int, error)
}

// Engine finds the entities of memories that a user wrote, edited or imported; an extraction names those of the memories
// that it finds. Its work may be done twice and be killed at any moment: a memory waits until its entities are written, and they are
// written only to the memories that the model was asked about. It is safe for concurrent use. All
// exported fields are required.
type Engine struct {
	Store   Store
	Leases  work.Store
	Asker   work.Asker
	Model   string
	Metrics *metrics.Metrics
	Logger  *slog.Logger

	mu  sync.Mutex
	had []uuid.UUID // who had a turn in this round, which outlives a call: others come before those of whom more is left
}

// Report is the output of update_memory_graph: numbers alone.
type Report struct {
	Users int `json:"users"`
	// Memories is how many were looked at, Changed how many of these were changed or deleted meanwhile.
	Memories      int `json:"memories"`
	Changed       int `json:"changed,omitempty"`
	Entities      int `json:"entities"`
	Relationships int `json:"relationships"`
	// Broken is how many memories were given up because the model's answers were broken, Failed for how many users the
	// model did not answer.
	Broken       int `json:"broken,omitempty"`
	Failed       int `json:"failed,omitempty"`
	Calls        int `json:"calls"`
	InputTokens  int `json:"input_tokens"`
	OutputTokens int `json:"output_tokens"`
	// More is whether patience was over before the work.
	More bool `json:"-"`
}

const (
	memoriesPerCall = 20
	// callsPerTurn is how many calls a user's memories get before those of others have had theirs.
	callsPerTurn = 5
	// mostFailures is after how many users in a row for whom the model fails it is left alone.
	mostFailures = 3
)

// UpdateGraph looks at the memories of all users, one user after the other, until patience is over. A model that fails ends
// nothing but this user's turn, who is put off; the last error is returned in the end.
func (e *Engine) UpdateGraph(ctx context.Context, patience time.Duration) (Report, error) {
	until := time.Now().Add(patience)
	var report Report
	var failure error
	inARow, linked := 0, -1 // linked is how many memories were before the round
	for time.Now().Before(until) && inARow < mostFailures {
		user, err := e.next(ctx)
		if err == nil && user == uuid.Nil && linked < report.Memories-report.Changed { // a round for those of whom more is left
			linked = report.Memories - report.Changed
			e.endRound()
			continue
		}
		if err != nil || user == uuid.Nil {
			return report, cmp.Or(err, failure)
		}
		report.Users++
		l := &linking{Engine: e, until: until, report: &report}
		l.lease = work.Lease{Kind: work.Graph, Key: user, UserID: user, Token: uuid.New(), Duration: lease}
		if _, err := work.Run(ctx, e.Leases, l.lease, true, l); err != nil {
			inARow++
			report.Failed++
			failure = err
		} else {
			inARow = 0
		}
	}
	report.More = inARow < mostFailures
	return report, failure
}

// next returns the user whose turn it is; uuid.Nil for none.
func (e *Engine) next(ctx context.Context) (uuid.UUID, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	user, err := e.Store.NextUser(ctx, e.had)
	if user != uuid.Nil {
		e.had = append(e.had, user)
	}
	return user, err
}

func (e *Engine) endRound() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.had = nil
}

// lease is how long a worker counts as alive after it renewed its lease.
const lease = 20 * time.Second

// linking looks at the memories of one user.
type linking struct {
	*Engine

	lease    work.Lease
	until    time.Time
	report   *Report
	memories []Memory
}

// Plan reads the first memories.
func (l *linking) Plan(ctx context.Context) (needed bool, err error) {
	l.memories, err = l.Store.Unlinked(ctx, l.lease.Key, memoriesPerCall)
	return len(l.memories) > 0, err
}

// Do looks at memories, some at a time.
func (l *linking) Do(ctx context.Context) error {
	for calls := 0; ; {
		linked, err := l.link(ctx)
		if err != nil {
			return err
		}
		calls++
		if linked == 0 || len(l.memories) < memoriesPerCall || calls == callsPerTurn || time.Now().After(l.until) {
			return l.Leases.Release(ctx, l.lease, true)
		}
		if more, err := l.Plan(ctx); err != nil || !more {
			return errors.Join(err, l.Leases.Release(ctx, l.lease, err == nil))
		}
	}
}

func (l *linking) link(ctx context.Context) (linked int, err error) {
	found, err := l.ask(ctx, l.lease.Key, l.memories, l.report)
	if err != nil {
		return 0, err
	}
	linked, err = l.Store.Link(ctx, l.lease.Key, l.memories, found)
	if err != nil {
		return 0, err
	}
	l.report.Memories += len(l.memories)
	l.report.Changed += len(l.memories) - linked
	for _, f := range found {
		l.report.Entities += len(f.Entities)
		l.report.Relationships += len(f.Relationships)
	}
	return linked, nil
}

// GiveUp puts the user off.
func (l *linking) GiveUp(ctx context.Context, cause error) (work.Result, error) {
	_, _, err := l.Leases.PutOff(ctx, l.lease, string(work.Failed), work.Delay{First: 10 * time.Minute, Longest: 6 * time.Hour})
	return work.Refused, errors.Join(cause, err)
}

// ask asks for the entities of memories. Where the model fails at them together it is asked for each half, until those are found
// that it fails at alone, which have none.
func (e *Engine) ask(ctx context.Context, user uuid.UUID, memories []Memory, report *Report) ([]Found, error) {
	found, err := e.askOnce(ctx, user, memories, report)
	if !errors.Is(err, work.ErrBroken) {
		return found, err
	}
	if len(memories) == 1 {
		return e.giveUp(ctx, memories, report), nil
	}
	half := len(memories) / 2
	first, err := e.ask(ctx, user, memories[:half], report)
	if err != nil {
		return nil, err
	}
	second, err := e.ask(ctx, user, memories[half:], report)
	return append(first, second...), err
}

// giveUp finds nothing in memories: the model would be asked for them again and again.
func (e *Engine) giveUp(ctx context.Context, memories []Memory, report *Report) []Found {
	report.Broken += len(memories)
	e.Logger.LogAttrs(ctx, slog.LevelWarn, "no entities of memories: the model's answers are broken",
		slog.Int("memories", len(memories)), slog.String("instructions", "entities v"+InstructionsVersion))
	return make([]Found, len(memories))
}

// askOnce asks once more when the answer is not of the form. After a second such answer the memories have no entities.
func (e *Engine) askOnce(ctx context.Context, user uuid.UUID, memories []Memory, report *Report) ([]Found, error) {
	var refused error
	for range 2 {
		calling, cancel := context.WithTimeout(ctx, time.Minute)
		answer, err := e.Asker.Ask(calling, work.Question{
			Purpose: "entities", Model: e.Model, Instructions: Instructions(refused), Input: Input(memories),
			Schema: Schema(), SchemaName: SchemaName, UserID: user,
		})
		cancel()
		if err != nil {
			return nil, err
		}
		report.Calls++
		report.InputTokens += answer.InputTokens
		report.OutputTokens += answer.OutputTokens
		e.Metrics.CountTokens("entities", answer.InputTokens, answer.CachedTokens, answer.OutputTokens)
		var found []Found
		if found, refused = ParseAnswer(answer.Text, memories); refused == nil {
			return found, nil
		}
	}
	return e.giveUp(ctx, memories, report), nil
}
