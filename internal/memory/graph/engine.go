package graph

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/arcoscribe/throughline/internal/memory/lease"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/google/uuid"
)

// Store keeps the graph.
type Store interface {
	// ClaimUser gives the caller, who is named by the token, the next user after one who has memories that the graph has not
	// looked at. uuid.Nil means that there is none, or that other workers have them.
	ClaimUser(ctx context.Context, after, token uuid.UUID, duration time.Duration) (uuid.UUID, error)
	// ReleaseUser lets other workers have the user, unless one has taken it over.
	ReleaseUser(ctx context.Context, user, token uuid.UUID) error
	// Unlinked returns memories of a user that the graph has not looked at, the oldest first.
	Unlinked(ctx context.Context, user uuid.UUID, most int) ([]Memory, error)
	// Link writes what was found in memories that are still as they were read, and returns how many these are.
	Link(ctx context.Context, user uuid.UUID, memories []Memory, found []Found) (int, error)
}

// Config configures an Engine. All fields without a default are required.
type Config struct {
	Store   Store
	Asker   lease.Asker
	Model   string
	Metrics *metrics.Metrics
	Logger  *slog.Logger
	// CallTimeout bounds each call of the model. Defaults to 60 s.
	CallTimeout time.Duration
}

// Engine finds the entities of memories that a user wrote, edited or imported; an extraction names those of what it
// finds. Its work may be done twice and be killed at any moment: a memory waits until its entities are written, and they are
// written only to what the model was asked about. It is safe for concurrent use.
type Engine struct{ Config }

// New returns an engine.
func New(config Config) *Engine {
	config.CallTimeout = cmp.Or(config.CallTimeout, time.Minute)
	return &Engine{config}
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
}

const (
	memoriesPerCall = 20
	// mostFailures is after how many users in a row for whom the model fails it is left alone.
	mostFailures = 3
)

// UpdateGraph looks at the memories of all users, one user after the other, until patience is over. A model that fails ends
// nothing but this user's turn; the last error is returned in the end.
func (e *Engine) UpdateGraph(ctx context.Context, patience time.Duration) (Report, error) {
	until := time.Now().Add(patience)
	var report Report
	var failure error
	inARow := 0
	for user := uuid.Nil; time.Now().Before(until) && inARow < mostFailures; {
		token := uuid.New()
		next, err := e.Store.ClaimUser(ctx, user, token, patience+2*e.CallTimeout)
		if err != nil || next == uuid.Nil {
			return report, cmp.Or(err, failure)
		}
		user = next
		report.Users++
		inARow++
		if err := e.updateUser(ctx, user, until, &report); err != nil {
			report.Failed++
			failure = err
		} else {
			inARow = 0
		}
		if err := e.release(ctx, user, token); err != nil {
			return report, err
		}
	}
	return report, failure
}

func (e *Engine) release(ctx context.Context, user, token uuid.UUID) error {
	ctx, cancel := lease.Afterwards(ctx)
	defer cancel()
	return e.Store.ReleaseUser(ctx, user, token)
}

// updateUser looks at the memories of a user, some at a time. The claim lasts as long as that may take;
// should it run out, what two workers write is the same, and written once.
func (e *Engine) updateUser(ctx context.Context, user uuid.UUID, until time.Time, report *Report) error {
	for time.Now().Before(until) {
		memories, err := e.Store.Unlinked(ctx, user, memoriesPerCall)
		if err != nil || len(memories) == 0 {
			return err
		}
		found, err := e.ask(ctx, user, memories, report)
		if err != nil {
			return err
		}
		linked, err := e.Store.Link(ctx, user, memories, found)
		if err != nil {
			return err
		}
		report.Memories += len(memories)
		report.Changed += len(memories) - linked
		for _, f := range found {
			report.Entities += len(f.Entities)
			report.Relationships += len(f.Relationships)
		}
		if linked == 0 || len(memories) < memoriesPerCall {
			return nil
		}
	}
	return nil
}

// ask asks for the entities of memories, and once more when the answer is broken. After a second broken one they have none:
// the model would be asked again and again.
func (e *Engine) ask(ctx context.Context, user uuid.UUID, memories []Memory, report *Report) ([]Found, error) {
	var refused error
	for range 2 {
		answer, err := e.call(ctx, lease.Question{
			Purpose: "entities", Model: e.Model, Instructions: Instructions(refused), Input: Input(memories),
			Schema: Schema(), SchemaName: SchemaName, UserID: user,
		})
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
	report.Broken += len(memories)
	e.Logger.LogAttrs(ctx, slog.LevelWarn, "no entities of memories: the model's answers are broken",
		slog.Int("memories", len(memories)), slog.String("instructions", "entities v"+InstructionsVersion))
	return make([]Found, len(memories)), nil
}

func (e *Engine) call(ctx context.Context, question lease.Question) (lease.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, e.CallTimeout)
	defer cancel()
	return e.Asker.Ask(ctx, question)
}
