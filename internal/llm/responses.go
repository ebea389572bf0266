package llm

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/tidwall/gjson"
)

// object is an object of a body.
type object map[string]any

// newResponse returns the call for a reply. Without tools and earlier steps its input is a text.
func newResponse(variant Variant, request chat.ModelRequest) *params {
	call := newParams(work.PurposeReply, request.Input, request.Instructions, request.ChatID, request.UserID)
	call.Model, call.Stream, call.Reasoning = request.Model, true, variant.reasoning()
	if len(request.Tools) == 0 && len(request.Steps) == 0 {
		return &call
	}
	call.Input, call.Include = inputOf(request), []string{"reasoning.encrypted_content"}
	for _, tool := range request.Tools {
		declared := declare(tool)
		declared["type"] = "function"
		call.Tools, call.ToolChoice = append(call.Tools, declared), request.Choice
	}
	return &call
}

// noParameters is the schema of a tool that names none: servers want that of an object.
var noParameters = json.RawMessage(`{"type":"object","properties":{},"required":[],"additionalProperties":false}`)

// declare returns what the model is told of a tool.
func declare(tool chat.Function) object {
	declared := object{"name": tool.Name, "parameters": tool.Parameters, "strict": tool.Strict}
	if len(gjson.ParseBytes(tool.Parameters).Map()) == 0 {
		declared["parameters"] = noParameters
	}
	if tool.Description != "" {
		declared["description"] = tool.Description
	}
	return declared
}

// inputOf returns the prompt, and behind it what the model said in earlier steps, with the results of its calls.
func inputOf(request chat.ModelRequest) []object {
	input := []object{{"type": "message", "role": "user", "content": []object{{"type": "input_text", "text": request.Input}}}}
	for _, step := range request.Steps {
		for _, item := range step.Items {
			if sent := itemOf(item); sent != nil {
				input = append(input, sent)
			}
		}
		for _, result := range step.Outputs {
			input = append(input, object{"type": "function_call_output", "call_id": result.CallID, "output": result.Output})
		}
	}
	return input
}

// itemOf returns an item as it is given back: without its id, under which the server has stored nothing; nil for reasoning that it
// could not read again.
func itemOf(item chat.Item) object {
	switch {
	case item.Type == chat.ItemCall:
		return object{"type": item.Type, "call_id": item.CallID, "name": item.Name, "arguments": item.Arguments}
	case item.Type == chat.ItemReasoning && item.Encrypted != "":
		summary := make([]object, len(item.Summary))
		for n, part := range item.Summary {
			summary[n] = object{"type": "summary_text", "text": part}
		}
		return object{"type": item.Type, "summary": summary, "encrypted_content": item.Encrypted}
	case item.Type == chat.ItemMessage && item.Phase != "":
		return object{"type": item.Type, "role": "assistant", "content": item.Text, "phase": item.Phase}
	case item.Type == chat.ItemMessage:
		return object{"type": item.Type, "role": "assistant", "content": item.Text}
	}
	return nil
}

// responses decodes the events of the Responses API.
type responses struct {
	*stream

	output output
}

// decode takes an event, straight from the bytes, of the few kinds that matter.
func (r *responses) decode(kind, data []byte) {
	if len(kind) == 0 {
		kind = []byte(gjson.GetBytes(data, "type").String())
	}
	switch string(kind) {
	case "response.output_text.delta", "response.refusal.delta":
		r.say(data, "delta", r.output.piece)
	case "response.output_text.done":
		r.say(data, "text", r.output.whole)
	case "response.refusal.done":
		r.say(data, "refusal", r.output.whole)
	case "response.output_item.added", "response.content_part.added", "response.content_part.done", "response.output_item.done":
		r.take(string(kind), data)
	case "response.completed":
		r.finish(data, "stop")
	case "response.incomplete":
		r.finish(data, incompleteReason(data))
	case "response.failed":
		r.err = reportedError(gjson.GetBytes(data, "response.error.code").String())
	case "error":
		// Some servers put the error one level deeper.
		r.err = reportedError(cmp.Or(gjson.GetBytes(data, "code").String(), gjson.GetBytes(data, "error.code").String()))
	}
}

// say takes the text in a field of an event.
func (r *responses) say(data []byte, field string, take func(place, string) string) {
	if r.isValid(data) {
		r.delta = take(placeOf(data), storable(gjson.GetBytes(data, field).String()))
	}
}

func placeOf(data []byte) place {
	number := func(field string) int { return int(min(max(0, gjson.GetBytes(data, field).Int()), maxPlace)) }
	return place{item: number("output_index"), content: number("content_index")}
}

// take decodes the beginning or the end of a part or an item.
func (r *responses) take(kind string, data []byte) {
	if !r.isValid(data) {
		return
	}
	part, item := gjson.GetBytes(data, "part"), gjson.GetBytes(data, "item")
	switch {
	case kind == "response.output_item.added" && item.Get("type").String() == "message",
		kind == "response.content_part.added" && textField(part) != "":
		r.output.announce()
	case kind == "response.content_part.done":
		r.delta = r.output.whole(placeOf(data), partText(part))
	case kind == "response.output_item.done":
		r.delta = r.output.item(placeOf(data).item, item)
		r.keepItem(item)
	}
}

// keepItem keeps an item that has ended, and what its text cites.
func (r *responses) keepItem(item gjson.Result) {
	field := func(name string) string { return storable(item.Get(name).String()) }
	switch kind := chat.ItemType(item.Get("type").String()); kind {
	case chat.ItemMessage:
		var said strings.Builder
		for _, part := range item.Get("content").Array() {
			said.WriteString(partText(part))
			part.Get(`annotations.#(type=="url_citation")#`).ForEach(func(_, annotation gjson.Result) bool { r.cite(annotation); return true })
		}
		r.keep(chat.Item{Type: kind, Text: said.String(), Phase: field("phase")})
	case chat.ItemCall:
		r.keep(chat.Item{Type: kind, CallID: field("call_id"), Name: field("name"), Arguments: field("arguments")})
	case chat.ItemReasoning:
		thought := chat.Item{Type: kind, Encrypted: field("encrypted_content")}
		for _, part := range item.Get("summary").Array() {
			thought.Summary = append(thought.Summary, storable(part.Get("text").String()))
		}
		r.keep(thought)
	}
}

// finish ends the reply with what its terminal event reports.
func (r *responses) finish(data []byte, reason string) {
	if !r.isValid(data) {
		return
	}
	response := gjson.GetBytes(data, "response")
	items := response.Get("output")
	r.delta = r.output.items(items)
	if r.result.Items == nil {
		items.ForEach(func(_, item gjson.Result) bool { r.keepItem(item); return true })
	}
	r.result.Model, r.result.ResponseID = storable(response.Get("model").String()), storable(response.Get("id").String())
	r.result.Usage = usageOf(response.Get("usage"), "input", "output")
	r.end(reason)
	r.ended = true
}

func incompleteReason(data []byte) string {
	if gjson.GetBytes(data, "response.incomplete_details.reason").String() == "content_filter" {
		return "content_filter"
	}
	return "length"
}
