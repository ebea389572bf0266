package offline

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// oneStep is a step with every kind of item; after it the model says how it ended.
func oneStep(r *Request) Answer {
	if r.Step > 0 {
		return Says(Text{Text: "It is " + r.Outputs["first"] + " degrees."})
	}
	return Says(Reasoning{Summary: []string{"Think.", "Think more."}}, Text{Text: "Let me look. ", Phase: "commentary"},
		Call{Name: "weather", Arguments: map[string]any{"city": "Köln"}, CallID: "first"}, Call{Name: "clock", Arguments: "{broken", CallID: "second"})
}

var question = map[string]any{"type": "message", "role": "user", "content": "How warm?"}

// function is a tool as the Responses API takes it.
func function(name string) map[string]any {
	return map[string]any{
		"type": "function", "name": name, "strict": true,
		"parameters": map[string]any{"type": "object", "properties": map[string]any{}, "required": []string{}, "additionalProperties": false},
	}
}

func inFunction(tool map[string]any) map[string]any {
	inner := map[string]any{}
	for name, value := range tool {
		if name != "type" {
			inner[name] = value
		}
	}
	return map[string]any{"type": "function", "function": inner}
}

// askFor posts a request with tools, input and what else it has.
func askFor(t *testing.T, l *Server, more map[string]any, input ...any) (*http.Response, []byte) {
	with := map[string]any{
		"input": append([]any{question}, input...), "store": false, "stream": true, "include": []string{includeReasoning},
		"tools": []any{function("weather"), function("clock")},
	}
	maps.Copy(with, more)
	return ask(t, l, body(t, with))
}

// itemsOf are the finished items of a stream, as they come, and as they go back.
func itemsOf(all []event) (done, back []map[string]any) {
	for _, e := range all {
		if e.name != "response.output_item.done" {
			continue
		}
		item, _ := e.data["item"].(map[string]any)
		bare := map[string]any{}
		for name, value := range item {
			if name != "id" && name != "status" {
				bare[name] = value
			}
		}
		done, back = append(done, item), append(back, bare)
	}
	return done, back
}

func TestAStepStreamsItsItems(t *testing.T) {
	t.Parallel()
	l := start(t, Options{Script: oneStep})
	_, raw := askFor(t, l, nil)
	all := events(t, raw)
	var shape []string
	for _, e := range all {
		shape = append(shape, strings.TrimPrefix(e.name, "response."))
	}
	want := "created in_progress output_item.added " +
		strings.Repeat("reasoning_summary_part.added reasoning_summary_text.delta reasoning_summary_text.done reasoning_summary_part.done ", 2) +
		"output_item.done output_item.added content_part.added output_text.delta output_text.delta output_text.delta output_text.done " +
		"content_part.done output_item.done " +
		"output_item.added function_call_arguments.delta function_call_arguments.delta function_call_arguments.delta function_call_arguments.done " +
		"output_item.done output_item.added function_call_arguments.delta function_call_arguments.done output_item.done completed"
	got := strings.Replace(strings.Join(shape, " "), "reasoning_summary_text.delta reasoning_summary_text.delta", "reasoning_summary_text.delta", 1)
	assert.Equal(t, want, got)
	done, _ := itemsOf(all)
	added, _ := all[2].data["item"].(map[string]any)
	assert.NotEqual(t, added["encrypted_content"], done[0]["encrypted_content"], "reasoning is sealed when it is done")
	assert.Len(t, done[0]["summary"], 2)
	assert.Equal(t, "commentary", done[1]["phase"])
	assert.Equal(t, `{"city":"Köln"}`, done[2]["arguments"])
	assert.Equal(t, "{broken", done[3]["arguments"])
	last, _ := all[len(all)-1].data["response"].(map[string]any)
	output, _ := last["output"].([]any)
	require.Len(t, output, 4, "the last event has the whole output")
	assert.Equal(t, done[2], output[2])
}

// Faults count pieces of text: items before them are whole, the ones after are not said.
func TestFaultsInAStep(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault Fault
		after int
		items int
		last  string
	}{
		"before the text": {FaultFailed, 0, 1, "response.failed"},
		"within it":       {FaultEndEarly, 1, 1, "response.output_text.delta"},
		"after all":       {FaultErrorEvent, 9, 4, "error"},
		"the limit":       {FaultIncomplete, 2, 2, "response.incomplete"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer := oneStep(&Request{})
			answer.Fault, answer.FaultAfter = c.fault, c.after
			_, raw := askFor(t, faulty(t, answer), nil)
			all := events(t, raw)
			done, _ := itemsOf(all)
			assert.Len(t, done, c.items)
			assert.Equal(t, c.last, all[len(all)-1].name)
		})
	}
}

