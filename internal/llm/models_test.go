package llm

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// withTools is a request with tools in its second step.
func withTools() chat.ModelRequest {
	request := question()
	request.Choice, request.Tools = chat.ChoiceAuto, []chat.Function{
		{Name: "weather", Description: "Looks.", Parameters: json.RawMessage(`{"type":"object"}`)},
		{Name: "clock", Parameters: json.RawMessage(`{ }`), Strict: true}, {Name: "moon"},
	}
	request.Steps = []chat.ModelStep{{
		Items: []chat.Item{
			{Type: chat.ItemReasoning, Summary: []string{"I look."}, Encrypted: "gAAAA"}, {Type: chat.ItemReasoning, Summary: []string{"not sealed"}},
			{Type: chat.ItemMessage, Text: "Let me look. ", Phase: "commentary"}, calls("a", "weather", `{"city": `), calls("b", "clock", ""),
		},
		Outputs: []chat.ModelOutput{{CallID: "a", Output: `"20"`}, {CallID: "b", Output: ""}},
	}, {Items: []chat.Item{calls("c", "clock", "{}")}, Outputs: []chat.ModelOutput{{CallID: "c", Output: "12"}}}, {Items: []chat.Item{says("So.")}}}
	return request
}

// The bodies with tools and steps. Ids of what was not stored are not in them.
func TestBodiesWithTools(t *testing.T) {
	t.Parallel()
	const closed = `{"type":"object","properties":{},"required":[],"additionalProperties":false}`
	for _, c := range []struct {
		variant            Variant
		path, stream, want string
	}{
		{Variant{Effort: "low", ReasoningSummary: true}, "/responses", completedEvent, `{"model":"gpt-5.6-terra","instructions":"Be brief.",
			"stream":true,"store":false,"metadata":{"purpose":"reply"},"prompt_cache_key":"` + chatID.String() + `",
			"safety_identifier":"` + safetyIdentifier(userID) + `","include":["reasoning.encrypted_content"],"reasoning":{"effort":"low","summary":"auto"},
			"tool_choice":"auto","tools":[
			{"type":"function","name":"weather","description":"Looks.","parameters":{"type":"object"},"strict":false},
			{"type":"function","name":"clock","parameters":` + closed + `,"strict":true},
			{"type":"function","name":"moon","parameters":` + closed + `,"strict":false}],"input":[
			{"type":"message","role":"user","content":[{"type":"input_text","text":"CURRENT MESSAGE:\nHello?"}]},
			{"type":"reasoning","summary":[{"type":"summary_text","text":"I look."}],"encrypted_content":"gAAAA"},
			{"type":"message","role":"assistant","content":"Let me look. ","phase":"commentary"},
			{"type":"function_call","call_id":"a","name":"weather","arguments":"{\"city\": "},{"type":"function_call","call_id":"b","name":"clock","arguments":""},
			{"type":"function_call_output","call_id":"a","output":"\"20\""},{"type":"function_call_output","call_id":"b","output":""},
			{"type":"function_call","call_id":"c","name":"clock","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"12"},
			{"type":"message","role":"assistant","content":"So."}]}`},
		{Variant{Chat: true, Effort: "low"}, "/chat/completions", finishes("stop"), `{"model":"gpt-5.6-terra","stream":true,"stream_options":{"include_usage":true},
			"reasoning_effort":"low","tool_choice":"auto","tools":[
			{"type":"function","function":{"name":"weather","description":"Looks.","parameters":{"type":"object"},"strict":false}},
			{"type":"function","function":{"name":"clock","parameters":` + closed + `,"strict":true}},
			{"type":"function","function":{"name":"moon","parameters":` + closed + `,"strict":false}}],"messages":[
			{"role":"system","content":"Be brief."},{"role":"user","content":"CURRENT MESSAGE:\nHello?"},
			{"role":"assistant","content":"Let me look. ","tool_calls":[{"id":"a","type":"function","function":{"name":"weather","arguments":"{\"city\": "}},
			{"id":"b","type":"function","function":{"name":"clock","arguments":""}}]},
			{"role":"tool","tool_call_id":"a","content":"\"20\""},{"role":"tool","tool_call_id":"b","content":""},
			{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"clock","arguments":"{}"}}]},
			{"role":"tool","tool_call_id":"c","content":"12"},{"role":"assistant","content":"So."}]}`},
	} {
		client, calls := variantOn(t, c.variant, sends(c.stream))
		require.NoError(t, readTo(t.Context(), client, withTools(), nil).err)
		require.Len(t, *calls, 1)
		assert.Equal(t, c.path, (*calls)[0].path)
		assert.JSONEq(t, c.want, (*calls)[0].raw)
	}
}

// A text alone is sent as it always was, to the byte.
func TestBodyOfATextAlone(t *testing.T) {
	t.Parallel()
	c, calls := variantOn(t, Variant{}, sends(completedEvent))
	require.NoError(t, read(t.Context(), c, nil).err)
	want := `{"model":"gpt-5.6-terra","input":"CURRENT MESSAGE:\nHello?","instructions":"Be brief.","stream":true,"store":false,"metadata":{"purpose":"reply"},` +
		`"prompt_cache_key":"` + chatID.String() + `","safety_identifier":"` + safetyIdentifier(userID) + `"}`
	assert.Equal(t, want, (*calls)[0].raw)
	c, calls = variantOn(t, chatWire, sends(finishes("stop")))
	require.NoError(t, read(t.Context(), c, nil).err)
	assert.JSONEq(t, `{"model":"gpt-5.6-terra","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"system","content":"Be brief."},
		{"role":"user","content":"CURRENT MESSAGE:\nHello?"}]}`, (*calls)[0].raw)
}

