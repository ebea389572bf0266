package text

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTokensCountsAsO200kBase(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"":                           0,
		"hello world":                2,
		"The quick brown fox jumps.": 6,
		"<|endoftext|>":              7, // special tokens are plain text when people write them
		"a\xffb":                     3,
		"a\x7fb":                     3, // the tokenizer itself passes over DEL
	} {
		assert.Equalf(t, want, Tokens(text), "Tokens(%q)", text)
	}
}

// The counts of a text's pieces, kept or not, add up to the count of the whole.
func FuzzTokensAreThoseOfTheWholeText(f *testing.F) {
	for _, text := range []string{
		"", " ", "a b", "I'm sure it's John's, isn't IT'S a b'c d's", "x  y   z", "one\ttwo\nthree \r\n four", "3 days, 12345 nights (or so) at 10:30",
		"Grüße aus München, ça va", "i\u0307 e\u0301 a \u0301b", "नमस्ते दुनिया and 日本語 text",
		"👩‍👩‍👧‍👦 fam", "a\xff b\x7f c", "snake_case camelCase HTTPServer v1.2",
		"word " + strings.Repeat("b", longestPiece) + " end", strings.Repeat("the same words again and again ", 20),
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, when := range []string{"at first", "again"} {
			got, want := Tokens(text), countTokens(readable(text))
			assert.Truef(t, got == want, "Tokens(%q) = %d %s, want %d", text, got, when, want)
		}
	})
}

func TestTokenEndsCoverTheWholeText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "one", "a  b\n\n\tc ", "नमस्ते दुनिया", "👩‍👩‍👧‍👦 fam", "日本語のテキスト。",
		strings.Repeat(" ", 1000), "a\x7fb",
	} {
		ends := tokenEnds(text)
		if len(ends) != Tokens(text) {
			t.Errorf("%q has %d ends and %d tokens", text, len(ends), Tokens(text))
		}
		if len(ends) > 0 && ends[len(ends)-1] != len(text) {
			t.Errorf("%q: the last token ends at %d of %d", text, ends[len(ends)-1], len(text))
		}
	}
}

func TestTokensIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 50 {
				assert.Equal(t, 3, Tokens("one two three"), "a concurrent count is wrong")
			}
		})
	}
	group.Wait()
}

// Texts that make quadratic tokenizers hang for minutes; the test's own deadline is the measure.
func TestTokensOnHostileText(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{"a", " ", "\n", "é", "👍", "aB", "9", "'", "\u200b", "ا"} {
		assert.Truef(t, Tokens(strings.Repeat(unit, 60_000/len(unit))) != 0, "60 KB of %q count as nothing", unit)
	}
}
