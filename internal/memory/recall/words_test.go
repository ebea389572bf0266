package recall

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

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
		if words := Words(content); canPass(words) {
			pass = append(pass, content)
		}
	}
	t.Logf("%d of %d could pass: %q", len(pass), len(messages), pass)
	assert.Truef(t, len(messages) >= 500 && len(pass)*50 <= len(messages), "%d of %d messages could pass", len(pass), len(messages))
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
		for _, w := range Words(question) {
			written := strings.Join(w.Forms, "+")
			if w.Weak {
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
	assert.Len(t, Words(strings.Join(page, " ")), mostWords, "words")
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

func TestTimesThatAQuestionNames(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.November, 20, 15, 0, 0, 0, time.UTC) // a Friday
	for question, want := range map[string]string{
		"What did I say on 2026-03-03?":         "2026-03-03..2026-03-04",
		"Which string broke in March?":          "2026-03-01..2026-04-01",
		"What did we do on March 3rd, 2025?":    "2025-03-03..2025-03-04",
		"What was it on the 3rd of March?":      "2026-03-03..2026-03-04",
		"Was it in December?":                   "2025-12-01..2026-01-01",
		"Where was I last week?":                "2026-11-09..2026-11-16",
		"What did I eat yesterday?":             "2026-11-19..2026-11-20",
		"And last month?":                       "2026-10-01..2026-11-01",
		"What happened in 2025?":                "2025-01-01..2026-01-01",
		"May I ask you something?":              "",
		"How far did they march?":               "",
		"What did I buy in May?":                "2026-05-01..2026-06-01",
		"Was habe ich am 3. März gesagt?":       "2026-03-03..2026-03-04",
		"Was war letzte Woche?":                 "2026-11-09..2026-11-16",
		"Was geschah am 03.03.2026?":            "2026-03-03..2026-03-04",
		"Qu'ai-je dit le 3 mars 2026 ?":         "2026-03-03..2026-03-04",
		"Qu'ai-je fait la semaine dernière ?":   "2026-11-09..2026-11-16",
		"¿Qué dije el 3 de marzo de 2026?":      "2026-03-03..2026-03-04",
		"¿Qué hice ayer?":                       "2026-11-19..2026-11-20",
		"Cosa ho detto il 3 marzo?":             "2026-03-03..2026-03-04",
		"Cosa ho fatto la settimana scorsa?":    "2026-11-09..2026-11-16",
		"O que eu disse em 3 de março de 2026?": "2026-03-03..2026-03-04",
		"O que fiz na semana passada?":          "2026-11-09..2026-11-16",
		"What is 2026-99-01, or room 4711?":     "",
	} {
		var got []string
		for _, p := range periodsIn(question, now) {
			got = append(got, p.from.Format(time.DateOnly)+".."+p.to.Format(time.DateOnly))
		}
		assert.Equalf(t, want, strings.Join(got, " "), "%s", question)
	}
}

func FuzzPeriods(f *testing.F) {
	f.Add("on March 3rd 2025, last week, 2026-02-31, 99.99.2026")
	f.Fuzz(func(t *testing.T, question string) {
		for _, p := range periodsIn(question, time.Now()) {
			assert.Truef(t, p.from.Before(p.to), "%q names %v", question, p)
		}
	})
}

// The worked example of docs/memories.md: two of the chat's five turns hold a word, the second in the question before it.
func TestExampleOfTheDocument(t *testing.T) {
	t.Parallel()
	const question = "Which string broke in March?"
	words := Words(question)
	at := time.Date(2026, time.March, 3, 18, 20, 0, 0, time.UTC)
	first := Place{Span: Span{TurnID: TurnID{Seq: 1}, LastSeq: 2}, AskedSeq: 1, Size: 20, SaidAt: at}
	second := Place{Span: Span{TurnID: TurnID{Seq: 3}, LastSeq: 4}, AskedSeq: 1, Size: 21, SaidAt: at.Add(time.Minute)}
	r := newRanking(words, Matches{Turns: 5, Found: []Match{
		{first, 0, 1, 0}, {first, 1, 1, 0}, {second, 0, 0, 1}, {second, 1, 0, 1},
	}})
	var lines []string
	for _, c := range r.ranked(0, periodsIn(question, at.AddDate(0, 3, 0))) {
		lines = append(lines, fmt.Sprintf("%d %.2f %.2f %.2f %.2f %v", c.Seq, c.ownView, c.window, c.near, c.score, r.passesByWords(c)))
	}
	assert.Equal(t, "1 1.00 1.00 1.00 1.80 true\n3 -1.00 -1.00 -1.00 -1.80 false", strings.Join(lines, "\n"))
}
