package history

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/internal/memory"

	"github.com/arcoscribe/throughline/internal/fault"
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
			Title: *text(MaxTitle), SystemPrompt: text(MaxSystemPrompt), Tags: append(many(MaxTags-1), *text(MaxTag)), MemoryStrategy: "simple",
			TTLHours: To(MaxTTLHours), MaxTurns: To(MaxTurnLimit), ToolName: text(MaxToolName),
		}},
		{"all beyond it", "max_turns memory_strategy system_prompt tags title tool_name ttl_hours", NewChat{
			Title: *text(MaxTitle + 1), SystemPrompt: text(MaxSystemPrompt + 1), Tags: many(MaxTags + 1), MemoryStrategy: "Simple",
			TTLHours: To(MaxTTLHours + 1), MaxTurns: To(MaxTurnLimit + 1), ToolName: text(MaxToolName + 1),
		}},
		{"below it", "max_turns tool_name ttl_hours", NewChat{TTLHours: To(0), MaxTurns: To(-1), ToolName: text(0)}},
		{"the same tag again and again", "", NewChat{Tags: slices.Repeat([]string{"x", " x"}, 20)}},
		{"bad tags", "tags[0] tags[2]", NewChat{Tags: []string{"\t", "fine", *text(MaxTag + 1)}}},
		{"zero bytes", "metadata system_prompt tags[0] title", NewChat{
			Title: "a\x00", SystemPrompt: new("\x00"), Tags: []string{"x\x00y"}, Metadata: map[string]any{"a": []any{map[string]any{"\x00": 1}}},
		}},
	} {
		if got := wrongFields(t, c.chat.complete()); got != c.wrong {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

func TestWhatChatsGetThatSayNothing(t *testing.T) {
	t.Parallel()
	plain, tool := NewChat{}, NewChat{ToolName: new("lookup"), MaxTurns: None[int]()}
	if err := errors.Join(plain.complete(), tool.complete()); err != nil {
		t.Fatal(err)
	}
	if plain.MemoryStrategy != "summary" || plain.Tags == nil || plain.TTLHours.Value != nil || plain.MaxTurns.Value != nil {
		t.Errorf("%+v", plain)
	}
	if *tool.TTLHours.Value != memory.ToolTTLHours || tool.MaxTurns.Value != nil {
		t.Errorf("%+v", tool)
	}
}

func TestChangesAreChecked(t *testing.T) {
	t.Parallel()
	change := ChatChange{Title: None[string](), Tags: To([]string{" a ", "a"}), MemoryStrategy: None[string](), TTLHours: None[int]()}
	if err := change.complete(); err != nil {
		t.Fatal(err)
	}
	if *change.Title.Value != "" || !slices.Equal(*change.Tags.Value, []string{"a"}) || *change.MemoryStrategy.Value != "summary" ||
		change.TTLHours.Value != nil || change.Metadata.Set || change.SystemPrompt.Set {
		t.Errorf("%+v", change)
	}
	bad := ChatChange{Metadata: To(map[string]any{"\x00": 1}), Tags: To([]string{""}), MemoryStrategy: To(""), TTLHours: To(0), MaxTurns: To(0)}
	if got := wrongFields(t, bad.complete()); got != "max_turns memory_strategy metadata tags[0] ttl_hours" {
		t.Errorf("%q", got)
	}
}

func TestQueriesAreChecked(t *testing.T) {
	t.Parallel()
	one := int64(1)
	for name, c := range map[string]struct {
		check func() error
		wrong string
	}{
		"list":        {(&ListQuery{Limit: MaxChats + 1, Tag: "\xff"}).check, "limit tag"},
		"messages":    {(&MessagesQuery{Limit: -1, BeforeSeq: &one, AfterSeq: &one}).check, "after_seq limit"},
		"prune":       {(&PruneQuery{}).check, "older_than_days"},
		"prune far":   {(&PruneQuery{OlderThanDays: MaxPruneDays}).check, ""},
		"importance":  {(&MessageChange{Importance: To(1.1)}).check, "importance"},
		"no number":   {(&MessageChange{Importance: To(math.NaN())}).check, "importance"},
		"unimportant": {(&MessageChange{Importance: To(0.0)}).check, ""},
		"unrated":     {(&MessageChange{Importance: None[float64]()}).check, ""},
	} {
		if got := wrongFields(t, c.check()); got != c.wrong {
			t.Errorf("%s: %q", name, got)
		}
	}
}
