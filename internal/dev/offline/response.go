package offline

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"time"
)

// The statuses of a response.
const (
	statusInProgress = "in_progress"
	statusCompleted  = "completed"
	statusIncomplete = "incomplete"
	statusFailed     = "failed"
)

// object is a part of an answer as JSON.
type object map[string]any

// object is the whole response in one of its statuses.
func (g *generation) object(status string) object {
	r := g.request
	o := object{
		"id": g.id, "object": "response", "created_at": g.created, "status": status, "error": nil, "incomplete_details": nil,
		"model": cmp.Or(r.Model, hostedModel), "output": []any{}, "usage": nil, "metadata": g.metadata(), "store": r.Store,
		"parallel_tool_calls": true, "tool_choice": "auto", "tools": []any{},
	}
	switch status {
	case statusFailed:
		o["error"] = object{"code": "server_error", "message": "The model failed to generate a response."}
	case statusCompleted, statusIncomplete:
		o["output"], o["usage"] = g.output(status), g.usage.object()
		if status == statusIncomplete {
			o["incomplete_details"] = object{"reason": g.reason}
		}
	}
	return o
}

func (u Usage) object() object {
	return object{
		"input_tokens":          u.Input,
		"input_tokens_details":  object{"cached_tokens": u.Cached},
		"output_tokens":         u.Output,
		"output_tokens_details": object{"reasoning_tokens": u.Reasoning},
		"total_tokens":          u.Input + u.Output,
	}
}

func (g *generation) output(status string) []any {
	output := make([]any, len(g.items))
	for n, i := range g.items {
		output[n] = i.object(status)
	}
	return output
}

// object is the message, without content while it is in progress.
func (i *item) object(status string) object {
	content := []any{}
	if status != statusInProgress {
		content = append(content, part(i.text))
	}
	return object{"id": i.id, "type": "message", "status": status, "role": "assistant", "content": content}
}

func part(text string) object {
	return object{"type": "output_text", "annotations": []any{}, "logprobs": []any{}, "text": text}
}

// metadata is the request's, and a mark that this is no provider.
func (g *generation) metadata() map[string]string {
	pairs := make(map[string]string, len(g.request.Metadata)+1)
	maps.Copy(pairs, g.request.Metadata)
	pairs["throughline_model"] = "offline"
	return pairs
}

// status is how the answer ends when nothing goes wrong.
func (g *generation) status() string {
	if g.reason != "" {
		return statusIncomplete
	}
	return statusCompleted
}

// whole answers without a stream.
func (g *generation) whole(w http.ResponseWriter) error {
	if err := g.wholeDelay(); err != nil {
		return err
	}
	status := g.status()
	switch g.answer.Fault {
	case FaultHang:
		return g.server.wait(g.ctx, nil)
	case FaultCut, FaultEndEarly:
		reset(w)
		return nil
	case FaultFailed, FaultErrorEvent:
		status = statusFailed
	}
	payload := mustJSON(g.object(status))
	if g.answer.Fault == FaultInvalidUTF8 {
		payload = bytes.Replace(payload, []byte(invalidReplacement), []byte(invalidBytes), 1)
	}
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(payload); err != nil {
		return errGone
	}
	if status != statusFailed {
		g.recordSent(len(g.text))
	}
	return nil
}

// wholeDelay waits as long as the stream would have taken.
func (g *generation) wholeDelay() error {
	if g.answer.Gate != nil {
		if err := g.server.wait(g.ctx, g.answer.Gate); err != nil {
			return err
		}
	}
	return g.server.pause(g.ctx, g.answer.PieceDelay*time.Duration(len(g.pieces)))
}

// mustJSON encodes an answer's own structures, so it cannot fail.
func mustJSON(value any) []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// asJSON writes an answer of a form.
func asJSON(value any) string { return string(mustJSON(value)) }
