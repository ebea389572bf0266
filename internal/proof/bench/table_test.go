package main

import (
	"testing"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestMedianOfThreeRuns(t *testing.T) {
	t.Parallel()
	run := func(value, baseline float64) group {
		return group{Name: "x", Rows: []row{{What: "a", Value: value, Baseline: baseline, Against: "b"}}}
	}
	got := mediansOf([][]group{{run(10, 5), run(30, 10), run(20, 40)}, nil})
	want := []group{{Name: "x", Rows: []row{{What: "a", Value: 20, Baseline: 10, Against: "b", Ratio: 2}}}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(group{})); diff != "" {
		t.Error(diff)
	}
}

func TestTargets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		target  *target
		r       row
		text    string
		reached bool
	}{
		{atMost(1), row{Value: 0.9, Unit: "ms"}, "≤ 1 ms", true},
		{atMost(1), row{Value: 1.1, Unit: "ms"}, "≤ 1 ms", false},
		{atLeast(1500), row{Value: 1500, Unit: "/s"}, "≥ 1500 /s", true},
		{atLeast(1500), row{Value: 208, Unit: "/s"}, "≥ 1500 /s", false},
		{ratioAtMost(1.2), row{Value: 12, Baseline: 11, Unit: "ms"}, "≤ 1.20×", true},
		{ratioAtMost(1.2), row{Value: 12, Baseline: 6, Unit: "ms"}, "≤ 1.20×", false},
	} {
		if text := c.target.text(c.r.Unit); text != c.text || c.target.reached(c.r) != c.reached {
			t.Errorf("%+v: %q, %v", c.r, text, !c.reached)
		}
	}
}

func TestLine(t *testing.T) {
	t.Parallel()
	r := row{What: "chat of 10 turns, p50", Unit: "ms", Value: 0.497, Baseline: 0.24, Against: "one row, as user", Target: atMost(1)}
	const want = "  chat of 10 turns, p50                         0.50 ms       0.24 ms  one row, as user      2.07       ≤ 1 ms reached\n"
	if diff := cmp.Diff(want, r.line()); diff != "" {
		t.Error(diff)
	}
}

func TestCyclesAreWholeOnes(t *testing.T) {
	t.Parallel()
	var talk []remembered
	for _, version := range []int64{0, 0, 1, 1, 2, 3, 3, 3, 4} {
		talk = append(talk, remembered{Receipt: prompt.Receipt{BriefVersion: version, TailTokens: 10 * (len(talk) + 1)}})
	}
	first, last := cycles(talk)
	if diff := cmp.Diff([]cycle{{3, 4, 35}, {6, 8, 70}}, []cycle{first, last}, cmp.AllowUnexported(cycle{})); diff != "" {
		t.Error(diff)
	}
}

func TestKeptBetweenFolds(t *testing.T) {
	t.Parallel()
	at := func(version int64, text string) remembered {
		return remembered{Receipt: prompt.Receipt{BriefVersion: version}, text: text}
	}
	// 4 of 4 bytes, then 2 of 6; across the fold nothing is asked for.
	talk := []remembered{at(1, "abcd"), at(1, "abcdef"), at(1, "abX"), at(2, "other")}
	if got, want := keptBetweenFolds(talk), 60.0; got != want {
		t.Errorf("%v %%, want %v %%", got, want)
	}
}

func TestMemoryOfAPrompt(t *testing.T) {
	t.Parallel()
	question := prompt.Question{Content: "What next?", Sources: nil}
	buffer := []memory.Message{{Seq: 1, Role: memory.RoleUser, Content: "Hello"}}
	prompt := prompt.Build(memory.Chat{Brief: memory.Brief{Summary: "Nothing yet.", Tokens: 3}, Buffer: buffer}, question, memory.DefaultLimits())
	if got, want := memoryOf(prompt.Input), prompt.Sections[0].Text+"\n\n"+prompt.Sections[1].Text; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := memoryOf("no heading"); got != "" {
		t.Errorf("%q of a prompt without one", got)
	}
}
