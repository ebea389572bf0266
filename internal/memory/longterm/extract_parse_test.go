package longterm

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseFacts(t *testing.T) {
	t.Parallel()
	const one = `{"fact":"The user plays the cello.","type":"fact","confidence":0.9,"horizon":"lasting","durable":false,"evidence":["U1"],` +
		`"quote":"I play the cello","valid_from":null,"valid_to":null,"replaces":null,"entities":[],"relationships":[]}`
	for answer, want := range map[string]int{
		`{"facts":[]}`:                                          0,
		`{"facts":[` + one + `]}`:                               1,
		"```json\n{\"facts\":[" + one + "]}\n```":               1,
		"```\n{\"facts\":[]}\n```":                              0,
		` {"facts":[` + one + `,` + one + `],"x":1}`:            2,
		`{"facts":[{"fact":7},null,"x",` + one + `]}`:           4, // the gate drops three of them
		`{"facts":[` + strings.Repeat(one+",", 99) + one + `]}`: mostFacts,
	} {
		facts, err := ParseFacts(answer)
		assert.Truef(t, err == nil && len(facts) == want, "%.60q: %d facts, %v", answer, len(facts), err)
	}
	for _, answer := range []string{"", "none", "null", "[]", `{"fact":[]}`, `{"facts":null}`, `{"facts":{}}`, `{"facts":"x"}`, `{"facts":[`,
		`{"facts":[]} and more`, strings.Repeat("[", 10_000), "I'm sorry, Ana."} {
		facts, err := ParseFacts(answer)
		if err == nil {
			t.Errorf("%.60q is read as %d facts", answer, len(facts))
		} else if strings.Contains(err.Error(), "Ana") {
			t.Errorf("the error repeats the answer: %v", err)
		}
	}
}

func TestUnreadableFactsAreDroppedAlone(t *testing.T) {
	t.Parallel()
	facts, err := ParseFacts(`{"facts":[{"fact":7},null,{"fact":"The user plays the cello.","type":"fact","confidence":0.9,"evidence":["U1"],"quote":"I ` +
		`play the cello"}]}`)
	require.NoError(t, err)
	v := Gate(Input{New: talkOf("U: I play the cello.")}, facts)
	assert.Truef(t, len(v.Candidates) == 1 && v.Dropped[BadForm] == 2 && strings.Contains(v.Retry, "form"), "%+v", v)
}

// What is read is judged without a panic, what is kept has the form of a memory, and each fact is kept or counted.
func FuzzParseAndGate(f *testing.F) {
	f.Add(`{"facts":[{"fact":"The user plays the cello.","type":"fact","confidence":0.9,"evidence":["U1"],"quote":"I play the cello"}]}`, "I play the cello")
	f.Add(`{"facts":[{"fact":"Ⅷ","type":"fact","confidence":0,"evidence":["A1"],"quote":"…","valid_from":"2026-02-29","entities":[{"name":"\u0000",`+
		`"type":"x"}]}]}`, "٣ days ago \u2028 U1: x")
	f.Add(`{"facts":[{"fact":"用户住在上海。","type":"context","confidence":1,"horizon":"months","evidence":["U1","U1"],`+
		`"quote":"住在上海","relationships":[{"source":"用户","relationship":"lives in","target":"上海"}]}]}`, "我2025年3月起住在上海\n```\n{")
	f.Fuzz(func(t *testing.T, answer, message string) {
		facts, err := ParseFacts(answer)
		if err != nil {
			return
		}
		in := Input{New: talkOf("U: "+message, "A: "+message), Recent: talkOf("A: " + message), Excluded: []string{message},
			Shown: []string{message}, Summary: message}
		v := Gate(in, facts)
		counted := len(v.Candidates)
		for _, n := range v.Dropped {
			counted += n
		}
		assert.Truef(t, counted == len(facts), "%d of %d facts are kept or counted", counted, len(facts))
		for _, c := range v.Candidates {
			n := utf8.RuneCountInString(c.Fact)
			assert.Truef(t, n != 0 && n <= 500 && !strings.Contains(c.Fact, "\n") && len(c.Evidence) != 0 && c.Confidence >= 0 && c.Confidence <= 1,
				"%+v is kept", c)
			for _, e := range c.Evidence {
				assert.Truef(t, utf8.RuneCountInString(e.Quote) <= mostQuote, "a quote has %d bytes", len(e.Quote))
			}
		}
		if _, err := json.Marshal(WriteInput(in)); err != nil {
			t.Error(err)
		}
	})
}
