package history

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// marked writes a text as Postgres does: [ and ] for the marks, | for what stands beside characters of
// scripts without spaces.
func marked(text string) string {
	return strings.NewReplacer("[", string(MarkStart), "]", string(MarkStop), "|", "\x01 ").Replace(text)
}

func TestReadSnippet(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		marked string
		want   Snippet
	}{
		"nothing":                   {"", Snippet{"", []Highlight{}}},
		"no marks":                  {"slow scales", Snippet{"slow scales", []Highlight{}}},
		"words":                     {"[Slow] and even [slower]", Snippet{"Slow and even slower", []Highlight{{0, 4}, {14, 20}}}},
		"code points, not bytes":    {"Grüße 👩‍👩‍👧 [Übung]", Snippet{"Grüße 👩‍👩‍👧 Übung", []Highlight{{12, 17}}}},
		"a word of characters":      {"|私||は||[東]||[京]||タ|", Snippet{"私は東京タ", []Highlight{{2, 4}}}},
		"real spaces stay":          {"|[東]| |[京]|", Snippet{"東 京", []Highlight{{0, 1}, {2, 3}}}},
		"space around":              {"  \n[bow] hold \t", Snippet{"bow hold", []Highlight{{0, 3}}}},
		"half a pair at the end":    {"|[東]\x01", Snippet{"東", []Highlight{{0, 1}}}},
		"half a pair at the start":  {" 東|[京]|", Snippet{"東京", []Highlight{{1, 2}}}},
		"a mark that is not closed": {"a [bow", Snippet{"a bow", []Highlight{{2, 5}}}},
		"one that was not opened":   {"a bow] b", Snippet{"a bow b", []Highlight{}}},
		"an empty one":              {"a [] b", Snippet{"a  b", []Highlight{}}},
	} {
		if diff := cmp.Diff(c.want, ReadSnippet(marked(c.marked))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// Whatever Postgres gives: highlights lie within the snippet, in their order, and do not touch.
func FuzzReadSnippet(f *testing.F) {
	for _, seed := range []string{"[a] b", "|東||[京]|", "[[a]]", "]a[", "[ ]", " [a] ", "\xff[a"} {
		f.Add(marked(seed))
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := ReadSnippet(text)
		length, end := len([]rune(got.Text)), -1
		for _, h := range got.Highlights {
			if h.Start <= end || h.End <= h.Start || h.End > length {
				t.Errorf("%+v in %q", got.Highlights, got.Text)
			}
			end = h.End
		}
		if strings.ContainsRune(got.Text, MarkStart) || strings.ContainsRune(got.Text, MarkStop) || strings.ContainsRune(got.Text, '\x01') {
			t.Errorf("marks are left in %q", got.Text)
		}
	})
}
