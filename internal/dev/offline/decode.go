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
	"time"
)

// responseFields are the parameters of POST /v1/responses.
var responseFields = map[string]check{
	"access_programs":        isObject(nil),
	"background":             isBool,
	"context_management":     isArray,
	"conversation":           isStringOrObject,
	"include":                isArray,
	"input":                  isInput,
	"instructions":           isString,
	"max_output_tokens":      isInteger(16, math.MaxInt32),
	"max_tool_calls":         isInteger(1, math.MaxInt32),
	"metadata":               isMetadata,
	"model":                  isString,
	"moderation":             isObject(nil),
	"parallel_tool_calls":    isBool,
	"previous_response_id":   isString,
	"prompt":                 isPrompt,
	"prompt_cache_key":       isText(64),
	"prompt_cache_options":   isObject(nil),
	"prompt_cache_retention": isOneOf("in_memory", "in-memory", "24h"),
	"reasoning": isObject(map[string]check{
		"context":          isString,
		"effort":           isOneOf("none", "minimal", "low", "medium", "high", "xhigh", "max"),
		"generate_summary": isOneOf("auto", "concise", "detailed"),
		"mode":             isString,
		"summary":          isOneOf("auto", "concise", "detailed"),
	}),
	"safety_identifier": isText(64),
	"service_tier":      isOneOf("auto", "default", "flex", "scale", "priority", "fast", "ultrafast"),
	"store":             isBool,
	"stream":            isBool,
	"stream_options":    isObject(map[string]check{"include_obfuscation": isBool}),
	"temperature":       isNumber(0, 2),
	"text": isObject(map[string]check{
		"format":    isObject(nil),
		"verbosity": isOneOf("low", "medium", "high"),
	}),
	"tool_choice":  isStringOrObject,
	"tools":        isArray,
	"top_logprobs": isInteger(0, 20),
	"top_p":        isNumber(0, 1),
	"truncation":   isOneOf("auto", "disabled"),
	"user":         isString,
}

var promptFields = map[string]check{"id": isString, "version": isString, "variables": isObject(nil)}

func isPrompt(path string, value any) *apiError {
	if err := isObject(promptFields)(path, value); err != nil {
		return err
	}
	if prompt, ok := value.(map[string]any); ok && (prompt["id"] == nil || prompt["id"] == "") {
		return missing(path + ".id")
	}
	return nil
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

// decodeObject parses one JSON object and checks its fields.
func decodeObject(raw []byte, fields map[string]check) (map[string]any, *apiError) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var body map[string]any
	if err := decoder.Decode(&body); err != nil || body == nil {
		return nil, unparsable()
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, unparsable()
	}
	return body, checkFields("", body, fields)
}

func unparsable() *apiError {
	return bad("", "", "We could not parse the JSON body of your request. (HINT: This likely means you aren't using your HTTP library correctly. The API expects a JSON payload, but what was sent was not valid JSON.)")
}

// decodeResponses decodes the body of POST /v1/responses. What it refuses, the API refuses.
func decodeResponses(raw []byte, models []string) (Request, *apiError) {
	body, err := decodeObject(raw, responseFields)
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
	switch {
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
