package chat

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"
)

func TestTitle(t *testing.T) {
	t.Parallel()
	a80 := strings.Repeat("a", 80)
	for _, c := range []struct{ name, content, want string }{
		{"short", "How do buses work?", "How do buses work?"},
		{"first line", "\n\n  First line \r\nsecond", "First line"},
		{"exactly full", a80, a80},
		{"one word too long", a80 + "b", a80},
		{"a word ends at the limit", a80 + " b", a80},
		{"a word ends one past the limit", strings.Repeat("a", 40) + " " + strings.Repeat("b", 40) + " c", strings.Repeat("a", 40)},
		{"spaces before the cut", strings.Repeat("a", 70) + "    " + strings.Repeat("b", 40), strings.Repeat("a", 70)},
		{"other spaces", strings.Repeat("a", 70) + "\u2003" + strings.Repeat("b", 40), strings.Repeat("a", 70)},
		{"characters, not bytes", strings.Repeat("é", 80) + "x", strings.Repeat("é", 80)},
		{"no spaces in the language", strings.Repeat("日", 100), strings.Repeat("日", 80)},
	} {
		if got := Title(c.content); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestTitleOfAnything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		content := rapid.OneOf(rapid.String(), rapid.StringOfN(rapid.SampledFrom([]rune("aé日 \n\t👋")), 0, 300, -1)).Draw(t, "content")
		title := Title(content)
		if utf8.RuneCountInString(title) > maxTitle || title != strings.TrimSpace(title) || strings.Contains(title, "\n") {
			t.Errorf("%q", title)
		}
		if !strings.HasPrefix(strings.TrimSpace(content), title) || title == "" && strings.TrimSpace(content) != "" {
			t.Errorf("%q is not the beginning", title)
		}
	})
}

func TestMessageLimits(t *testing.T) {
	t.Parallel()
	long := func(n int) string { return strings.Repeat("é", n) }
	for _, c := range []struct {
		name    string
		message Message
		wrong   []string
	}{
		{"one character", Message{Content: "x"}, nil},
		{"as long as may be", Message{Content: " " + long(MaxContent) + " "}, nil},
		{"everything at its limit", Message{Content: "x",
			Sources: slices.Repeat([]prompt.Source{{Content: long(MaxSourceContent), Title: long(2000), URL: long(2000)}}, MaxSources)}, nil},
		{"empty", Message{}, []string{"content"}},
		{"only spaces", Message{Content: " \u2003\n\t"}, []string{"content"}},
		{"too long", Message{Content: long(MaxContent + 1)}, []string{"content"}},
		{"NUL", Message{Content: "a\x00b"}, []string{"content"}},
		{"too many sources", Message{Content: "x", Sources: make([]prompt.Source, MaxSources+1)}, []string{"sources"}},
		{"a source too long", Message{Content: "x", Sources: []prompt.Source{{}, {Content: long(MaxSourceContent + 1)}}}, []string{"sources[1].content"}},
		{"a title too long", Message{Content: "x", Sources: []prompt.Source{{Title: long(2001)}}}, []string{"sources[0]"}},
		{"a URL too long", Message{Content: "x", Sources: []prompt.Source{{URL: long(2001)}}}, []string{"sources[0]"}},
		{"NUL in a value", Message{Content: "x", Metadata: map[string]any{"a": "b\x00"}}, []string{"metadata"}},
		{"NUL in a key", Message{Content: "x", Metadata: map[string]any{"a\x00": 1.0}}, []string{"metadata"}},
		{"NUL deep down", Message{Content: "x", Metadata: map[string]any{"a": []any{1.0, true, nil, map[string]any{"b": []any{"c", "\x00"}}}}}, []string{"metadata"}},
		{"NUL in a deep key", Message{Content: "x", Metadata: map[string]any{"a": []any{map[string]any{"\x00": nil}}}}, []string{"metadata"}},
		{"no NUL anywhere", Message{Content: "x", Metadata: map[string]any{"a": []any{1.0, true, nil, map[string]any{"b": `\u0000`}}}}, nil},
		{"all at once", Message{Sources: make([]prompt.Source, MaxSources+1), Metadata: map[string]any{"a": "\x00"}}, []string{"content", "metadata", "sources"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := c.message.normalize()
			if len(c.wrong) == 0 {
				if err != nil || c.message.Content != strings.TrimSpace(c.message.Content) {
					t.Errorf("%v", err)
				}
				return
			}
			refused, ok := errors.AsType[*fault.Error](err)
			if !ok || refused.Code != fault.ValidationFailed {
				t.Fatalf("%v", err)
			}
			if diff := cmp.Diff(c.wrong, slices.Sorted(maps.Keys(refused.Details))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseCursor(t *testing.T) {
	t.Parallel()
	id := uuid.MustParse("0193a1b2-0000-7000-8000-000000000003")
	for text, want := range map[string]Cursor{
		id.String() + ":0":                          {MessageID: id},
		id.String() + ":1234":                       {MessageID: id, After: 1234},
		id.String() + ":007":                        {MessageID: id, After: 7},
		id.String() + ":end":                        {MessageID: id, End: true},
		strings.ToUpper(id.String()) + ":1":         {MessageID: id, After: 1},
		id.String() + ":" + strings.Repeat("9", 40): {MessageID: id, After: maxReplyChars},
	} {
		if got, err := ParseCursor(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", ":", "end", "12", id.String(), id.String() + ":", id.String() + ":-1", id.String() + ":+1", id.String() + ":1.5", id.String() + ":0x1",
		id.String() + ":END", id.String() + ":end ", id.String() + ": 1", id.String() + ":1:2", id.String() + ":١", "{" + id.String() + "}:1",
		"urn:uuid:" + id.String() + ":1", strings.ReplaceAll(id.String(), "-", "") + ":1", "0193a1b2-0000-7000-8000-00000000000g:1",
	} {
		_, err := ParseCursor(text)
		wantFault(t, err, fault.BadRequest)
	}
}

func FuzzParseCursor(f *testing.F) {
	for _, text := range []string{"0193a1b2-0000-7000-8000-000000000003:12", "0193a1b2-0000-7000-8000-000000000003:end", ":", "x:1", "99999999999999999999"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		cursor, err := ParseCursor(text)
		if err != nil {
			wantFault(t, err, fault.BadRequest)
			return
		}
		if cursor.After < 0 || cursor.End && cursor.After != 0 || cursor.After > math.MaxInt {
			t.Errorf("%q: %+v", text, cursor)
		}
		if _, err := ParsePosition(text[37:]); err != nil || !strings.EqualFold(text[:36], cursor.MessageID.String()) {
			t.Errorf("%q: %+v, %v", text, cursor, err)
		}
	})
}
