package llm

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/tidwall/gjson"
)

// completion is the body of a call of Chat Completions (https://platform.openai.com/docs/api-reference/chat). It says nothing
// that servers of others do not know, except for its optional fields.
type completion struct {
	Model         string          `json:"model"`
	Messages      []object        `json:"messages"`
	Stream        bool            `json:"stream"`
	StreamOptions object          `json:"stream_options,omitempty"`
	Effort        string          `json:"reasoning_effort,omitempty"`
	Tools         []object        `json:"tools,omitempty"`
	ToolChoice    chat.ToolChoice `json:"tool_choice,omitempty"`
}

func newCompletion(variant Variant, request chat.ModelRequest) *completion {
	call := &completion{
		Model: request.Model, Stream: true, StreamOptions: object{"include_usage": true}, Effort: variant.Effort, Messages: messagesOf(request),
	}
	for _, tool := range request.Tools {
		call.Tools, call.ToolChoice = append(call.Tools, object{"type": "function", "function": declare(tool)}), request.Choice
	}
	return call
}

func (c *completion) optional() map[string]func() {
	fields := map[string]func(){"stream_options": func() { c.StreamOptions = nil }}
	if c.Tools != nil {
		fields["strict"] = func() {
			for _, tool := range c.Tools {
				delete(tool["function"].(object), "strict")
			}
		}
	}
	return fields
}

// isRefused looks at the server's words where it names no field otherwise.
func (c *completion) isRefused(field string, why *refusal) bool {
	isAboutBody := why.status == http.StatusBadRequest || why.status == http.StatusUnprocessableEntity
	return isAboutBody && slices.Contains(names(cmp.Or(why.param, why.message)), field)
}

// messagesOf returns the prompt and the earlier steps.
func messagesOf(request chat.ModelRequest) (messages []object) {
	if request.Instructions != "" {
		messages = append(messages, object{"role": "system", "content": request.Instructions})
	}
	messages = append(messages, object{"role": "user", "content": request.Input})
	for _, step := range request.Steps {
		if said := messageOf(step.Items); said != nil {
			messages = append(messages, said)
		}
		for _, result := range step.Outputs {
			messages = append(messages, object{"role": "tool", "tool_call_id": result.CallID, "content": result.Output})
		}
	}
	return messages
}

// messageOf returns what the model said in a step: its text, then its calls. It is nil for nothing.
func messageOf(items []chat.Item) object {
	message, said := object{"role": "assistant"}, ""
	var calls []object
	for _, item := range items {
		switch item.Type {
		case chat.ItemMessage:
			said += item.Text
		case chat.ItemCall:
			calls = append(calls, object{"id": item.CallID, "type": "function", "function": object{"name": item.Name, "arguments": item.Arguments}})
		case chat.ItemReasoning: // has no place here
		}
	}
	if said == "" && calls == nil {
		return nil
	}
	if message["content"] = said; said == "" {
		message["content"] = nil
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	return message
}

// completions decodes the chunks of Chat Completions.
type completions struct {
	*stream

	said  strings.Builder
	calls []callInPieces
}

// callInPieces is a call in the making.
type callInPieces struct {
	index     int64
	id, name  string
	arguments []byte
}

// decode takes a chunk.
func (c *completions) decode(_, data []byte) {
	if string(data) == "[DONE]" {
		if c.ended = true; !c.whole {
			c.err = endedEarly()
		}
		return
	}
	if !c.isValid(data) {
		return
	}
	chunk := gjson.ParseBytes(data)
	if failed := chunk.Get("error"); failed.Exists() && failed.Type != gjson.Null {
		c.err = reportedError(cmp.Or(failed.Get("code").String(), failed.Get("type").String()))
		return
	}
	if c.result.ResponseID == "" {
		c.result.Model, c.result.ResponseID = storable(chunk.Get("model").String()), storable(chunk.Get("id").String())
	}
	if usage := chunk.Get("usage"); usage.IsObject() {
		c.result.Usage = usageOf(usage, "prompt", "completion")
	}
	if choice := chunk.Get("choices.0"); choice.Exists() && !c.whole {
		c.take(choice.Get("delta"))
		c.finish(choice.Get("finish_reason").String())
	}
}

// take takes the next piece of a reply.
func (c *completions) take(piece gjson.Result) {
	c.delta = storable(textIn(piece.Get("content")) + piece.Get("refusal").String())
	c.said.WriteString(c.delta)
	for _, call := range piece.Get("tool_calls").Array() {
		c.takeCall(call)
	}
	for _, annotation := range piece.Get("annotations").Array() {
		c.cite(annotation.Get("url_citation"))
	}
}

// textIn returns a content that is a text, or a list of parts of which some are texts.
func textIn(content gjson.Result) string {
	if content.Type == gjson.String {
		return content.String()
	}
	var said strings.Builder
	for _, part := range content.Array() {
		if part.Get("type").String() == "text" {
			said.WriteString(part.Get("text").String())
		}
	}
	return said.String()
}

// takeCall takes a piece of a call. Servers may repeat its id, or number all calls alike.
func (c *completions) takeCall(piece gjson.Result) {
	index, id := piece.Get("index").Int(), storable(piece.Get("id").String())
	at := len(c.calls) - 1
	for at >= 0 && (c.calls[at].index != index || id != "" && c.calls[at].id != id) {
		at--
	}
	if at < 0 {
		at, c.calls = len(c.calls), append(c.calls, callInPieces{index: index, id: id})
		c.kept += itemSize
	}
	call, arguments := &c.calls[at], piece.Get("function.arguments").String()
	call.name = cmp.Or(call.name, storable(piece.Get("function.name").String()))
	call.arguments = append(call.arguments, arguments...)
	c.kept += len(arguments)
}

// finish ends the reply if the model says why.
func (c *completions) finish(reason string) {
	if reason == "" {
		return
	}
	c.keep(chat.Item{Type: chat.ItemMessage, Text: c.said.String()})
	for _, call := range c.calls {
		c.keep(chat.Item{Type: chat.ItemCall, CallID: call.id, Name: call.name, Arguments: storable(string(call.arguments))})
	}
	switch reason {
	case "error":
		c.err = fault.New(fault.UpstreamFailed, "The model failed while it replied.")
	case "length", "content_filter":
		c.end(reason)
	case "model_length": // Mistral's word
		c.end("length")
	default:
		c.end("stop")
	}
}
