package postgres

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/arcoscribe/throughline/internal/history"
)

// Whatever a person types, a search answers.
func TestOddSearchesAreAnswered(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.keep(b.user, "a b 日 ก 1 or", "and -1 a@b. http://a")
	search := func(t require, text string) {
		if _, err := b.searches().Search(b.t.Context(), b.user, history.SearchQuery{Text: text, Limit: 5}); err != nil {
			t.Fatalf("%.60q: %v", text, err)
		}
	}
	for _, part := range []string{"-", "--", `-""`, `-" "`, "-|", "-\u00a0", "-.", "- ", "-a ", "!", "&", "|", ":*", "<->", "(", ")", "'", `"`, `\`, "%", "or ", "or -", `"a" or -`, `"" `, `-"a b" `, "*", ":", ".", "/", "@", "a-", "a-b-", "日-", "“", "\u200b", "\ufffd", "1e", "-1.5e", "a@b.", "http://", "<a ", "&amp;", "\t\n", "\U0010ffff"} {
		for _, times := range []int{1, 2, 3, 49, 50, 51, 500} {
			text := []rune(strings.Repeat(part, times))
			search(t, string(text[:min(len(text), 500)]))
			search(t, "a"+string(text[:min(len(text), 490)])+"b")
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		search(t, strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"-", "!", "a", "b ", " ", `"`, "or", "OR ", "and", "'", ":*", "(", ")", `\`, "日", "ก", "-1", ".", "/", "@", "<", ">", "&", "\x01"}), 0, 200).Draw(t, "parts"), ""))
	})
}
