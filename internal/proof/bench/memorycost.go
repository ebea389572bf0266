package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// measureMemoryCost plays the same conversation, with the same replies, to four ways of remembering it. It counts
// what each costs, and which facts reach the model.
func measureMemoryCost(ctx context.Context, e *environment) (group, error) {
	messages, err := conversationOf(e.remember.turns)
	if err != nil {
		return group{}, err
	}
	known := slices.DeleteFunc(slices.Clone(facts), func(f fact) bool { return f.turn > len(messages)/2 })
	g := group{Title: fmt.Sprintf("one conversation of %d turns, kept by four", len(messages))}
	var all []keeping
	for _, open := range []func(context.Context) (keeper, error){e.newOurs, e.newFullHistory, e.newEveryTurn, e.newMem0} {
		one, err := e.keep(ctx, open, messages, known)
		if err != nil {
			return g, fmt.Errorf("%s: %w", cmp.Or(one.name, "start"), err)
		}
		g.Columns = append(g.Columns, one.name)
		all = append(all, one)
	}
	for _, f := range costFigures {
		for _, one := range all {
			g.add(row{What: f.what, Unit: f.unit, Of: one.name, Value: f.of(one, all[fullHistoryAt])})
		}
	}
	g.note("models are stand-ins: a summary or an extraction takes %v, an embedding %v; replies are free and the same", e.remember.summaryTime, e.remember.embeddingTime)
	g.note("cost: an output token is %d input tokens, a cached one %v, an embedding nothing; one model for all work", outputPrice, cachedPrice)
	g.note("after it: ours on River, while nobody waits; mem0 in the app's process, whose caller waits or does not")
	g.note("known: of %d facts, said in the first half; a question about each is asked behind the last turn", len(known))
	g.panels = func([]row) []kit.Panel { return costPanels(all) }
	return g, e.clearJobs(ctx)
}

// fullHistoryAt is the index of the keeper that forgets nothing.
const fullHistoryAt = 1

// keeping is the result of a conversation with one keeper.
type keeping struct {
	name  string
	last  string // prompt of the main model
	main  bill
	work  work
	sent  []float64 // tokens of each prompt of the main model
	total []float64 // all tokens that models read and wrote up to each turn, but for the replies
	// waited and standIn are as in turnCost; after is the sum.
	waited, standIn kit.Times
	after           time.Duration
	inLast          float64 // share of the facts in the last prompt
	inOwn           float64 // share of the facts in the prompt of a question about them
}

func (e *environment) keep(ctx context.Context, open func(context.Context) (keeper, error), messages []string, known []fact) (k keeping, err error) {
	keeper, err := open(ctx)
	if err != nil {
		return k, err
	}
	defer func() { err = errors.Join(err, keeper.close()) }()
	k.name = keeper.name
	for n, content := range messages {
		t, err := keeper.turn(ctx, content, replyTo(n))
		if err != nil {
			return k, fmt.Errorf("turn %d: %w", n+1, err)
		}
		k.add(t, keeper.spent())
	}
	for n, f := range known {
		if f.in(k.last) {
			k.inLast += 100 / float64(len(known))
		}
		t, err := keeper.turn(ctx, f.question, replyTo(len(messages)+n))
		if err != nil {
			return k, fmt.Errorf("question %d: %w", n+1, err)
		}
		if f.in(t.input) {
			k.inOwn += 100 / float64(len(known))
		}
	}
	return k, nil
}

func (k *keeping) add(t turnCost, spent work) {
	sent, _ := k.main.add(chat.DefaultInstructions+"\n"+t.input, "")
	k.last, k.work = t.input, spent
	k.waited, k.standIn, k.after = append(k.waited, t.waited), append(k.standIn, t.standIn), k.after+t.after
	k.sent = append(k.sent, float64(sent))
	k.total = append(k.total, float64(k.main.input+spent.input+spent.output)/1e6)
}

// per100 is a figure of the conversation for 100 of its turns.
func per100[T int | float64](k keeping, figure T) float64 {
	return float64(figure) * 100 / float64(k.main.calls)
}

