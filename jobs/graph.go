package jobs

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/arcoscribe/throughline/internal/memory/graph"
	"github.com/riverqueue/river"
)

// Grapher keeps the graph of what memories are about.
type Grapher interface {
	// UpdateGraph looks at memories that the graph does not have, until patience is over.
	UpdateGraph(ctx context.Context, patience time.Duration) (graph.Report, error)
}

var _ Grapher = (*graph.Engine)(nil)

const (
	// graphInterval is the time between two update_memory_graph jobs.
	graphInterval = 30 * time.Minute
	// graphPatience is how long one job goes on; its last calls of the model may end later. Other jobs of its queue wait.
	graphPatience = 20 * time.Second
	graphTimeout  = graphPatience + 3*time.Minute
)

// UpdateMemoryGraph finds the entities of memories that were written, edited or imported.
type UpdateMemoryGraph struct{}

// InsertOpts are those of a queue in which jobs wait for the model.
func (UpdateMemoryGraph) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: QueueMemories, MaxAttempts: 1}
}

// Kind is the job's name in River's tables.
func (UpdateMemoryGraph) Kind() string { return "update_memory_graph" }

func (c *WorkerConfig) updateGraph(ctx context.Context, _ *river.Job[UpdateMemoryGraph]) error {
	report, err := c.Grapher.UpdateGraph(ctx, graphPatience)
	if report.Memories > 0 || err != nil {
		c.Logger.LogAttrs(ctx, slog.LevelInfo, "graph of memories updated",
			slog.Int("memories", report.Memories), slog.Int("entities", report.Entities), slog.Int("relationships", report.Relationships),
			slog.Int("calls", report.Calls), slog.Int("failed_users", report.Failed))
	}
	if err = errors.Join(err, river.RecordOutput(ctx, report)); err == nil && report.More {
		return river.JobSnooze(0)
	}
	return err
}
