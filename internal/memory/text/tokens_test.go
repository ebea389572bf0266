package text

import (
	"strings"
	"sync"
	"testing"
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
		if got := Tokens(text); got != want {
			t.Errorf("Tokens(%q) = %d, want %d", text, got, want)
		}
	}
}

func TestTokenEndsCoverTheWholeText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "one", "a  b\n\n\tc ", "नमस्ते दुनिया", "👩‍👩‍👧‍👦 fam", "日本語のテキスト。", strings.Repeat(" ", 1000), "a\x7fb"} {
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
				if Tokens("one two three") != 3 {
					t.Error("a concurrent count is wrong")
				}
			}
		})
	}
	group.Wait()
}

// Texts that make quadratic tokenizers hang for minutes; the test's own deadline is the measure.
func TestTokensOnHostileText(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{"a", " ", "\n", "é", "👍", "aB", "9", "'", "\u200b", "ا"} {
		if Tokens(strings.Repeat(unit, 60_000/len(unit))) == 0 {
			t.Errorf("60 KB of %q count as nothing", unit)
		}
	}
}
