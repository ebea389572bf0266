package history

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/fault"
)

func TestMoments(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"2026-03-14T10:00:00+02:00": "2026-03-14T08:00:00Z", "2026-03-14T10:00:00.5Z": "2026-03-14T10:00:00.5Z", "2026-03-14T10:00:00": "2026-03-14T10:00:00Z",
		"2026-03-14": "2026-03-14T23:59:59.999999Z", "": "", "yesterday": "", "2026-02-30": "", "20260314": "", "2026-03": "",
	} {
		moment, ok := ParseMoment(text)
		if ok != (want != "") || ok && moment.Format(time.RFC3339Nano) != want {
			t.Errorf("%q: %s, %v", text, moment, ok)
		}
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
		if got := wrongFields(t, Check(c.request)); got != c.wrong {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestForgetTokens(t *testing.T) {
	t.Parallel()
	user, now := uuid.New(), time.Date(2026, 11, 22, 18, 0, 0, 0, time.UTC)
	token := ForgetToken{User: user, At: now, Those: []MemoryVersion{{uuid.New(), 1}, {uuid.New(), 1 << 30}}}
	read, err := ParseForgetToken(token.String(), user, now.Add(forgetPatience))
	if err != nil || len(read.Those) != 2 || read.Those[1] != token.Those[1] || !read.At.Equal(now) {
		t.Errorf("%+v, %v", read, err)
	}
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
		if refused, ok := errors.AsType[*fault.Error](err); !ok || refused.Code != fault.ValidationFailed || refused.Details["token"] == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whatever a text is, it is refused, or it is the text of what was read.
func FuzzMemoryCursor(f *testing.F) {
	f.Add(MemoryCursor{time.Now(), uuid.New()}.String())
	f.Add(Cursor{time.Now(), time.Now(), uuid.New()}.String())
	f.Fuzz(func(t *testing.T, text string) {
		var cursor MemoryCursor
		if err := cursor.UnmarshalText([]byte(text)); err != nil {
			if fault.CodeOf(err) != fault.BadRequest {
				t.Errorf("%v", err)
			}
		} else if cursor.String() != text {
			t.Errorf("%q is read as %q", text, cursor)
		}
	})
}

// Whatever a token is, what is read of it is bounded.
func FuzzForgetToken(f *testing.F) {
	f.Add(ForgetToken{User: uuid.New(), At: time.Now(), Those: []MemoryVersion{{uuid.New(), 3}}}.String())
	f.Fuzz(func(t *testing.T, text string) {
		if token, ok := decodeForgetToken(text); ok && (len(token.Those) > MaxForgotten || token.String() != text) {
			t.Errorf("%q is read as %+v", text, token)
		}
	})
}
