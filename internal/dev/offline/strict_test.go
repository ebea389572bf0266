package offline

import (
	"maps"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTheResponsesAPIRefuses(t *testing.T) {
	t.Parallel()
	call := map[string]any{"type": "function_call", "call_id": "c", "name": "clock", "arguments": "{}"}
	stored := map[string]any{"type": "function_call", "id": "fc_1", "call_id": "c", "name": "clock", "arguments": "{}"}
	open := function("open")
	open["parameters"] = map[string]any{"type": "object", "properties": map[string]any{"a": map[string]any{"type": "string"}}, "additionalProperties": false}
	list := function("list")
	list["parameters"] = map[string]any{"type": "array"}
	server := map[string]any{"type": "server", "name": "taxi"}
	result := outputs("c")[0]
	for name, c := range map[string]struct {
		more  map[string]any
		items []any
	}{
		"an item's id":             {nil, []any{stored, result}},
		"a call without an output": {nil, []any{call}},
		"an output without a call": {nil, []any{result}},
		"two outputs":              {nil, []any{call, result, result}},
		"two calls of one id":      {nil, []any{call, call, result}},
		"reasoning of another":     {nil, []any{map[string]any{"type": "reasoning", "summary": []any{}, "encrypted_content": "gAAAAA"}}},
		"an odd item":              {nil, []any{map[string]any{"type": "dance"}}},
		"an odd member":            {nil, []any{map[string]any{"role": "user", "content": "x", "colour": "red"}}},
		"no arguments":             {nil, []any{map[string]any{"type": "function_call", "call_id": "c", "name": "clock"}, result}},
		"two tools of one name":    {map[string]any{"tools": []any{function("a"), function("a")}}, nil},
		"a tool of ours":           {map[string]any{"tools": []any{server}}, nil},
		"a tool of the other wire": {map[string]any{"tools": []any{inFunction(function("a"))}}, nil},
		"a schema of no object":    {map[string]any{"tools": []any{list}}, nil},
		"strict, but open":         {map[string]any{"tools": []any{open}}, nil},
		"a choice without tools":   {map[string]any{"tools": []any{}, "tool_choice": "auto"}, nil},
		"an odd choice":            {map[string]any{"tool_choice": "weather"}, nil},
		"an odd include":           {map[string]any{"include": []string{"everything"}}, nil},
		"an unknown parameter":     {map[string]any{"messages": []any{}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := start(t, Options{})
			response, raw := askFor(t, l, c.more, c.items...)
			want := http.StatusBadRequest
			if name == "an item's id" {
				want = http.StatusNotFound
			}
			assert.Equalf(t, want, response.StatusCode, "%s", raw)
			assert.Len(t, l.Refused(), 1)
			assert.Empty(t, l.Requests())
		})
	}
}

func TestChatCompletionsRefuses(t *testing.T) {
	t.Parallel()
	user := map[string]any{"role": "user", "content": "hi"}
	call := chatCall{ID: "c", Type: "function", Function: chatFunction{"clock", "{}"}}
	step := map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{call}}
	result := map[string]any{"role": "tool", "tool_call_id": "c", "content": "20"}
	for name, more := range map[string]map[string]any{
		"metadata without store":    {"metadata": map[string]any{"purpose": "reply"}},
		"a parameter of the other":  {"input": "x"},
		"options without a stream":  {"stream_options": map[string]any{"include_usage": true}},
		"no messages":               {"messages": []any{}},
		"no model":                  {"model": ""},
		"a call without its result": {"messages": []any{user, step}},
		"a result without its call": {"messages": []any{user, result}},
		"a question in between":     {"messages": []any{user, step, user, result}},
		"an unknown role":           {"messages": []any{map[string]any{"role": "robot", "content": "x"}}},
		"nothing said":              {"messages": []any{user, map[string]any{"role": "assistant", "content": nil}}},
		"a tool of the other wire":  {"tools": []any{function("clock")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			with := map[string]any{"model": "m", "messages": []any{user}}
			maps.Copy(with, more)
			l := start(t, Options{})
			post(t, l, http.StatusBadRequest, with)
			assert.Len(t, l.Refused(), 1)
		})
	}
}

func TestAServerMayNotKnowAParameter(t *testing.T) {
	t.Parallel()
	l := start(t, Options{Refuses: []string{"include", "stream_options", "strict"}, NoUsage: true})
	response, _ := askFor(t, l, nil)
	assert.Equal(t, http.StatusBadRequest, response.StatusCode)
	user := []any{map[string]any{"role": "user", "content": "hi"}}
	with := map[string]any{"model": "m", "messages": user, "tools": []any{inFunction(function("clock"))}}
	raw := post(t, l, http.StatusBadRequest, with)
	assert.Contains(t, string(raw), `"param":"strict"`)
	delete(with, "tools")
	raw = post(t, l, http.StatusOK, with)
	assert.NotContains(t, string(raw), "usage")
	assert.Empty(t, l.Refused(), "they are as the test wants it")
}

func TestAServerMayNeedNoKey(t *testing.T) {
	t.Parallel()
	r := request(t, start(t, Options{Keyless: true}), http.MethodPost, "/v1/responses", body(t, nil))
	r.Header.Del("Authorization")
	response, _, err := do(t, r)
	assert.NoError(t, err)
	assert.Equal(t, http.StatusOK, response.StatusCode)
}
