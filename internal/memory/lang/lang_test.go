package lang_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/memory/lang"
)

var sectionLine = regexp.MustCompile(`^\[([^\[\]]+)\]$`)

// Each section of each file is read, has words, and stands below a comment that says what they do.
func TestEveryFileIsRead(t *testing.T) {
	t.Parallel()
	files, err := os.ReadDir("data")
	require.Truef(t, err == nil && len(files) >= 20, "%v %v", "no data:", err)
	for _, file := range files {
		code, ok := strings.CutSuffix(file.Name(), ".txt")
		content, err := os.ReadFile("data/" + file.Name())
		if err != nil || !ok {
			t.Errorf("%s is not read: %v", file.Name(), err)
			continue
		}
		seen := map[string]bool{}
		before := ""
		for line := range strings.Lines(string(content)) {
			line = strings.TrimSuffix(line, "\n")
			assert.Truef(t, strings.TrimRight(line, " ") == line, "%s: %q ends in a space", file.Name(), line)
			if m := sectionLine.FindStringSubmatch(line); m != nil {
				name := m[1]
				assert.Truef(t, !seen[name] && strings.HasPrefix(before, "# ") && len(lang.Get(code, name).Words()) != 0,
					"%s: section %q is empty, there twice, or has no comment", file.Name(), name)
				seen[name] = true
			}
			before = line
		}
	}
}

func TestPhrases(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ phrase, matches, not string }{
		{"rule[s]", "rules", "ruling"},
		{"rule*", "rule|rulers", "role"},
		{"(a/b) [very] big", "a big|b very big", "c big|a verybig"},
		{"a [b/c]* d", "a d|a b d|a b c b d", "a e d|ad"},
		{"not {2} here", "not here|not a b here", "not a b c here"},
		{"ask {2}", "ask|ask me now", "asks|ask me right now"},
		{"so [about that]", "so|so about that", "so about"},
		{"# days", "12 days", "twelve days"},
		{"in _ days", "in five days", "in days"},
		{"from~6to", "from a to|fromto", "from a long way to"},
		{`yes\, sir/madam`, "yes, sir/madam", "yes sir"},
		{"^end$", "end", "the end"},
		{"jail[ ]break", "jail break|jailbreak", "jail  break"},
	} {
		pattern := regexp.MustCompile(`^(?:` + lang.Expression(c.phrase) + `)$`)
		for text := range strings.SplitSeq(c.matches, "|") {
			assert.Truef(t, pattern.MatchString(text), "%q does not match %q: %s", c.phrase, text, pattern)
		}
		for text := range strings.SplitSeq(c.not, "|") {
			assert.Falsef(t, pattern.MatchString(text), "%q matches %q: %s", c.phrase, text, pattern)
		}
	}
}

// depth is how many brackets of a phrase stay open.
func depth(phrase string) int {
	phrase = regexp.MustCompile(`\\.`).ReplaceAllString(phrase, "")
	return strings.Count(phrase, "(") + strings.Count(phrase, "[") - strings.Count(phrase, ")") - strings.Count(phrase, "]")
}

// All phrases are expressions that compile. A wrong one would panic when it is first used.
func TestPhrasesCompile(t *testing.T) {
	t.Parallel()
	count := 0
	for _, name := range lang.Names("") {
		for _, s := range lang.Each(name) {
			if s.Language == lang.Any {
				continue
			}
			seen := map[string]bool{}
			for _, phrase := range s.Phrases() {
				count++
				assert.Truef(t, !seen[phrase], "%s of %s has %q twice", name, s.Language, phrase)
				seen[phrase] = true
				_, err := regexp.Compile(lang.Expression(phrase))
				assert.Truef(t, err == nil && depth(phrase) == 0, "%s of %s: %q is no phrase: %v", name, s.Language, phrase, err)
			}
		}
	}
	assert.Truef(t, count >= 3000, "only %d phrases", count)
}

func TestLanguageIsTold(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"I live in Porto with my two cats.":     "en",
		"Ich wohne in Porto mit meinen Katzen.": "de",
		"J'habite à Porto avec mes deux chats.": "fr",
		"Mieszkam w Łodzi i mam psa.":           "pl",
		"У меня есть кошка и собака.":           "ru",
		"У мене є кішка і собака.":              "uk",
		"私は札幌に住んでいます":                           "ja",
		"我住在成都":                                 "zh",
		"저는 부산에 살아요":                            "ko",
		"Porto":                                 "",
		"":                                      "",
	} {
		assert.Equalf(t, want, lang.Of(text), "the language of %q", text)
	}
}

func TestSpellingsAreFolded(t *testing.T) {
	t.Parallel()
	assert.Equal(t, `grosse "lodz" - ecole`, lang.Fold("  Größe\t„Łódź“ – Ｅｃｏｌｅ  "), "it is folded to")
	assert.Equal(t, "i m 7 北京 京市", strings.Join(lang.Terms("I'm 7, 北京市!"), " "), "its terms")
}

func TestMissingDataPanics(t *testing.T) {
	t.Parallel()
	defer func() {
		assert.True(t, recover() != nil, "a missing section is not noticed")
	}()
	lang.Each("none")
}
