package offline

import "cmp"

// The statuses of a response.
const (
	statusInProgress = "in_progress"
	statusCompleted  = "completed"
	statusIncomplete = "incomplete"
	statusFailed     = "failed"
)

// object is the whole response in one of its statuses.
func (g *generation) object(status string) object {
	r, u := g.request, g.usage
	o := object{
		"id": "resp_" + g.id, "object": "response", "created_at": r.At.Unix(), "status": status, "error": nil, "incomplete_details": nil,
		"model": cmp.Or(r.Model, hostedModel), "output": []any{}, "usage": nil, "metadata": r.Metadata, "store": r.Store,
		"parallel_tool_calls": true, "tool_choice": cmp.Or(r.Choice, "auto"), "tools": []any{},
	}
	switch status {
	case statusFailed:
		o["error"] = object{"code": "server_error", "message": "The model failed to generate a response."}
	case statusIncomplete, statusCompleted:
		if g.reason != "" {
			o["incomplete_details"] = object{"reason": g.reason}
		}
		all := []object{}
		for at, item := range g.items {
			all = append(all, item.object(g.statusOf(at)))
		}
		o["output"] = all
		if !g.server.options.NoUsage {
			o["usage"] = object{
				"input_tokens": u.Input, "input_tokens_details": object{"cached_tokens": u.Cached},
				"output_tokens": u.Output, "output_tokens_details": object{"reasoning_tokens": u.Reasoning},
				"total_tokens": u.Input + u.Output,
			}
		}
	}
	return o
}

// statusOf is the status of an item at the end: what is cut off is the last one.
func (g *generation) statusOf(at int) string {
	if at == len(g.items)-1 {
		return g.status()
	}
	return statusCompleted
}

// object is an item of the output; while it is in progress, without what is streamed.
func (o *output) object(status string) object {
	isDone := status != statusInProgress
	item := object{"id": o.id, "type": o.kind, "status": status}
	switch o.kind {
	case kindMessage:
		content := []object{}
		if isDone {
			content = append(content, part(o.text))
		}
		item["role"], item["content"] = "assistant", content
		if o.phase != "" {
			item["phase"] = o.phase
		}
	case kindCall:
		item["call_id"], item["name"], item["arguments"] = o.callID, o.name, ""
		if isDone {
			item["arguments"] = o.text
		}
	case kindReasoning:
		delete(item, "status")
		summary := []object{}
		for _, text := range o.summary {
			if isDone {
				summary = append(summary, summaryPart(text))
			}
		}
		item["summary"] = summary
		switch { // what comes with the start is not the whole of it
		case o.sealed != "" && isDone:
			item["encrypted_content"] = o.sealed
		case o.sealed != "":
			item["encrypted_content"] = o.sealed[:12] + "unfinished"
		}
	}
	return item
}

func part(text string) object {
	return object{"type": "output_text", "annotations": []any{}, "logprobs": []any{}, "text": text}
}

func summaryPart(text string) object { return object{"type": "summary_text", "text": text} }

// responsesWire streams the events of the Responses API.
type responsesWire struct {
	*eventWriter
	number int
}

func (w *responsesWire) begin() {
	w.emit("response.created", object{"response": w.object(statusInProgress)})
	w.emit("response.in_progress", object{"response": w.object(statusInProgress)})
}

func (w *responsesWire) added(at int, item *output) {
	w.emit("response.output_item.added", object{"output_index": at, "item": item.object(statusInProgress)})
	switch item.kind {
	case kindMessage:
		w.emitPart("response.content_part.added", at, item, object{"part": part("")})
	case kindCall:
		for _, text := range argumentPieces(item.text) {
			w.emitOf("response.function_call_arguments.delta", at, item, object{"delta": text})
		}
		w.emitOf("response.function_call_arguments.done", at, item, object{"name": item.name, "arguments": item.text})
	case kindReasoning:
		for n, text := range item.summary {
			w.reason(at, item, n, text)
		}
	}
}

// reason tells a part of a summary.
func (w *responsesWire) reason(at int, item *output, n int, text string) {
	w.emitOf("response.reasoning_summary_part.added", at, item, object{"summary_index": n, "part": summaryPart("")})
	for _, piece := range splitPieces(text) {
		w.emitOf("response.reasoning_summary_text.delta", at, item, object{"summary_index": n, "delta": piece})
	}
	w.emitOf("response.reasoning_summary_text.done", at, item, object{"summary_index": n, "text": text})
	w.emitOf("response.reasoning_summary_part.done", at, item, object{"summary_index": n, "part": summaryPart(text)})
}

func (w *responsesWire) piece(at int, item *output, text string) {
	w.emitPart("response.output_text.delta", at, item, object{"delta": text, "logprobs": []any{}})
}

func (w *responsesWire) done(at int, item *output) {
	if item.kind == kindMessage {
		w.emitPart("response.output_text.done", at, item, object{"text": item.text, "logprobs": []any{}})
		w.emitPart("response.content_part.done", at, item, object{"part": part(item.text)})
	}
	w.emit("response.output_item.done", object{"output_index": at, "item": item.object(w.statusOf(at))})
}

func (w *responsesWire) failed(fault Fault) {
	if fault == FaultFailed {
		w.emit("response.failed", object{"response": w.object(statusFailed)})
		return
	}
	w.emit("error", object{"code": "server_error", "message": serverError.Message, "param": nil})
}

func (w *responsesWire) end() {
	w.emit("response."+w.status(), object{"response": w.object(w.status())})
}

// emitPart is of a message's only part.
func (w *responsesWire) emitPart(kind string, at int, item *output, fields object) {
	fields["content_index"] = 0
	w.emitOf(kind, at, item, fields)
}

func (w *responsesWire) emitOf(kind string, at int, item *output, fields object) {
	fields["item_id"], fields["output_index"] = item.id, at
	w.emit(kind, fields)
}

// emit writes one event with its type and number.
func (w *responsesWire) emit(kind string, fields object) {
	fields["type"], fields["sequence_number"] = kind, w.number
	w.number++
	w.write("event: %s\ndata: %s\n\n", kind, mustJSON(fields))
}