// What a server refuses to know is left out from then on. Words count only where they can do no harm.
func TestWhatAVariantsServerRefuses(t *testing.T) {
	t.Parallel()
	const known = true
	for _, c := range []struct {
		name    string
		wire    Variant
		status  int
		refusal string
		field   string
		learnt  bool
	}{
		{"include", Variant{}, 400, `{"error":{"param":"include"}}`, `"include"`, known},
		{"include, in it", Variant{}, 400, `{"error":{"param":"include[0]"}}`, `"include"`, known},
		{"store, in words", Variant{}, 400, `{"error":{"message":"unknown: store"}}`, `"store"`, !known},
		{"store, a tool's member", Variant{}, 400, `{"error":{"param":"tools[0].parameters.properties.store"}}`, `"store"`, !known},
		{"stream_options", chatWire, 400, `{"error":{"param":"stream_options"}}`, `"stream_options"`, known},
		{"stream_options, in words", chatWire, 400, `{"error":{"message":"Unrecognized argument: stream_options","param":null}}`, `"stream_options"`, known},
		{"strict, where it stands", chatWire, 400, `{"error":{"param":"tools[0].function.strict"}}`, `"strict"`, known},
		{"strict, as FastAPI says it", chatWire, 422, `{"detail":[{"type":"extra_forbidden","loc":["body","tools",0,"function","strict"]}]}`, `"strict"`, known},
		{"strict, outside of error", chatWire, 400, `{"object":"error","message":"[{'loc': ('body', 'tools', 0, 'function', 'strict')}]"}`, `"strict"`, known},
		{"a schema", chatWire, 400, `{"error":{"message":"not strict","param":"tools[0].function.parameters"}}`, `"strict"`, !known},
		{"forbidden", chatWire, 403, `{"error":{"message":"strict"}}`, `"strict"`, !known},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			logs := &testkit.Log{}
			client, calls := variantOn(t, c.wire, answers(c.status, "application/json", c.refusal), sends(completedEvent, finishes("stop")))
			client.settings.Logger = logs.Logger()
			first := readTo(t.Context(), client, withTools(), nil).err
			assert.NoError(t, readTo(t.Context(), client, withTools(), nil).err)
			var sent []bool
			for _, call := range *calls {
				sent = append(sent, strings.Contains(call.raw, c.field+":"))
			}
			lines := logs.Lines(t, "the model's server refuses a field of calls, which are made without it from now on")
			if !c.learnt {
				wantFault(t, first, fault.UpstreamFailed)
				assert.Equal(t, []bool{true, true}, sent)
				assert.Empty(t, lines)
				return
			}
			assert.NoError(t, first)
			assert.Equal(t, []bool{true, false, false}, sent)
			assert.Len(t, lines, 1)
		})
	}
}

// A request is tried a single time where another variant answers if this one does not.
func TestOnce(t *testing.T) {
	t.Parallel()
	for once, want := range map[bool]int{false: maxRetries + 1, true: 1} {
		c, calls := variantOn(t, chatWire, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "0.01")
			plainly(503, "application/json", `{}`)(w, r)
		})
		request := question()
		request.Once = once
		wantFault(t, readTo(t.Context(), c, request, nil).err, fault.UpstreamOverloaded)
		assert.Len(t, *calls, want, "once: %v", once)
	}
}

// A variant is called on its own server, with its own key. The standard one's goes nowhere else.
func TestModelsCallEachVariantsServer(t *testing.T) {
	t.Parallel()
	var keys []string
	answer := func(name string) string {
		return serve(t, func(w http.ResponseWriter, r *http.Request) {
			keys = append(keys, name+" "+r.Header.Get("Authorization"))
			sends(delta(`"a"`), completedEvent, finishes("stop"))(w, r)
		}).url
	}
	standard, other := client(t, answer("standard"), 0), answer("other")
	models := NewModels(standard, map[string]Variant{
		"same server": {Effort: "low"}, "own key": {APIKey: "sk-own"}, "own server": {BaseURL: other, Chat: true}, "both": {BaseURL: other, APIKey: "sk-other"},
		"away": {BaseURL: "http://127.0.0.1:1"},
	})
	t.Cleanup(models.Close)
	for _, variant := range []string{"unlisted", "same server", "own key", "own server", "both", "away"} {
		request := question()
		request.Variant, request.Once = variant, true
		stream, err := models.Stream(t.Context(), request)
		assert.Equal(t, variant == "away", err != nil, variant)
		if err == nil {
			assert.NoError(t, stream.Close())
		}
	}
	assert.Equal(t, []string{"standard Bearer sk-test", "standard Bearer sk-test", "standard Bearer sk-own", "other ", "other Bearer sk-other"}, keys)
	assert.False(t, standard.Away(), "the standard server is there")
	assert.True(t, models.variants["away"].Away())
}
