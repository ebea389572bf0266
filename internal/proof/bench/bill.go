package main

import (
	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// What tokens cost, in input tokens: about what providers ask for in their lists. A prompt that begins as the
// one before it is cached, in steps, from a length on.
const (
	outputPrice   = 8
	cachedPrice   = 0.1
	cachedFrom    = 1024
	cachedInSteps = 128
)

// bill is what a number of model calls read and wrote, in tokens.
type bill struct {
	calls, input, cached, output int
	before                       string // the prompt of the latest call
}

// add counts a call: its prompt with the instructions, and the answer. The prompt is counted in two parts, what it
// shares with the one before and the rest, which makes a token more at most.
func (b *bill) add(prompt, answer string) {
	shared := commonPrefix(b.before, prompt)
	again := text.Tokens(prompt[:shared])
	b.calls++
	b.input += again + text.Tokens(prompt[shared:])
	if again >= cachedFrom {
		b.cached += again / cachedInSteps * cachedInSteps
	}
	b.output += text.Tokens(answer)
	b.before = prompt
}

func (b *bill) cost() float64          { return float64(b.input + outputPrice*b.output) }
func (b *bill) costWithCache() float64 { return b.cost() - (1-cachedPrice)*float64(b.cached) }

// work is memory's own use of models, beside the replies.
type work struct {
	bill
	embeddings int // calls
}

// meter reads the work off what a model was asked.
type meter struct {
	work
	model *offline.Server
	read  int
}

// count takes in what was asked since the last time.
func (m *meter) count() work {
	all := m.model.Requests()
	for _, r := range all[m.read:] {
		switch r.Kind {
		case offline.KindSummary:
			m.add(r.Instructions+"\n"+r.Text, r.Sent)
		case offline.KindEmbedding:
			m.embeddings++
		}
	}
	m.read = len(all)
	return m.work
}
