package offline

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"
)

// responseRule is the body of POST /v1/responses.
var responseRule = hasFields(map[string]rule{
	"access_programs":      isA(anObject),
	"background":           isA(aBool),
	"context_management":   isA(anArray),
	"conversation":         isA(aText, anObject),
	"include":              isA(anArray),
	"input":                {types: []string{aText, anArray}, empty: "empty_array", each: &rule{choose: messageRule}},
	"instructions":         isA(aText),
	"max_output_tokens":    isInt(16, math.MaxInt32),
	"max_tool_calls":       isInt(1, math.MaxInt32),
	"metadata":             {types: []string{anObject}, high: 16, each: &rule{types: []string{aText}, high: 512}},
	"model":                isA(aText),
	"moderation":           isA(anObject),
	"parallel_tool_calls":  isA(aBool),
	"previous_response_id": isA(aText),
	"prompt": {types: []string{anObject}, required: []string{"id"}, named: map[string]rule{
		"id":        isA(aText),
		"version":   isA(aText),
		"variables": isA(anObject),
	}},
	"prompt_cache_key":       isText(64),
	"prompt_cache_options":   isA(anObject),
	"prompt_cache_retention": isOneOf("in_memory", "in-memory", "24h"),
	"reasoning": hasFields(map[string]rule{
		"context":          isA(aText),
		"effort":           isOneOf("none", "minimal", "low", "medium", "high", "xhigh", "max"),
		"generate_summary": isOneOf("auto", "concise", "detailed"),
		"mode":             isA(aText),
		"summary":          isOneOf("auto", "concise", "detailed"),
	}),
	"safety_identifier": isText(64),
	"service_tier":      isOneOf("auto", "default", "flex", "scale", "priority", "fast", "ultrafast"),
	"store":             isA(aBool),
	"stream":            isA(aBool),
	"stream_options":    hasFields(map[string]rule{"include_obfuscation": isA(aBool)}),
	"temperature":       isDecimal(0, 2),
	"text":              hasFields(map[string]rule{"format": formatRule, "verbosity": isOneOf("low", "medium", "high")}),
	"tool_choice":       isA(aText, anObject),
	"tools":             isA(anArray),
	"top_logprobs":      isInt(0, 20),
	"top_p":             isDecimal(0, 1),
	"truncation":        isOneOf("auto", "disabled"),
	"user":              isA(aText),
})

// messageRule is a message of the input: the parts of its content depend on its role.
func messageRule(value any) rule {
	message, _ := value.(map[string]any)
	part := rule{types: []string{anObject}, required: []string{"type", "text"}}
	if message["role"] == "assistant" {
		part.named = map[string]rule{"type": isOneOf("output_text"), "text": isA(aText), "annotations": isA(anArray), "logprobs": isA(anArray)}
	} else {
		part.named = map[string]rule{"type": isOneOf("input_text"), "text": isA(aText), "prompt_cache_breakpoint": isA(anObject)}
	}
	return rule{types: []string{anObject}, required: []string{"role", "content"}, named: map[string]rule{
		"id":      isA(aText),
		"type":    isOneOf("message"),
		"role":    isOneOf("user", "assistant", "system", "developer"),
		"content": {types: []string{aText, anArray}, empty: "invalid_type", each: &part},
		"status":  isOneOf("in_progress", "completed", "incomplete"),
		"phase":   isA(aText),
	}}
}

func missing(path string) *apiError {
	return bad("missing_required_parameter", path, "Missing required parameter: '%s'.", path)
}

// readBody reads a request body and refuses other content types than JSON.
func readBody(r *http.Request) ([]byte, *apiError) {
	raw, err := io.ReadAll(r.Body)
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		e := bad("request_too_large", "", "The request body is too large.")
		e.Status = http.StatusRequestEntityTooLarge
		return nil, e
	}
	if err != nil {
		return nil, bad("", "", "The request body could not be read.")
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return raw, bad("unsupported_content_type", "", "Unsupported content type. This API method only accepts 'application/json' requests.")
	}
	return raw, nil
}

// decodeObject parses one JSON object and checks it.
func decodeObject(raw []byte, body rule) (map[string]any, *apiError) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var object map[string]any
	if err := decoder.Decode(&object); err != nil || object == nil {
		return nil, unparsable()
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, unparsable()
	}
	return object, body.check("", object)
}

func unparsable() *apiError {
	return bad("", "", "We could not parse the JSON body of your request. (HINT: This likely means you aren't using your HTTP library correctly. The API expects a JSON payload, but what was sent was not valid JSON.)")
}

// decodeResponses decodes the body of POST /v1/responses. What it refuses, the API refuses.
func decodeResponses(raw []byte, models []string) (Request, *apiError) {
	body, err := decodeObject(raw, responseRule)
	if err != nil {
		return Request{}, err
	}
	if err := checkTogether(body, models); err != nil {
		return Request{}, err
	}
	r := Request{At: time.Now(), Body: raw, Text: inputText(body["input"]), Store: true}
	if json.Unmarshal(raw, &r) != nil {
		return Request{}, unparsable()
	}
	if err := checkFormat(&r); err != nil {
		return Request{}, err
	}
	r.Kind = kindOf(&r)
	r.Current = r.Text
	if r.Kind == KindReply {
		r.Current = parsePrompt(r.Text).current
	}
	return r, nil
}

// checkTogether refuses wrong combinations of parameters, and what needs state that
// this server does not have.
func checkTogether(body map[string]any, models []string) *apiError {
	model, _ := body["model"].(string)
	prompt, _ := body["prompt"].(map[string]any)
	switch {
	case prompt["id"] == "":
		return missing("prompt.id")
	case model == "" && body["prompt"] == nil:
		return missing("model")
	case body["model"] != nil && !known(model, models):
		return bad("model_not_found", "model", "The requested model '%s' does not exist.", model)
	case body["input"] == nil && body["prompt"] == nil:
		return missing("input")
	case body["stream_options"] != nil && body["stream"] != true:
		return bad("invalid_value", "stream_options", "The 'stream_options' parameter is only allowed when 'stream' is enabled.")
	case body["previous_response_id"] != nil:
		return bad("previous_response_not_found", "previous_response_id", "Previous response with id '%v' not found.", body["previous_response_id"])
	case body["conversation"] != nil:
		e := bad("conversation_not_found", "conversation", "The conversation was not found.")
		e.Status = http.StatusNotFound
		return e
	case body["background"] == true:
		return bad("unsupported_value", "background", "Background mode is not supported by the offline model.")
	}
	return nil
}

func known(model string, models []string) bool {
	return model != "" && (models == nil || slices.Contains(models, model))
}

// inputText returns the text of a checked input: one part unchanged, several joined by blank lines.
func inputText(input any) string {
	parts := textsIn(input)
	if len(parts) == 1 {
		return parts[0]
	}
	for i := range parts {
		parts[i] = strings.Trim(parts[i], "\n")
	}
	return strings.Join(parts, "\n\n")
}

// textsIn returns a text, or the texts in a list of texts, messages or parts of messages.
func textsIn(value any) []string {
	switch v := value.(type) {
	case string:
		return []string{v}
	case map[string]any:
		return append(textsIn(v["content"]), textsIn(v["text"])...)
	case []any:
		var texts []string
		for _, item := range v {
			texts = append(texts, textsIn(item)...)
		}
		return texts
	}
	return nil
}
