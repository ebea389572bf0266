package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// timedCommits is a store that times its commits.
type timedCommits struct {
	brief.Store
	took kit.Times
}

func (t *timedCommits) Commit(ctx context.Context, change brief.Change, within func(context.Context, pgx.Tx, brief.Counters) error) (bool, error) {
	began := time.Now()
	done, err := t.Store.Commit(ctx, change, within)
	t.took = append(t.took, time.Since(began))
	return done, err
}

// indexedCommits times the commits of folds, which index their turns.
func (e *environment) indexedCommits(ctx context.Context, g *group) error {
	if err := e.unfold(ctx); err != nil {
		return err
	}
	commits, chat := &timedCommits{Store: postgres.NewBriefs(e.pool)}, 0
	folder := e.folder(commits, instant{summaryText()}, metrics.New())
	whole := &arm{work: func(ctx context.Context) error {
		report, err := folder.Fold(ctx, kit.ID(dueChat, chat), brief.Job{})
		chat++
		if err == nil && report.Result != brief.Done {
			err = fmt.Errorf("the fold came to %q", report.Result)
		}
		return err
	}}
	if err := alternate(ctx, min(e.recall.commits, e.folds-e.recall.commits/20-2), whole); err != nil {
		return err
	}
	turns := dueTurns() - memory.DefaultLimits().KRawTurns
	for _, p := range []struct {
		name string
		q    float64
	}{{"p50", .5}, {"p95", .95}} {
		g.add(row{What: fmt.Sprintf("commit of a fold of %d turns, %s", turns, p.name), Unit: "ms", Value: commits.took.MS(p.q), Baseline: whole.took.MS(p.q), Against: "the whole fold"})
	}
	return e.unfold(ctx)
}
