package terminal

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
)

func TestClean(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain, Grüße, 世界 👩‍👩‍👧\n\tnext": "plain, Grüße, 世界 👩‍👩‍👧\n\tnext",
		"\x1b[31mred\x1b[0m":             "red",
		"\x1b]0;title\x07on":             "on",
		"\x1b]8;;http://x\x1b\\link":     "link",
		"\u009b2Jgone":                   "gone",
		"\u009d0;title\u009con":          "on",
		"\x1bP1$q\x1b\\on":               "on",
		"\x1b(Bon":                       "on",
		"\x1bcon":                        "on",
		"\x1b]0;never ends\nnext line":   "\nnext line",
		"\x1b[never\nends":               "ever\nends",
		"a\rb\bc\ad\x00e\x7ff":           "abcdef",
		"right\u202eleft\u202c \u2066x":  "rightleft x",
		"\x1b\x1b[31mtwice":              "twice",
		"\x1b]0;a\x1b[31mb\x07\x1b\\end": "bend",
	} {
		assert.Equalf(t, want, Clean(text), "%q", text)
	}
	assert.Equal(t, "two lines", OneLine(" two\n\x1b[1m lines\t"))
}

// Nothing but text, line feeds and tabs comes through, and it does not matter how the text is cut.
func FuzzClean(f *testing.F) {
	for _, seed := range []string{"\x1b[31mred", "\x1b]0;t\x07x", "\u009b1mx", "\x1b\x1b]\x1b\\", "a\nb\tc", "\xff\x1b"} {
		f.Add(seed, 3)
	}
	f.Fuzz(func(t *testing.T, text string, cut int) {
		if !utf8.ValidString(text) {
			return // JSON holds none
		}
		whole := Clean(text)
		assert.Falsef(t, strings.ContainsFunc(whole, func(r rune) bool { return r != '\n' && r != '\t' && isControl(r) }),
			"%q is left", whole)
		runes := []rune(text)
		at := min(max(cut, 0), len(runes))
		var cleaner Cleaner
		assert.Equalf(t, whole, (cleaner.Clean(string(runes[:at])) + cleaner.Clean(string(runes[at:]))), "cut at %d", at)
	})
}
