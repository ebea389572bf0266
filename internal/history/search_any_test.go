package history

import (
	"slices"
	"strings"
	"testing"
)

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
		if got := strings.Join(terms, " "); got != want.terms || without != want.without {
			t.Errorf("%s: %s without %s", query, got, without)
		}
	}
	many := ""
	for r := 'a'; r <= 'z'; r++ {
		many += string(r) + " " + string(r) + string(r) + " "
	}
	if terms, _ := AnyTerms(many); len(terms) != maxAnyTerms {
		t.Errorf("%d terms", len(terms))
	}
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
