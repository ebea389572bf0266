package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// figures are what the table at the end says.
type figures struct {
	rounds, crashes, looks int
	recoveries             []time.Duration
	violations             []violation
	// As the database has them at the end.
	chats, turns, again, folds, rebuilds, clears int
}

// count asks the database.
func (h *harness) count(ctx context.Context) error {
	return h.connected(ctx, func(conn *pgx.Conn) error {
		f := &h.figures
		return conn.QueryRow(ctx, `
			select (select count(*) from public.chats), (select count(*) from public.messages where role = 'user'),
			       (select count(*) from public.messages where superseded_by is not null),
			       count(*) filter (where kind = 'fold'), count(*) filter (where kind = 'rebuild'), count(*) filter (where kind = 'clear')
			  from public.conversation_brief_revisions`).Scan(&f.chats, &f.turns, &f.again, &f.folds, &f.rebuilds, &f.clears)
	})
}

func (f *figures) write(out io.Writer, h *harness) {
	kills := 0
	for _, m := range h.crew.members {
		kills += m.kills
	}
	heard := h.record.now().tally
	for _, row := range []struct {
		name  string
		value any
	}{
		{"rounds", f.rounds},
		{"processes killed", kills},
		{"crashes of Postgres", f.crashes},
		{"messages acknowledged", heard.acknowledged},
		{"replies heard to their end", heard.completed},
		{"replies stopped by their user", heard.cancelled},
		{"replies heard to break off", heard.brokeOff},
		{"replies written again", f.again},
		{"messages deleted", heard.deleted},
		{"chats", f.chats},
		{"turns stored", f.turns},
		{"folds", f.folds},
		{"briefs rebuilt", f.rebuilds},
		{"contexts cleared", f.clears},
		{"times everything was checked", f.looks},
		{"recovery, median", seconds(f.recoveries, 0.5)},
		{"recovery, longest", seconds(f.recoveries, 1)},
		{"violations", len(f.violations)},
	} {
		fmt.Fprintf(out, "%-30s %10v\n", row.name, row.value)
	}
	for _, v := range f.violations {
		fmt.Fprintf(out, "violation: %s: %s\n", v.name, v.sentence)
		for _, row := range v.rows {
			fmt.Fprintf(out, "  %s\n", row)
		}
	}
}

// seconds gives the value below which that share of the durations lies.
func seconds(durations []time.Duration, share float64) string {
	if len(durations) == 0 {
		return "-"
	}
	sorted := slices.Sorted(slices.Values(durations))
	return fmt.Sprintf("%.1f s", sorted[min(int(float64(len(sorted))*share), len(sorted)-1)].Seconds())
}