// costFigures are the figures of each keeper, beside the one that sends everything.
var costFigures = []struct {
	what, unit string
	of         func(k, full keeping) float64
}{
	{"model calls per 100 turns", "", func(k, _ keeping) float64 { return per100(k, k.main.calls+k.work.calls) }},
	{"of them memory work", "", func(k, _ keeping) float64 { return per100(k, k.work.calls) }},
	{"embedding calls per 100 turns", "", func(k, _ keeping) float64 { return per100(k, k.work.embeddings) }},
	{"input tokens per 100 turns, thousands", "", func(k, _ keeping) float64 { return per100(k, k.main.input+k.work.input) / 1e3 }},
	{"of them memory work", "", func(k, _ keeping) float64 { return per100(k, k.work.input) / 1e3 }},
	{"memories across chats: model calls a turn", "", func(k, _ keeping) float64 { return per100(k, k.work.memories.calls) / 100 }},
	{"memories across chats: input tokens a turn", "", func(k, _ keeping) float64 { return per100(k, k.work.memories.input) / 100 }},
	{"output tokens of memory work, thousands", "", func(k, _ keeping) float64 { return per100(k, k.work.output) / 1e3 }},
	{"prompt of the last turn", "tokens", func(k, _ keeping) float64 { return k.sent[len(k.sent)-1] }},
	{"cost, to the full history's", "×", func(k, full keeping) float64 { return k.cost() / full.cost() }},
	{"the same, prompts cached", "×", func(k, full keeping) float64 { return k.costWithCache() / full.costWithCache() }},
	{"wait before the model is asked, p50", "ms", func(k, _ keeping) float64 { return k.waited.MS(.5) }},
	{"wait before the model is asked, p95", "ms", func(k, _ keeping) float64 { return k.waited.MS(.95) }},
	{"of it a stand-in's own time, p50", "ms", func(k, _ keeping) float64 { return k.standIn.MS(.5) }},
	{"memory work after it, per 100 turns", "s", func(k, _ keeping) float64 { return per100(k, k.after.Seconds()) }},
	{"known: in the last prompt", "%", func(k, _ keeping) float64 { return k.inLast }},
	{"known: in the prompt of a question about it", "%", func(k, _ keeping) float64 { return k.inOwn }},
}

func (k *keeping) cost() float64          { return k.main.cost() + k.work.cost() }
func (k *keeping) costWithCache() float64 { return k.main.costWithCache() + k.work.costWithCache() }

func costPanels(all []keeping) []kit.Panel {
	sent := kit.Panel{Title: "Prompt of each turn", Unit: "tokens", X: "turn"}
	total := kit.Panel{Title: "Sent and written so far, memory work included", Unit: "million tokens", X: "turn"}
	for _, k := range all {
		sent.Lines = append(sent.Lines, kit.Line{Name: k.name, Points: pointsOf(k.sent)})
		total.Lines = append(total.Lines, kit.Line{Name: k.name, Points: pointsOf(k.total)})
	}
	return []kit.Panel{sent, total}
}

func pointsOf(values []float64) []kit.Point {
	points := make([]kit.Point, len(values))
	for i, value := range values {
		points[i] = kit.Point{X: float64(i), Y: value}
	}
	return points
}

// Prices in input tokens, about those of providers. What a prompt shares with the beginning of the one before is
// cached, in steps, from a length on.
const (
	outputPrice   = 8
	cachedPrice   = 0.1
	cachedFrom    = 1024
	cachedInSteps = 128
)

// bill counts the tokens of model calls.
type bill struct {
	calls, input, cached, output int
	before                       string // the prompt of the latest call
}

// add counts a call: its prompt with the instructions, and the answer. The prompt is counted in two parts, the
// one shared with the prompt before and the rest, which adds a token at most. It returns the tokens of this call.
func (b *bill) add(prompt, answer string) (input, output int) {
	shared := commonPrefix(b.before, prompt)
	again := text.Tokens(prompt[:shared])
	b.calls++
	input, output = again+text.Tokens(prompt[shared:]), text.Tokens(answer)
	b.input, b.output = b.input+input, b.output+output
	if again >= cachedFrom {
		b.cached += again / cachedInSteps * cachedInSteps
	}
	b.before = prompt
	return input, output
}

func (b *bill) cost() float64          { return float64(b.input + outputPrice*b.output) }
func (b *bill) costWithCache() float64 { return b.cost() - (1-cachedPrice)*float64(b.cached) }

// work is the use of models for memory, beside the replies.
type work struct {
	bill
	embeddings int // calls
	// memories is the part of it for what is remembered across chats.
	memories bill
}

// meter counts the work from the requests to a model.
type meter struct {
	work
	model *offline.Server
	read  int
}

// count adds the requests since the last call.
func (m *meter) count() work {
	all := m.model.Requests()
	for _, r := range all[m.read:] {
		switch r.Kind {
		case offline.KindExtract, offline.KindConsolidate:
			m.memories.add(r.Instructions+"\n"+r.Text, r.Sent)
			m.add(r.Instructions+"\n"+r.Text, r.Sent)
		case offline.KindSummary:
			m.add(r.Instructions+"\n"+r.Text, r.Sent)
		case offline.KindEmbedding:
			m.embeddings++
		}
	}
	m.read = len(all)
	return m.work
}