// outputs are the results of the calls of oneStep.
func outputs(of ...string) []any {
	var all []any
	for _, id := range of {
		all = append(all, map[string]any{"type": "function_call_output", "call_id": id, "output": "20"})
	}
	return all
}

func listOf(items []map[string]any) []any {
	var all []any
	for _, item := range items {
		all = append(all, item)
	}
	return all
}

func TestAStepComesBackAsItWasSaid(t *testing.T) {
	t.Parallel()
	l := start(t, Options{Script: oneStep})
	_, raw := askFor(t, l, nil)
	_, back := itemsOf(events(t, raw))
	results := outputs("first", "second")
	_, raw = askFor(t, l, map[string]any{"stream": false}, append(listOf(back), results...)...)
	assert.Equal(t, "It is 20 degrees.", text(t, raw))
	assert.Empty(t, l.Irregular())
	asked := l.Requests()
	second := asked[len(asked)-1]
	assert.Equal(t, []string{"weather", "clock"}, second.Tools)
	assert.Equal(t, 1, second.Step)
	assert.Equal(t, map[string]string{"first": "20", "second": "20"}, second.Outputs)
	assert.Equal(t, "How warm?", second.Text)
	assert.Equal(t, "anything", second.Key)

	askFor(t, l, nil, append(listOf(back[1:]), results...)...)
	back[1]["phase"] = "final_answer"
	askFor(t, l, nil, append(listOf(back), results...)...)
	askFor(t, l, map[string]any{"include": nil})
	assert.Len(t, l.Irregular(), 3, "without its reasoning, with another phase, tools without encrypted reasoning")
	assert.Empty(t, l.Refused())
}

func TestBothWiresSayTheSameStep(t *testing.T) {
	t.Parallel()
	l := start(t, Options{Script: oneStep})
	user := map[string]any{"role": "user", "content": "How warm?"}
	tools := []any{inFunction(function("weather")), inFunction(function("clock"))}
	say := func(stream bool, messages ...any) []byte {
		with := map[string]any{"model": "m", "messages": append([]any{user}, messages...), "tools": tools, "stream": stream}
		if stream {
			with["stream_options"] = map[string]any{"include_usage": true}
		}
		return post(t, l, http.StatusOK, with)
	}
	var chunks []chunk
	for line := range strings.SplitSeq(strings.TrimSpace(string(say(true))), "\n\n") {
		var next chunk
		if line != "data: [DONE]" {
			require.NoError(t, json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &next))
		}
		chunks = append(chunks, next)
	}
	said, calls, reason := "", make([]chatCall, 2), ""
	for _, c := range chunks {
		for _, choice := range c.Choices {
			said += choice.Delta.Content
			reason = choice.FinishReason
			for _, piece := range choice.Delta.ToolCalls {
				call := &calls[piece.Index]
				call.ID, call.Type = call.ID+piece.ID, call.Type+piece.Type
				call.Function.Name += piece.Function.Name
				call.Function.Arguments += piece.Function.Arguments
			}
		}
	}
	assert.Equal(t, "Let me look. ", said)
	assert.Equal(t, "tool_calls", reason)
	assert.Positive(t, chunks[len(chunks)-2].Usage.PromptTokens, "usage in the last chunk")
	assert.Equal(t, chatFunction{"weather", `{"city":"Köln"}`}, calls[0].Function)
	assert.Equal(t, chatFunction{"clock", "{broken"}, calls[1].Function)

	step := map[string]any{"role": "assistant", "content": said, "tool_calls": calls}
	result := func(id string) any { return map[string]any{"role": "tool", "tool_call_id": id, "content": "20"} }
	raw := say(false, step, result("first"), result("second"))
	assert.Contains(t, string(raw), `"content":"It is 20 degrees."`)
	assert.Contains(t, string(raw), `"finish_reason":"stop"`)
	assert.Empty(t, l.Irregular())
	asked := l.Requests()
	assert.Equal(t, APIChat, asked[1].API)
	assert.Equal(t, 1, asked[1].Step)
}

type chatFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type chatCall struct {
	Index    int          `json:"index"`
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
}

type chunk struct {
	Choices []struct {
		Delta struct {
			Content   string
			ToolCalls []chatCall `json:"tool_calls"`
		}
		FinishReason string `json:"finish_reason"`
	}
	Usage struct {
		PromptTokens int `json:"prompt_tokens"`
	}
}

// post sends a request of Chat Completions and wants a status.
func post(t *testing.T, l *Server, status int, with map[string]any) []byte {
	encoded, err := json.Marshal(with)
	require.NoError(t, err)
	response, raw, err := do(t, request(t, l, http.MethodPost, "/v1/chat/completions", string(encoded)))
	require.NoError(t, err)
	require.Equalf(t, status, response.StatusCode, "%s for %s", raw, encoded)
	return raw
}
