package recall

import (
	_ "embed"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

//go:embed testdata/smalltalk.txt
var smallTalk string

// Small talk costs nothing: Recall answers it without a query.
func TestSmallTalkPassesNoGate(t *testing.T) {
	t.Parallel()
	messages := strings.Split(strings.TrimSpace(smallTalk), "\n")
	var pass []string
	for _, content := range messages {
		if words := wordsOf(content); canPass(words) {
			pass = append(pass, content)
		}
	}
	t.Logf("%d of %d could pass: %q", len(pass), len(messages), pass)
	assert.Truef(t, len(messages) >= 500 && len(pass)*50 <= len(messages),
		"%d of %d messages could pass", len(pass), len(messages))
}

func TestQuestionsKeepWhatTheyAreAbout(t *testing.T) {
	t.Parallel()
	for question, want := range map[string]string{
		"What was the name of my dentist?":                    "name. dentist",
		"Which string broke in March?":                        "string broke+break+broken march",
		"Wie hieß der Zahnarzt in Graz?":                      "hieß zahnarzt graz",
		"Quel est le nom de mon dentiste ?":                   "nom. dentiste",
		"¿Dónde compré el violín?":                            "compré violín",
		"Come si chiama il mio dentista?":                     "chiama dentista",
		"Who fought in the war?":                              "fought+fight war",
		"Wer hat das Buch geschrieben, und war es gut?":       "buch geschrieben gut.",
		"我的牙医叫什么名字？":                                          "牙医 医叫 名字",
		"東京の歯医者はどこ？":                                          "東京 歯医 医者",
		"Write to ilse@example.org about https://a.org/b?c=1": "write.+wrote+written ilse@example.org https://a.org/b?c=1",
		"version 3.5, build 12,000":                           "version. 3.5. build+built 12,000.",
		"ok, thanks":                                          "ok. thanks.",
		"is it?":                                              "is. it.",
	} {
		var got []string
		for _, w := range wordsOf(question) {
			written := strings.Join(w.forms, "+")
			if w.weak {
				written = strings.Replace(written+"+", "+", ".+", 1)
				written = strings.TrimSuffix(written, "+")
			}
			got = append(got, written)
		}
		assert.Equalf(t, want, strings.Join(got, " "), "%s", question)
	}
}

func TestAPastedPageIsCutToItsFirstWords(t *testing.T) {
	t.Parallel()
	var page []string
	for n := range 500 {
		page = append(page, "word"+strings.Repeat("x", n))
	}
	got := len(wordsOf(strings.Join(page, " ")))
	assert.Truef(t, got == mostWords, "%d words", got)
}

func TestRootsOfOneWordAreEqual(t *testing.T) {
	t.Parallel()
	for _, words := range [][]string{
		{"dentist", "dentists"}, {"camp", "camping", "camped", "camps"}, {"stop", "stopped", "stopping"}, {"city", "cities"},
		{"love", "loves", "loved", "loving"}, {"quick", "quickly"},
	} {
		var roots []string
		for _, w := range words {
			roots = append(roots, rootOf(w))
		}
		assert.Equalf(t, 1, len(slices.Compact(roots)), "%q have the roots %q", words, roots)
	}
}
