package history

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
)

// wrongFields names what an error complains about, in order.
func wrongFields(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	refused, ok := errors.AsType[*fault.Error](err)
	if !ok || refused.Code != fault.ValidationFailed {
		t.Fatalf("got %v", err)
	}
	return strings.Join(slices.Sorted(maps.Keys(refused.Details)), " ")
}

func TestNewChatsAreChecked(t *testing.T) {
	t.Parallel()
	text := func(n int) *string { text := strings.Repeat("ü", n); return &text }
	many := func(n int) []string {
		var tags []string
		for i := range n {
			tags = append(tags, strconv.Itoa(i))
		}
		return tags
	}
	for _, c := range []struct {
		name, wrong string
		chat        NewChat
	}{
		{"nothing", "", NewChat{}},
		{"all at its limit", "", NewChat{
			Title: *text(memory.MaxTitle), SystemPrompt: text(memory.MaxSystemPrompt), Tags: append(many(memory.MaxTags-1),
				*text(memory.MaxTag)), MemoryStrategy: "simple",
			TTLHours: To(memory.MaxTTLHours), MaxTurns: To(memory.MaxTurnLimit), ToolName: text(memory.MaxToolName),
		}},
		{"all beyond it", "max_turns memory_strategy system_prompt tags title tool_name ttl_hours", NewChat{
			Title: *text(memory.MaxTitle + 1), SystemPrompt: text(memory.MaxSystemPrompt + 1), Tags: many(memory.MaxTags + 1), MemoryStrategy: "Simple",
			TTLHours: To(memory.MaxTTLHours + 1), MaxTurns: To(memory.MaxTurnLimit + 1), ToolName: text(memory.MaxToolName + 1),
		}},
		{"below it", "max_turns tool_name ttl_hours", NewChat{TTLHours: To(0), MaxTurns: To(-1), ToolName: text(0)}},
		{"the same tag again and again", "", NewChat{Tags: slices.Repeat([]string{"x", " x"}, 20)}},
		{"bad tags", "tags[0] tags[2]", NewChat{Tags: []string{"\t", "fine", *text(memory.MaxTag + 1)}}},
		{"zero bytes", "metadata system_prompt tags[0] title", NewChat{
			Title: "a\x00", SystemPrompt: new("\x00"), Tags: []string{"x\x00y"}, Metadata: map[string]any{"a": []any{map[string]any{"\x00": 1}}},
		}},
	} {
		if got := wrongFields(t, c.chat.Check(memory.ChatDefaults{})); got != c.wrong {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

func TestWhatChatsGetThatSayNothing(t *testing.T) {
	t.Parallel()
	plain, tool := NewChat{}, NewChat{ToolName: new("lookup"), MaxTurns: None[int]()}
	if err := errors.Join(plain.Check(memory.ChatDefaults{}), tool.Check(memory.ChatDefaults{})); err != nil {
		t.Fatal(err)
	}
	if plain.MemoryStrategy != "summary" || plain.Tags == nil || plain.TTLHours.Value != nil || plain.MaxTurns.Value != nil {
		t.Errorf("%+v", plain)
	}
	if *tool.TTLHours.Value != memory.ToolTTLHours || tool.MaxTurns.Value != nil {
		t.Errorf("%+v", tool)
	}
}

func TestDefaultsOfTheDeploymentYieldToWhatAChatSays(t *testing.T) {
	t.Parallel()
	defaults := memory.ChatDefaults{Strategy: memory.StrategyHybrid, TTLHours: 48, MaxTurns: 12}
	plain, tool := NewChat{}, NewChat{ToolName: new("lookup")}
	own := NewChat{MemoryStrategy: "simple", TTLHours: None[int](), MaxTurns: To(7)}
	if err := errors.Join(plain.Check(defaults), tool.Check(defaults), own.Check(defaults)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []NewChat{plain, tool} {
		if c.MemoryStrategy != "hybrid" || *c.TTLHours.Value != 48 || *c.MaxTurns.Value != 12 {
			t.Errorf("%+v", c)
		}
	}
	if own.MemoryStrategy != "simple" || own.TTLHours.Value != nil || *own.MaxTurns.Value != 7 {
		t.Errorf("%+v", own)
	}
}

func TestChangesAreChecked(t *testing.T) {
	t.Parallel()
	change := ChatChange{Title: None[string](), Tags: To([]string{" a ", "a"}), MemoryStrategy: None[string](), TTLHours: None[int]()}
	if err := Check(&change); err != nil {
		t.Fatal(err)
	}
	if *change.Title.Value != "" || !slices.Equal(*change.Tags.Value, []string{"a"}) || *change.MemoryStrategy.Value != "summary" ||
		change.TTLHours.Value != nil || change.Metadata.Set || change.SystemPrompt.Set {
		t.Errorf("%+v", change)
	}
	bad := ChatChange{Metadata: To(map[string]any{"\x00": 1}), Tags: To([]string{""}), MemoryStrategy: To(""), TTLHours: To(0), MaxTurns: To(0)}
	if got := wrongFields(t, Check(&bad)); got != "max_turns memory_strategy metadata tags[0] ttl_hours" {
		t.Errorf("%q", got)
	}
}

func TestQueriesAreChecked(t *testing.T) {
	t.Parallel()
	one := int64(1)
	for name, c := range map[string]struct {
		request any
		wrong   string
	}{
		"list":        {&ListQuery{Limit: MaxChats + 1, Tag: "\xff"}, "limit tag"},
		"messages":    {&MessagesQuery{Limit: -1, BeforeSeq: &one, AfterSeq: &one}, "after_seq limit"},
		"prune":       {&PruneQuery{}, "older_than_days"},
		"prune far":   {&PruneQuery{OlderThanDays: 36_500}, ""},
		"importance":  {&MessageChange{Importance: To(1.1)}, "importance"},
		"no number":   {&MessageChange{Importance: To(math.NaN())}, "importance"},
		"unimportant": {&MessageChange{Importance: To(0.0)}, ""},
		"unrated":     {&MessageChange{Importance: None[float64]()}, ""},
	} {
		if got := wrongFields(t, Check(c.request)); got != c.wrong {
			t.Errorf("%s: %q", name, got)
		}
	}
}
