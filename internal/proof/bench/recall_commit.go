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

// indexedCommits times the commits of folds with and without the index, one after another and by turns.
func (e *environment) indexedCommits(ctx context.Context, g *group) error {
	if err := e.unfold(ctx); err != nil {
		return err
	}
	off := &timedCommits{Store: postgres.NewBriefs(e.pool, false)}
	on := &timedCommits{Store: postgres.NewBriefs(e.pool, true)}
	chat := 0
	fold := func(store brief.Store) *arm {
		folder := e.folder(store, instant{summaryText()}, metrics.New())
		return &arm{work: func(ctx context.Context) error {
			report, err := folder.Fold(ctx, kit.ID(dueChat, chat), brief.Job{})
			chat++
			if err == nil && report.Result != brief.Done {
				err = fmt.Errorf("the fold came to %q", report.Result)
			}
			return err
		}}
	}
	without, with := fold(off), fold(on)
	if err := alternate(ctx, min(e.recall.commits, e.folds/2-e.recall.commits/20-2), without, with); err != nil {
		return err
	}
	turns := dueTurns() - memory.DefaultLimits().KRawTurns
	for _, p := range []struct {
		name string
		q    float64
	}{{"p50", .5}, {"p95", .95}} {
		g.add(
			row{What: fmt.Sprintf("commit of a fold of %d turns, %s", turns, p.name), Unit: "ms", Value: on.took.MS(p.q), Baseline: off.took.MS(p.q), Against: "RECALL=off"},
			row{What: "the whole fold, " + p.name, Unit: "ms", Value: with.took.MS(p.q), Baseline: without.took.MS(p.q), Against: "RECALL=off"},
		)
	}
	return e.unfold(ctx)
}
