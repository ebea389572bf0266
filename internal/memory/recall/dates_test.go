package recall

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

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
