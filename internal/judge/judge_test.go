package judge

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/llm"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// What is to be remembered was said, and each language has a case of each kind that matters.
func TestCases(t *testing.T) {
	t.Parallel()
	cases, err := Cases()
	require.NoError(t, err)
	kinds := map[string][]string{}
	for _, one := range cases {
		var words []string
		for _, m := range one.Said {
			words = append(words, m.Content)
		}
		for _, wanted := range one.Keeps {
			assert.Truef(t, wanted.in(strings.Join(words, " ")), "%s, %s: %q was not said", one.Language, one.Kind, wanted)
		}
		for _, closed := range one.Closes {
			assert.Truef(t, slices.ContainsFunc(one.Known, closed.in),
				"%s, %s: %q is not known", one.Language, one.Kind, closed)
		}
		kinds[one.Language] = append(kinds[one.Language], one.Kind)
	}
	assert.Truef(t, len(kinds) == 10, "%d languages", len(kinds))
	for language, has := range kinds {
		for kind := range strings.FieldsSeq("introduction change opposite other past moment brief") {
			assert.Truef(t, slices.Contains(has, kind), "%s has no case of %s", language, kind)
		}
	}
	if _, err := Cases("en", "xx"); err == nil {
		t.Error("there are cases in xx")
	}
}

const played = `
introduction
U: My name is Rosa and I am allergic to walnuts.
A: I see.
= rosa
= walnut

opposite
U: I am not allergic to walnuts, my sister is.
A: I see.
? sister
- user allergic walnut !not !sister

change
M: The user lives in Lyon.
U: I live in Porto now.
A: I see.
= porto
x lyon

brief
U: I practise the Elgar concerto.
A: Good.
= elgar
= bach
`

// judged plays the cases with a model.
func judged(t *testing.T, script testkit.Script) (*Report, error) {
	cases, err := parse("en", played)
	require.NoError(t, err)
	model := testkit.NewModel(t, script)
	client := llm.New(llm.Settings{APIKey: "offline", BaseURL: model.BaseURL()})
	t.Cleanup(client.Close)
	return Judge(t.Context(), client, Settings{Prompt: brief.PromptConfig{Mode: brief.ModeInline, Model: "m"}, Limits: memory.DefaultLimits()}, cases)
}

// fact is what the script proposes of a message.
func fact(content, quote string) offline.Fact {
	return offline.Fact{
		Fact: content, Type: "fact", Confidence: .9, Horizon: "lasting", Evidence: []string{"U1"}, Quote: quote,
		Entities: []offline.Entity{}, Relationships: []offline.Relationship{},
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	report, err := judged(t, func(r *offline.Request) offline.Answer {
		said := func(words string) bool { return strings.Contains(r.Text, words) }
		facts := []offline.Fact{}
		switch {
		case r.Metadata["purpose"] == "fold":
			return offline.Answer{Text: "The user practises the Elgar concerto."}
		case r.Metadata["purpose"] == "consolidate":
			return offline.Answer{Text: `{"decisions":[{"candidate":"C1","action":"DELETE","memory":"M1","merged":null,"reason":"moved"}]}`}
		case said("Rosa"):
			facts = append(facts, fact("The user's name is Rosa.", "My name is Rosa"), fact("The user likes Rosa.", "My name is Rosa"))
		case said("sister"):
			facts = append(facts, fact("The user is allergic to walnuts.", "I am not allergic to walnuts"))
		case said("Porto"):
			facts = append(facts, fact("The user lives in Porto.", "I live in Porto now"))
		}
		answer, err := json.Marshal(map[string]any{"facts": facts})
		assert.NoError(t, err)
		return offline.Answer{Text: string(answer)}
	})
	require.NoError(t, err)
	kept, of := report.Kept()
	got, want := [2]int{kept, of}, [2]int{4, 6}
	assert.Equal(t, want, got, "kept")
	var out strings.Builder
	require.NoError(t, report.Write(&out, true))
	var wrong []string
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "en, ") {
			wrong = append(wrong, strings.TrimSpace(line))
		}
	}
	if diff := cmp.Diff([]string{
		`en, brief: "I practise the Elgar concerto.": missing: [bach]`,
		`en, introduction: "My name is Rosa and I am allergic to walnuts.": missing: [walnut]`,
	}, wrong); diff != "" {
		t.Errorf("%s\n%s", diff, &out)
	}
}

// A model that gives no usable answer is worth nothing; one that cannot be reached is no result.
func TestModelsOfNoUse(t *testing.T) {
	t.Parallel()
	report, err := judged(t, func(*offline.Request) offline.Answer {
		return offline.Answer{Text: "I'm sorry, but I can't help with that."}
	})
	require.NoError(t, err)
	kept, _ := report.Kept()
	assert.Equal(t, 0, kept, "kept")
	if _, err := judged(t, func(*offline.Request) offline.Answer { return offline.Answer{Fault: offline.Fault401} }); err == nil ||
		!strings.HasPrefix(err.Error(), "en, ") {
		t.Errorf("%v", err)
	}
}
