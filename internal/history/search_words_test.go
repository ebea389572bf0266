package history

import (
	"strings"
	"testing"
	"unicode/utf8"
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
		if got := WebSearch(query); got != want {
			t.Errorf("%s: %s, not %s", query, got, want)
		}
	}
}

func TestIsQuestion(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]bool{
		"what is my teacher called": true, "well-known": true, "a or b": true, "東京": true, "": true,
		`"my bow"`: false, "“my bow”": false, "-bow": false, "scale -bow": false,
	} {
		if got := IsQuestion(query); got != want {
			t.Errorf("%q: %v", query, got)
		}
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
		if strings.Count(got, `"`)%2 != 0 {
			t.Errorf("a lone quote in %q", got)
		}
		if !utf8.ValidString(query) {
			return // the service refuses it
		}
		if a, b := onlyWords(query), onlyWords(got); a != b {
			t.Errorf("the words were %q and are %q", a, b)
		}
		previous := ' '
		for _, r := range got {
			if isSpaceless(r) && isSpaceless(previous) {
				t.Errorf("%c%c touch in %q", previous, r, got)
			}
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
