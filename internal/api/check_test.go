package api

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
)

// wrongFields names what an error complains about, in order.
func wrongFields(t *testing.T, err error) string {
	if err == nil {
		return ""
	}
	refused, ok := errors.AsType[*fault.Error](err)
	require.Truef(t, ok && refused.Code == fault.ValidationFailed, "got %v", err)
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
		assert.Equalf(t, c.wrong, wrongFields(t, c.chat.Check(memory.ChatDefaults{})), "%s", c.name)
	}
}

func TestWhatChatsGetThatSayNothing(t *testing.T) {
	t.Parallel()
	plain, tool := NewChat{}, NewChat{ToolName: new("lookup"), MaxTurns: None[int]()}
	require.NoError(t, errors.Join(plain.Check(memory.ChatDefaults{}), tool.Check(memory.ChatDefaults{})))
	assert.Truef(t, plain.MemoryStrategy == "summary" && plain.Tags != nil && plain.TTLHours.Value == nil && plain.MaxTurns.Value == nil,
		"%+v", plain)
	assert.Truef(t, *tool.TTLHours.Value == memory.ToolTTLHours && tool.MaxTurns.Value == nil, "%+v", tool)
}

func TestDefaultsOfTheDeploymentYieldToWhatAChatSays(t *testing.T) {
	t.Parallel()
	defaults := memory.ChatDefaults{Strategy: memory.StrategyHybrid, TTLHours: 48, MaxTurns: 12}
	plain, tool := NewChat{}, NewChat{ToolName: new("lookup")}
	own := NewChat{MemoryStrategy: "simple", TTLHours: None[int](), MaxTurns: To(7)}
	require.NoError(t, errors.Join(plain.Check(defaults), tool.Check(defaults), own.Check(defaults)))
	for _, c := range []NewChat{plain, tool} {
		assert.Truef(t, c.MemoryStrategy == "hybrid" && *c.TTLHours.Value == 48 && *c.MaxTurns.Value == 12, "%+v", c)
	}
	assert.Truef(t, own.MemoryStrategy == "simple" && own.TTLHours.Value == nil && *own.MaxTurns.Value == 7, "%+v", own)
}

func TestChangesAreChecked(t *testing.T) {
	t.Parallel()
	change := ChatChange{Title: None[string](), Tags: To([]string{" a ", "a"}), MemoryStrategy: None[string](), TTLHours: None[int]()}
	require.NoError(t, Check(&change))
	if *change.Title.Value != "" || !slices.Equal(*change.Tags.Value, []string{"a"}) || *change.MemoryStrategy.Value != "summary" ||
		change.TTLHours.Value != nil || change.Metadata.Set || change.SystemPrompt.Set {
		t.Errorf("%+v", change)
	}
	bad := ChatChange{Metadata: To(map[string]any{"\x00": 1}), Tags: To([]string{""}), MemoryStrategy: To(""), TTLHours: To(0), MaxTurns: To(0)}
	assert.Equal(t, "max_turns memory_strategy metadata tags[0] ttl_hours", wrongFields(t, Check(&bad)))
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
		assert.Equalf(t, c.wrong, wrongFields(t, Check(c.request)), "%s", name)
	}
}

func TestMoments(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"2026-03-14T10:00:00+02:00": "2026-03-14T08:00:00Z", "2026-03-14T10:00:00.5Z": "2026-03-14T10:00:00.5Z", "2026-03-14T10:00:00": "2026-03-14T10:00:00Z",
		"2026-03-14": "2026-03-14T23:59:59.999999Z", "": "", "yesterday": "", "2026-02-30": "", "20260314": "", "2026-03": "",
	} {
		moment, ok := ParseMoment(text)
		assert.Truef(t, ok == (want != "") && (!ok || moment.Format(time.RFC3339Nano) == want),
			"%q: %s, %v", text, moment, ok)
	}
}

func TestMemoryRequestsAreChecked(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("東", 501)
	many := make([]string, 51)
	for i := range many {
		many[i] = strings.Repeat("x", i+1)
	}
	for name, c := range map[string]struct {
		request any
		wrong   string
	}{
		"new":          {&NewMemory{Content: " x "}, ""},
		"new nothing":  {&NewMemory{Content: "\t"}, "content"},
		"new too long": {&NewMemory{Content: long, Type: new("x"), Status: new("superseded")}, "content status type"},
		"change":       {&MemoryChange{}, ""},
		"change wrong": {&MemoryChange{Content: new(""), Type: new(""), Status: new("")}, "content status type"},
		"list":         {&MemoriesQuery{Text: long, Limit: -1, AsOf: "x", Status: "gone"}, "as_of limit q status"},
		"forget":       {&ForgetRequest{Query: new("x")}, ""},
		"forget none":  {&ForgetRequest{}, "query"},
		"forget both":  {&ForgetRequest{Query: new("x"), Token: new("y")}, "token"},
		"settings":     {&MemorySettingsChange{TimeZone: To("Europe/Berlin"), Language: To("zh-Hant"), Excluded: To(many[:50])}, ""},
		"wrong": {&MemorySettingsChange{TimeZone: To("Local"), Language: To("x"),
			Excluded: To(append(slices.Clone(many), strings.Repeat("y", 101)))}, "excluded excluded[51] language time_zone"},
	} {
		assert.Equalf(t, c.wrong, wrongFields(t, Check(c.request)), "%s", name)
	}
}

func TestForgetTokens(t *testing.T) {
	t.Parallel()
	user, now := uuid.New(), time.Date(2026, 11, 22, 18, 0, 0, 0, time.UTC)
	token := ForgetToken{User: user, At: now, Those: []MemoryVersion{{uuid.New(), 1}, {uuid.New(), 1 << 30}}}
	read, err := ParseForgetToken(token.String(), user, now.Add(forgetPatience))
	assert.Truef(t, err == nil && len(read.Those) == 2 && read.Those[1] == token.Those[1] && read.At.Equal(now),
		"%+v, %v", read, err)
	empty := ForgetToken{User: user, At: now}
	if read, err := ParseForgetToken(empty.String(), user, now); err != nil || len(read.Those) != 0 {
		t.Errorf("%+v, %v", read, err)
	}
	full := ForgetToken{User: user, At: now, Those: make([]MemoryVersion, MaxForgotten+1)}
	for name, attempt := range map[string]struct {
		text string
		user uuid.UUID
		now  time.Time
	}{
		"another user's": {token.String(), uuid.New(), now}, "too old": {token.String(), user, now.Add(forgetPatience + time.Second)},
		"of the future": {token.String(), user, now.Add(-time.Hour)}, "cut": {token.String()[:40], user, now}, "nothing": {"", user, now},
		"no base64": {"!", user, now}, "too many": {full.String(), user, now}, "a cursor": {MemoryCursor{now, user}.String(), user, now},
	} {
		_, err := ParseForgetToken(attempt.text, attempt.user, attempt.now)
		refused, ok := errors.AsType[*fault.Error](err)
		assert.Truef(t, ok && refused.Code == fault.ValidationFailed && refused.Details["token"] != nil,
			"%s: %v", name, err)
	}
}

// Whatever a token is, what is read of it is bounded.
func FuzzForgetToken(f *testing.F) {
	f.Add(ForgetToken{User: uuid.New(), At: time.Now(), Those: []MemoryVersion{{uuid.New(), 3}}}.String())
	f.Fuzz(func(t *testing.T, text string) {
		token, ok := decodeForgetToken(text)
		assert.Truef(t, !ok || (len(token.Those) <= MaxForgotten && token.String() == text),
			"%q is read as %+v", text, token)
	})
}
