package tools

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// script is what a model says for one reply, step by step. The last step calls nothing.
type script struct {
	steps   [][]offline.Item
	refuses bool // the client refuses every second call
}

var randomScripts = rapid.Custom(func(t *rapid.T) (s script) {
	texts := rapid.SampledFrom([]string{"Let me see. ", "Où est 👋🏽 le taxi?", " and\n\nthen", "x"})
	for range rapid.IntRange(0, 3).Draw(t, "steps") {
		var step []offline.Item
		spoke := false // of several texts, Chat Completions makes one
		for range rapid.IntRange(1, 4).Draw(t, "items") {
			switch kind := rapid.IntRange(0, 4).Draw(t, "kind"); {
			case kind == 0:
				step = append(step, offline.Reasoning{Summary: []string{"It may be far."}})
			case kind == 1 && !spoke:
				step, spoke = append(step, offline.Text{Text: texts.Draw(t, "text")}), true
			default:
				step = append(step, randomCalls.Draw(t, "call"))
			}
		}
		s.steps = append(s.steps, append(step, randomCalls.Draw(t, "last call")))
	}
	s.steps = append(s.steps, []offline.Item{offline.Text{Text: texts.Draw(t, "end")}})
	s.refuses = rapid.Bool().Draw(t, "refuses")
	return s
})

var randomCalls = rapid.Custom(func(t *rapid.T) offline.Call {
	return offline.Call{
		CallID: rapid.SampledFrom([]string{"c1", "c2", "c3", "c4", "not an id!", strings.Repeat("c", 65)}).Draw(t, "id"),
		Name:   rapid.SampledFrom([]string{"look", "look", "photo", "photo", "order", "gone"}).Draw(t, "name"),
		Arguments: rapid.SampledFrom([]any{
			nil, map[string]any{"n": 1}, map[string]any{"n": 2, "fails": true}, `{ "n": 3, "text": "é <b>" }`, `{"n": `, `[1]`, "",
		}).Draw(t, "arguments"),
	}
})

// say answers a request for a reply to a message that ends with the script's number. What a step costs follows from its place.
func say(all []script) testkit.Script {
	return func(r *offline.Request) offline.Answer {
		steps := all[numberIn(r.Current)].steps
		n := min(r.Step, len(steps)-1)
		return offline.Answer{Items: steps[n], Usage: &offline.Usage{Input: 100 + n, Cached: 10, Output: 7 + n}}
	}
}

func draw(n int) (all []script) {
	for seed := range n {
		all = append(all, randomScripts.Example(seed))
	}
	return all
}

// refusal refuses every second call of a reply.
func (s script) refusal() func(openCall) bool {
	n := 0
	return func(openCall) bool { n++; return s.refuses && n%2 == 0 }
}

// stored is a row, without its ids and times.
type stored struct {
	Content, Status, Finish string
	Parts                   []memory.Part
	Usage                   map[string]any
}

func read(t *testing.T, in testkit.Querier, messageID string) (row stored) {
	raw := testkit.Ask[[]byte](t, in, `select jsonb_build_object('Content', content, 'Status', status, 'Parts', coalesce(parts, '[]'),
		'Finish', metadata ->> 'finish_reason', 'Usage', metadata -> 'usage') from messages where id = $1`, messageID)
	require.NoError(t, json.Unmarshal(raw, &row))
	return row
}

// ordered sorts the results that stand side by side: tools that run side by side end in any order.
func ordered(parts []memory.Part) []memory.Part {
	for from := 0; from < len(parts); from++ {
		to := from
		for to < len(parts) && parts[to].Type == memory.PartResult {
			to++
		}
		slices.SortFunc(parts[from:to], func(a, b memory.Part) int { return cmp.Compare(a.CallID, b.CallID) })
		from = max(from, to-1)
	}
	return parts
}

// The same words and calls of a model make the same row, on whichever wire they come.
func TestBothWiresMakeTheSameRow(t *testing.T) {
	t.Parallel()
	all := draw(*scripts)
	model := testkit.NewModel(t, say(all))
	server := start(t, model, fmt.Sprintf(`{"variants": [{"name": "responses", "model": "m"},
		{"name": "chat", "model": "m", "api": "chat", "base_url": %q, "api_key_env": "OPENAI_API_KEY"}]}`, model.BaseURL()))
	parts, steps := 0, 0
	for n, s := range all {
		rows := map[string]stored{}
		for _, variant := range []string{"responses", "chat"} {
			got := server.play(fmt.Sprint("script ", n), variant, s.refusal())
			row := read(t, server.pool, got.MessageID)
			require.NoError(t, sound(row.Content, row.Parts), "script %d, %s", n, variant)
			assert.Equal(t, []any{got.Content, len(got.Parts)}, []any{row.Content, len(row.Parts)}, "script %d, %s: what is stored, and what was heard", n, variant)
			row.Parts = ordered(row.Parts)
			rows[variant] = row
		}
		require.Equal(t, rows["responses"], rows["chat"], "script %d", n)
		require.Equal(t, "complete", rows["chat"].Status, "script %d", n)
		parts, steps = parts+len(rows["chat"].Parts), steps+len(s.steps)
	}
	asked := map[offline.API]int{}
	for _, request := range model.Requests() {
		asked[request.API]++
	}
	assert.Equal(t, map[offline.API]int{offline.APIResponses: steps, offline.APIChat: steps}, asked, "calls of the model")
	report(t, "random replies over both wires to the model",
		fmt.Sprintf("%s replies of %d steps with %d parts: the same rows", mark("scripts", len(all)), steps, parts))
}
