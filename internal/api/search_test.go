package api

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
)

func TestWebSearch(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"":                     "",
		"scale running":        "scale running",
		`"slow scale" or -bow`: `"slow scale" or -bow`,
		"東京":                   `"東 京"`,
		"-東京":                  `-"東 京"`,
		"東京 or 大阪":             `"東 京" or "大 阪"`,
		"東京、大阪":                `"東 京"、"大 阪"`,
		`"東京 タワー"`:             `"東 京  タ ワ ー"`,
		`"in 東京tower" bow`:     `"in 東 京 tower" bow`,
		"-iPhone16東京":          `-"iPhone16 東 京"`,
		"佐々木":                  `"佐 々 木"`,
		"วันนี้":               `"ว ั น น ี ้"`,
		"첼로 연습":                `"첼 로" "연 습"`,
		"пробежка हिन्दी العود": "пробежка हिन्दी العود",
		`東京" bow`:           `"東 京"  bow`,
		`a "b" c" 東京`:       `a "b" c  "東 京"`,
		`"`:                 " ",
		"“slow scale” „東京”": `"slow scale" "東 京"`,
		`foo"東京"bar`:        `foo"東 京"bar`,
		"東":                 `"東"`,
		"--verbose":         " verbose",
		"slow - -- scales":  "slow   scales",
		"-bow-hold -scales": "-bow-hold -scales",
	} {
		assert.Equalf(t, want, WebSearch(query), "%s", query)
	}
}

func TestIsQuestion(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]bool{
		"what is my teacher called": true, "well-known": true, "a or b": true, "東京": true, "": true,
		`"my bow"`: false, "“my bow”": false, "-bow": false, "scale -bow": false,
	} {
		assert.Equalf(t, want, IsQuestion(query), "%q", query)
	}
}

// Whatever a query is: its quotes come in pairs, its words stay, and no two characters of a script without
// spaces touch.
func FuzzWebSearch(f *testing.F) {
	for _, seed := range []string{`東京 "a b" -c`, `"東`, `""`, `-"京"-`, "ไทย“x", "\xff東", `a"b"c"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		got := WebSearch(query)
		assert.Equalf(t, 0, strings.Count(got, `"`)%2, "a lone quote in %q", got)
		if !utf8.ValidString(query) {
			return // the service refuses it
		}
		a, b := onlyWords(query), onlyWords(got)
		assert.Truef(t, a == b, "the words were %q and are %q", a, b)
		previous := ' '
		for _, r := range got {
			assert.Truef(t, !isSpaceless(r) || !isSpaceless(previous), "%c%c touch in %q", previous, r, got)
			previous = r
		}
	})
}

func onlyWords(text string) string {
	return strings.Map(func(r rune) rune {
		if inWord(r) {
			return r
		}
		return -1
	}, text)
}

func TestAnyTerms(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]struct{ terms, without string }{
		"":                             {"", ""},
		"slow scale":                   {"scale slow", ""},
		"slow or fast OR slow":         {"fast slow", ""},
		`"slow scale" bow -fast`:       {`"slow scale" bow`, "-fast"},
		`bow -"slow scale" -"東京" -大阪`:  {"bow", `-"slow scale" -"東 京" -"大 阪"`},
		"--verbose":                    {"verbose", ""},
		`a "lone`:                      {"a lone", ""},
		"“slow scale”":                 {`"slow scale"`, ""},
		"東京で":                          {`"京 で" "東 京"`, ""},
		"iPhone16東 well-known":         {`"東" iPhone16 well-known`, ""},
		"-only":                        {"", "-only"},
		strings.Repeat("x ", 10) + "y": {"x y", ""},
	} {
		terms, without := AnyTerms(query)
		got := strings.Join(terms, " ")
		assert.Truef(t, got == want.terms && without == want.without, "%s: %s without %s", query, got, without)
	}
	many := ""
	for r := 'a'; r <= 'z'; r++ {
		many += string(r) + " " + string(r) + string(r) + " "
	}
	terms, _ := AnyTerms(many)
	assert.Truef(t, len(terms) == maxAnyTerms, "%d terms", len(terms))
}

// Whatever a query is, no term is empty, and the quotes of each come in pairs.
func FuzzAnyTerms(f *testing.F) {
	for _, seed := range []string{`東京 "a b" -c`, `"東`, `""`, `-"京"-`, "ไทย“x", "\xff東", `a"b"c"`, "- -- or"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		terms, without := AnyTerms(query)
		if slices.ContainsFunc(terms, func(term string) bool { return term == "" || strings.Count(term, `"`)%2 != 0 }) || strings.Count(without, `"`)%2 != 0 {
			t.Errorf("%q: %q without %q", query, terms, without)
		}
	})
}

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
		assert.Equalf(t, "", cmp.Diff(c.want, ReadSnippet(marked(c.marked))), "%s", name)
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
			assert.Truef(t, h.Start > end && h.End > h.Start && h.End <= length, "%+v in %q", got.Highlights, got.Text)
			end = h.End
		}
		assert.Truef(t, !strings.ContainsRune(got.Text, MarkStart) && !strings.ContainsRune(got.Text, MarkStop) && !strings.ContainsRune(got.Text, '\x01'),
			"marks are left in %q", got.Text)
	})
}
