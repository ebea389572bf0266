package api

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/fault"
)

func TestCursorNamesItsPlace(t *testing.T) {
	t.Parallel()
	for _, cursor := range []Cursor{
		{AsOf: time.Date(2026, 11, 21, 15, 4, 5, 123_456_000, time.UTC), Activity: time.Date(2026, 1, 2, 3, 4, 5, 999_999_000, time.UTC), ChatID: uuid.New()},
		{AsOf: time.Date(1969, 12, 31, 23, 59, 59, 0, time.UTC), Activity: time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), ChatID: uuid.New()},
	} {
		got, err := ParseCursor(cursor.String())
		assert.Truef(t, err == nil && got == cursor, "%+v became %+v, %v", cursor, got, err)
	}
}

func TestMadeUpCursorsAreRefused(t *testing.T) {
	t.Parallel()
	good := Cursor{AsOf: time.Now(), Activity: time.Now(), ChatID: uuid.New()}.String()
	raw, err := base64.RawURLEncoding.DecodeString(good)
	require.NoError(t, err)
	changed := func(change func(raw []byte) []byte) string {
		return base64.RawURLEncoding.EncodeToString(change(append([]byte{}, raw...)))
	}
	for name, cursor := range map[string]string{
		"empty":             "",
		"no base64":         "not a cursor!",
		"padded":            good + "=",
		"in another base64": strings.Repeat("+", len(good)),
		"with a line break": good[:10] + "\n" + good[10:],
		"cut":               good[:len(good)-2],
		"longer":            good + "AAAA",
		"another version":   changed(func(raw []byte) []byte { raw[0] = 2; return raw }),
		"the end of time":   changed(func(raw []byte) []byte { copy(raw[1:], "\x7f\xff\xff\xff\xff\xff\xff\xff"); return raw }),
		"before all time":   changed(func(raw []byte) []byte { copy(raw[9:], "\x80\x00\x00\x00\x00\x00\x00\x00"); return raw }),
	} {
		if cursor, err := ParseCursor(cursor); fault.CodeOf(err) != fault.BadRequest {
			t.Errorf("%s: %+v, %v", name, cursor, err)
		}
	}
}

// Whatever is taken for a cursor is the one way to write down a cursor that Postgres knows.
func FuzzParseCursor(f *testing.F) {
	f.Add(Cursor{AsOf: time.Now(), Activity: time.Now(), ChatID: uuid.New()}.String())
	f.Add(MemoryCursor{time.Now(), uuid.New()}.String())
	f.Add("")
	f.Add(strings.Repeat("_", 44))
	f.Fuzz(func(t *testing.T, text string) {
		var place MemoryCursor
		if err := place.UnmarshalText([]byte(text)); err == nil && place.String() != text {
			t.Errorf("%q is read as %q", text, place)
		} else if err != nil && fault.CodeOf(err) != fault.BadRequest {
			t.Errorf("%v", err)
		}
		cursor, err := ParseCursor(text)
		if err != nil {
			return
		}
		assert.Equalf(t, text, cursor.String(), "%q is read as %+v, which is written", text, cursor)
		for _, moment := range []time.Time{cursor.AsOf, cursor.Activity} {
			year := moment.Year()
			assert.Truef(t, year >= -4001 && year <= 200_000, "%q leads to the year %d", text, year)
		}
	})
}
