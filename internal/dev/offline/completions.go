package offline

import "cmp"

// chatWire streams the chunks of Chat Completions, which has no place for reasoning and phases.
type chatWire struct {
	*eventWriter
	calls int
}

func (w *chatWire) begin() { w.chunk(object{"role": "assistant", "content": ""}, nil) }

func (w *chatWire) added(_ int, item *output) {
	if item.kind != kindCall {
		return
	}
	first := item.chatCall()
	first["index"], first["function"] = w.calls, object{"name": item.name, "arguments": ""}
	w.chunk(object{"tool_calls": []object{first}}, nil)
	for _, text := range argumentPieces(item.text) {
		w.chunk(object{"tool_calls": []object{{"index": w.calls, "function": object{"arguments": text}}}}, nil)
	}
	w.calls++
}

func (w *chatWire) piece(_ int, _ *output, text string) { w.chunk(object{"content": text}, nil) }

func (w *chatWire) done(int, *output) {}

func (w *chatWire) failed(Fault) { w.write("data: %s\n\n", mustJSON(serverError.object())) }

func (w *chatWire) end() {
	w.chunk(object{}, w.finishReason())
	if w.tellsUsage() {
		w.send([]object{}, w.chatUsage())
	}
	w.write("data: [DONE]\n\n")
}

// tellsUsage reports whether usage was asked for, and is told.
func (w *chatWire) tellsUsage() bool {
	return w.request.StreamOptions.IncludeUsage && !w.server.options.NoUsage
}

func (w *chatWire) chunk(delta object, reason any) {
	w.send([]object{{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": reason}}, nil)
}

func (w *chatWire) send(choices []object, usage any) {
	chunk := w.chatObject("chat.completion.chunk", choices)
	if w.tellsUsage() {
		chunk["usage"] = usage
	}
	w.write("data: %s\n\n", mustJSON(chunk))
}

func (g *generation) chatObject(kind string, choices []object) object {
	return object{
		"id": "chatcmpl-" + g.id, "object": kind, "created": g.request.At.Unix(), "model": cmp.Or(g.request.Model, hostedModel), "choices": choices,
	}
}

// completion is the whole answer.
func (g *generation) completion(string) object {
	message := object{"role": "assistant", "content": g.text, "refusal": nil}
	var calls []object
	for _, item := range g.items {
		if item.kind == kindCall {
			calls = append(calls, item.chatCall())
		}
	}
	if calls != nil {
		message["tool_calls"] = calls
		if g.text == "" {
			message["content"] = nil
		}
	}
	answer := g.chatObject("chat.completion", []object{{"index": 0, "message": message, "logprobs": nil, "finish_reason": g.finishReason()}})
	if !g.server.options.NoUsage {
		answer["usage"] = g.chatUsage()
	}
	return answer
}

func (o *output) chatCall() object {
	return object{"id": o.callID, "type": "function", "function": object{"name": o.name, "arguments": o.text}}
}

func (g *generation) finishReason() string {
	switch g.reason {
	case "":
	case "max_output_tokens":
		return "length"
	default:
		return g.reason
	}
	for _, item := range g.items {
		if item.kind == kindCall {
			return "tool_calls"
		}
	}
	return "stop"
}

func (g *generation) chatUsage() object {
	u := g.usage
	return object{
		"prompt_tokens": u.Input, "completion_tokens": u.Output, "total_tokens": u.Input + u.Output,
		"prompt_tokens_details": object{"cached_tokens": u.Cached}, "completion_tokens_details": object{"reasoning_tokens": u.Reasoning},
	}
}
