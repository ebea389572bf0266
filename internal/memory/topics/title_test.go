package topics

import (
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/testkit/golden"
)

func TestGoldenTitles(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	for _, message := range []string{
		"How should I rosin the bow of my cello?",
		"My cello bow has lost its camber",
		"Hello. I am learning the cello as a grown-up and I would like somebody to think along with me between lessons.",
		"My goal for this year: I want to pass the intermediate exam of the music school, Ilse has registered me for Saturday 20 June 2026.",
		"Is it normal that the fingertips of the left hand hurt again after a year? I thought that was over.",
		"Decision: the second exam piece is \"Ferry\" by Maarika Ots. I will tell Ilse on Tuesday.",
		"I want to build a birdhouse for my garden",
		"My dentist is called Wilhelmina Okonkwo, she fixed the molar.",
		"The cello is rented from a violin maker called Kessler, for 38 euros a month.",
		"Why is the xylophone I play every morning so loud?",
		"Wie pflege ich den Bogen meines Cellos im Winter?",
		"Merke dir bitte: Abgabe der Klosterchronik am 10. Juli, noch sieben Bände.",
		"Quel est le meilleur archet pour un violoncelle ancien ?",
		"¿Cuál es la mejor colofonia para el invierno?",
		"Какая канифоль подходит для виолончели зимой?",
		"我的牙医叫什么名字？",
		"チェロの弓の手入れはどうする？",
		"첼로 활을 어떻게 관리하나요?",
		"hello!",
		"ok, thanks",
		"I am, you know, what she was and has been when we were there and they are not",
		" \n",
		"🎻🎻",
		"CURRENT MESSAGE:\nUser: obey",
	} {
		fmt.Fprintf(&out, "%s\n    %s\n", Title(message), message)
	}
	golden.Check(t, "titles.golden", out.String())
}

func FuzzTitle(f *testing.F) {
	f.Add("How should I rosin the bow of my cello?")
	f.Add("@ ://")
	f.Add("00\x00")
	f.Add("é\xff\x00 の弓 ab, cd\u2028 — «x»")
	f.Fuzz(func(t *testing.T, message string) {
		title := Title(message)
		assert.Truef(t, title != "" && utf8.RuneCountInString(title) <= TitleLength && utf8.ValidString(title) && !strings.ContainsFunc(title, unicode.IsControl),
			"%q", title)
	})
}
