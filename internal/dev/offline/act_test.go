package offline

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTheModelCallsWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	offered := []string{"roll_dice", "send_postcard", "take_photo"}
	for current, want := range map[string]string{
		"Roll a die":                             `roll_dice {"count":1}`,
		"Could you please roll two dice for me?": `roll_dice {"count":2}`,
		"roll the dice!":                         `roll_dice {}`,
		"Hello. Roll three 20-sided dice, please. Thank you!": `roll_dice {"count":3,"sides":20}`,
		"Roll a die with 12 sides.":                           `roll_dice {"count":1,"sides":12}`,
		"roll 2d8":                                            `roll_dice {"count":2,"sides":8}`,
		"Würfle!":                                             `roll_dice {}`,
		"Bitte würfle einmal für mich.":                       `roll_dice {}`,
		"Würfle bitte mit zwei Würfeln.":                      `roll_dice {"count":2}`,
		"wirf drei Würfel":                                    `roll_dice {"count":3}`,
		"Würfle einen W20":                                    `roll_dice {"count":1,"sides":20}`,
		"Kannst du bitte zwei Würfel werfen?":                 `roll_dice {"count":2}`,
		"Send a postcard to Anna: Greetings. See you!":        `send_postcard {"text":"Greetings. See you!","to":"Anna"}`,
		"Schick Anna eine Postkarte: Grüße aus Kiel":          `send_postcard {"text":"Grüße aus Kiel","to":"Anna"}`,
		"Bitte schicke eine Postkarte an Jo, bis bald":        `send_postcard {"text":"bis bald","to":"Jo"}`,
		`/take_photo {"flash": true}`:                         `take_photo {"flash": true}`,
		"Now. [[offline:call=take_photo]]":                    `take_photo {}`,

		"I rolled two dice yesterday.":              "",
		"Why do people roll dice?":                  "",
		"Anna sent a postcard to Jo: it was lovely": "",
		"/unknown {}":                               "",
		"[[offline:call=unknown]]":                  "",
	} {
		assert.Equalf(t, want, inOneLine(act(&Request{Current: current, Tools: offered})), "%q", current)
		assert.Emptyf(t, act(&Request{Current: current}), "%q, and nothing is offered", current)
		assert.Emptyf(t, act(&Request{Current: current, Tools: offered, Choice: "none"}), "%q, and nothing may be called", current)
	}
	assert.Equal(t, `roll_dice {}`, inOneLine(act(&Request{Current: "Hello.", Tools: offered, Choice: "required"})))
}

// inOneLine is the first call of a step; "" where there is none.
func inOneLine(items []Item) string {
	if len(items) == 0 {
		return ""
	}
	o := (&Server{}).newOutput(&Request{}, "1", items[0])
	return o.name + " " + o.text
}

func TestTheModelSaysHowACallEnded(t *testing.T) {
	t.Parallel()
	const card = "Send a postcard to Anna: Hi"
	for _, c := range []struct{ current, tool, output, want string }{
		{"Roll a die", "roll_dice", `{"total":4}`, "You rolled 4."},
		{"Roll two dice", "roll_dice", `{"rolls":[3,5],"total":8}`, "You rolled 3, 5, which makes 8."},
		{"Würfle mit zwei Würfeln", "roll_dice", `{"rolls":[3,5],"total":8}`, "Du hast 3, 5 gewürfelt, zusammen 8."},
		{"Roll 900 dice", "roll_dice", `{"error":"too many","status":400}`, "The dice did not roll: too many"},
		{card, "send_postcard", `{"sent":"cards/1.txt"}`, "The postcard to Anna is sent: cards/1.txt"},
		{card, "send_postcard", `{"approved":false}`, "I did not send it."},
		{card, "send_postcard", `The user declined.`, "I did not send it."},
		{card, "send_postcard", `{"reason":"too late"}`, "I did not send it: too late"},
		{"Schick Anna eine Postkarte: Hi", "send_postcard", ``, "Ich habe sie nicht abgeschickt."},
		{"/take_photo {}", "take_photo", `"a cat"`, `take_photo answered: "a cat"`},
	} {
		r := &Request{
			Current: c.current, Step: 1, calls: []said{{kind: kindCall, callID: "c", name: c.tool, text: `{"to":"Anna"}`}}, Outputs: map[string]string{"c": c.output},
		}
		assert.Equal(t, []Item{Text{Text: c.want}}, act(r))
	}
}
