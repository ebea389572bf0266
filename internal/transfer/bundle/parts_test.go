package bundle

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	partCall   = `{"type":"tool_call","at":4,"call_id":"a-1","name":"look","arguments":{"q":1.50,"s":"<é>"},"run":"client","approval":true}`
	partResult = `{"type":"tool_result","at":5,"call_id":"a-1","status":"done","output":{"n":12345678901234567890},"truncated":true}`
	allParts   = `{"type":"reasoning","at":0,"text":"Hm."},` + partCall + `,{"type":"tool_approval","at":4,"call_id":"a-1","approved":false,"reason":"no"},` +
		partResult + `,{"type":"source","at":5,"url":"u","title":"t"}`
)

// replyWith is the sample with parts in its reply, whose content has five characters.
func replyWith(t *testing.T, parts string) string {
	return replaced(t, replaced(t, sampleOf(t, NewLines), `"content":"","status":"interrupted"`, `"content":"Är 日.","status":"interrupted"`),
		`"tool_calls":[{"function"`, `"parts":`+parts+`,"tool_calls":[{"function"`)
}

// A reply's parts are read with the members that they may have, and written as they are read. People see calls and results.
func TestPartsReadBack(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"[" + allParts + "]": "[" + allParts + "]", "null": "", "[]": "[]",
		`[{"type":"tool_call","at":0,"call_id":"1","name":"f","arguments":"{","run":"server","more":1},` +
			`{"at":0,"type":"tool_result","call_id":"1","status":"skipped"}]`: `[` +
			`{"type":"tool_call","at":0,"call_id":"1","name":"f","arguments":"{","run":"server","approval":false},` +
			`{"type":"tool_result","at":0,"call_id":"1","status":"skipped","output":null}]`,
	} {
		_, records := mustRead(t, replyWith(t, given))
		reply := messagesOf(records)[1]
		assert.Equal(t, want, string(reply.Parts), given)
		chat, file, messages, revision := sample()
		messages[1].Content, messages[1].Parts = reply.Content, reply.Parts
		text := written(t, NewLines, chat, Record{File: &file}, Record{Message: &messages[0]}, Record{Message: &messages[1]}, Record{Message: &messages[2]},
			Record{Revision: &revision})
		_, again := mustRead(t, text)
		assert.Equal(t, records, again, given)
	}
	_, records := mustRead(t, replyWith(t, "["+allParts+"]"))
	var out strings.Builder
	require.NoError(t, NewMarkdown(&out).Message(messagesOf(records)[1]))
	assert.Contains(t, out.String(), "\n> Är 日.\n")
	assert.Contains(t, out.String(), "\n```json\n"+partCall+"\n"+
		`{"type":"tool_approval","at":4,"call_id":"a-1","approved":false,"reason":"no"}`+"\n"+partResult+"\n```\n")
	assert.NotContains(t, out.String(), "Hm.")
}

func TestPartsAreChecked(t *testing.T) {
	t.Parallel()
	call := func(from, to string) string { return replaced(t, partCall, from, to) }
	result := func(from, to string) string { return partCall + "," + replaced(t, partResult, from, to) }
	for parts, want := range map[string]string{
		`{}`:                              "wrong_type",
		`[7]`:                             "wrong_type",
		`[{"type":"reasoning","at":"0"}]`: "wrong_type",
		`[{"type":"reasoning","at":1.5}]`: "wrong_type",
		`[{"type":"image","at":0}]`:       "bad_part",
		`[{"at":0}]`:                      "bad_part",
		`[{"type":"source","at":-1}]`:     "bad_part",
		`[{"type":"source","at":6}]`:      "bad_part",
		"[" + partCall + `,{"type":"source","at":3}]`:                                                     "bad_part",
		"[" + partCall + "," + partCall + "]":                                                             "bad_part",
		"[" + partResult + "]":                                                                            "bad_part",
		"[" + partCall + "," + partResult + "," + partResult + "]":                                        "bad_part",
		"[" + result(`"done"`, `"fine"`) + "]":                                                            "bad_part",
		"[" + partCall + `,{"type":"tool_approval","at":4,"call_id":"a-1"}]`:                              "bad_part",
		"[" + result(`{"n":12345678901234567890}`, strings.Repeat("[", 31)+strings.Repeat("]", 31)) + "]": "too_deep",
		"[" + result(`12345678901234567890`, "1e400") + "]":                                               "out_of_range",
		"[" + result(`"n"`, `"\u0000"`) + "]":                                                             "null_character",
		"[" + call(`"a-1"`, `"a 1"`) + "]":                                                                "bad_part",
		"[" + call(`"a-1"`, `"`+strings.Repeat("x", 65)+`"`) + "]":                                        "bad_part",
		"[" + call(`"look"`, `""`) + "]":                                                                  "bad_part",
		"[" + call(`{"q":1.50,"s":"<é>"}`, `[1]`) + "]":                                                   "bad_part",
		"[" + call(`"client"`, `"both"`) + "]":                                                            "bad_part",
		"[" + call(`"approval":true`, `"approval":1`) + "]":                                               "wrong_type",
		`[{"type":"source","at":0}` + strings.Repeat(`,{"type":"source","at":0}`, maxParts) + "]":         "bad_part",
		`[` + strings.Replace(allParts, `,{"type":"source"`,
			`,{"type":"tool_approval","at":5,"call_id":"a-1","approved":true},{"type":"source"`, 1) + "]": "bad_part",
	} {
		assert.Equalf(t, want+"@5", refused(t, replyWith(t, parts)), "%s", parts[:min(200, len(parts))])
	}
	users := replaced(t, sampleOf(t, NewLines), `"tool_calls":null`, fmt.Sprintf(`"tool_calls":null,"parts":[%s]`, `{"type":"source","at":0}`))
	assert.Equal(t, "bad_part@4", refused(t, users))
}
