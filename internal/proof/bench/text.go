package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/tiktoken-go/tokenizer"
)

// measureText times the counting of tokens and the building of prompts.
func measureText(context.Context, *environment) (group, error) {
	g := group{Title: "work on text, no I/O"}
	codec, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		return g, err
	}
	for _, c := range []struct{ name, text string }{
		{"English", strings.Repeat(kit.Text(1)+"\n", 100)},
		{"one letter 30 000 times", strings.Repeat("a", 30_000)},
	} {
		// The library knows no error for valid text.
		ours, theirs, err := compare(func() { text.Tokens(c.text) }, func() { _, _ = codec.Count(c.text) })
		if err != nil {
			return g, err
		}
		rate := func(m micro) float64 { return float64(len(c.text)) * 1e3 / m.ns }
		g.add(row{What: "count tokens, " + c.name, Unit: "MB/s", Value: rate(ours), Baseline: rate(theirs), Against: "the library alone"})
	}
	for _, turns := range []int{10, 100} {
		built, joined, err := buildTimes(turns)
		if err != nil {
			return g, err
		}
		g.add(row{What: fmt.Sprintf("build a prompt of %d buffer turns", turns), Unit: "µs", Value: built.ns / 1e3, Baseline: joined.ns / 1e3, Against: "joining the texts"})
	}
	return g, nil
}

func buildTimes(turns int) (built, joined micro, err error) {
	messages := make([]memory.Message, 2*turns)
	texts := make([]string, len(messages))
	for i := range messages {
		role := memory.RoleUser
		if i%2 == 1 {
			role = memory.RoleAssistant
		}
		texts[i] = kit.Text(i)
		messages[i] = memory.Message{ID: kit.ID("message", i), Seq: int64(i + 1), Role: role, Status: memory.StatusComplete, Content: texts[i], Tokens: 60}
		if i%2 == 1 {
			messages[i].ReplyTo = messages[i-1].ID
		}
	}
	brief := memory.Brief{Summary: summaryText(), Tokens: text.Tokens(summaryText()), Version: 3}
	limits := memory.DefaultLimits()
	return compare(
		func() {
			prompt.Build(memory.Chat{Brief: brief, Buffer: messages}, prompt.Question{Content: "What next?"}, limits)
		},
		func() { _ = strings.Join(texts, "\n") })
}
