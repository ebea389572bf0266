package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/memory/prompt"
)

// measureMemory drives one chat from its first turn to its last and adds up what each prompt remembered. A person takes
// longer to write than jobs take; here they are waited for.
func measureMemory(ctx context.Context, f *fleet, g *group) (err error) {
	g.title = fmt.Sprintf("memory in the prompts of one chat of %d turns of %d words", f.turns, f.words)
	t, err := f.openTrial(ctx, 1, "")
	defer func() { err = errors.Join(err, t.close()) }()
	if err != nil {
		return err
	}
	var talks [2][]remembered
	err = evenly(ctx, len(talks), 0, func(ctx context.Context, i int) (err error) { // no time is measured
		b := t.builds[i]
		for n := range f.turns {
			if err := b.round(ctx, n); err != nil {
				return fmt.Errorf("%s, turn %d: %w", b.name, n+1, err)
			}
		}
		talks[i], err = b.remembered(ctx)
		return err
	})
	if err != nil {
		return err
	}
	add := func(what, unit, figure string, target *target, of func([]remembered) float64) {
		g.add(row{what: what, unit: unit, figure: figure, target: target, values: []float64{of(talks[0]), of(talks[1])}})
	}
	last := func(talk []remembered) remembered { return talk[len(talk)-1] }
	add(fmt.Sprintf("memory at turn %d", f.turns), "tokens", "memory_tokens", nil, func(t []remembered) float64 { return float64(last(t).tokens()) })
	add("the whole history before it", "tokens", "history_tokens", nil, func(t []remembered) float64 { return float64(last(t).history) })
	add("memory of the last turns from one fold to the next, to the first", "×", "memory_growth", atMost(1.1), growth)
	add("turns that were in neither brief nor prompt", "", "", atMost(0), func(t []remembered) (dropped float64) {
		for _, r := range t {
			dropped += float64(r.DroppedTurns)
		}
		return dropped
	})
	g.note("memory: brief, turns word for word, and as shipped what was recalled and what is known of the user; %d folds", last(talks[0]).BriefVersion)
	return nil
}

// remembered is the memory in the prompt of one turn.
type remembered struct {
	prompt.Receipt
	history int // tokens of the whole conversation before this turn
}

func (r remembered) tokens() int {
	all := r.BriefTokens + r.BridgeTokens + r.TailTokens
	for _, more := range []*int{r.RecallTokens, r.MemoryTokens} {
		if more != nil {
			all += *more
		}
	}
	return all
}

// remembered returns what the prompts of all turns had, by the receipts of their replies.
func (b *build) remembered(ctx context.Context) ([]remembered, error) {
	rows, err := b.admin.Query(ctx, `
		select r.metadata->'memory', (select coalesce(sum(m.token_count), 0) from public.messages m where m.chat_id = r.chat_id and m.seq < r.seq - 1)
		  from public.messages r where r.role = 'assistant' order by r.seq`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r remembered, err error) {
		err = row.Scan(&r.Receipt, &r.history)
		return r, err
	})
}

// growth compares the last turns from one fold to the next with the first ones, by their means: memory grows with each
// turn and shrinks with a fold. It is 0 without two whole ones.
func growth(talk []remembered) float64 {
	var means []float64
	for begin := 0; begin < len(talk); {
		end, sum := begin, 0
		for ; end < len(talk) && talk[end].BriefVersion == talk[begin].BriefVersion; end++ {
			sum += talk[end].tokens()
		}
		if talk[begin].BriefVersion > 0 && end < len(talk) { // neither before the first fold nor after the last
			means = append(means, float64(sum)/float64(end-begin))
		}
		begin = end
	}
	if len(means) < 2 {
		return 0
	}
	return means[len(means)-1] / means[0]
}
