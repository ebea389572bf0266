package offline

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// apiErrorBody is the shape of the API's errors.
type apiErrorBody struct {
	Error *struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	} `json:"error"`
}

func errorOf(t *testing.T, raw []byte) (message, param, code string) {
	t.Helper()
	var e apiErrorBody
	if err := json.Unmarshal(raw, &e); err != nil || e.Error == nil || e.Error.Message == "" || e.Error.Type == "" {
		t.Fatalf("no error in the API's shape: %s", raw)
	}
	if e.Error.Param != nil {
		param = *e.Error.Param
	}
	if e.Error.Code != nil {
		code = *e.Error.Code
	}
	return e.Error.Message, param, code
}

func TestResponsesRefusesWhatTheAPIRefuses(t *testing.T) {
	t.Parallel()
	l := start(t, Options{Models: []string{"gpt-5.6-terra"}})
	message := func(role string, content any) []any {
		return []any{map[string]any{"role": role, "content": content}}
	}
	part := func(kind string) []any { return []any{map[string]any{"type": kind, "text": "hi"}} }
	cases := []struct {
		name        string
		change      map[string]any
		param, code string
	}{
		{"unknown parameter", map[string]any{"messages": []any{}}, "messages", "unknown_parameter"},
		{"unknown nested parameter", map[string]any{"reasoning": map[string]any{"depth": 1}}, "reasoning.depth", "unknown_parameter"},
		{"unknown stream option", map[string]any{"stream": true, "stream_options": map[string]any{"include_usage": true}}, "stream_options.include_usage", "unknown_parameter"},
		{"no model and no prompt", map[string]any{"model": nil}, "model", "missing_required_parameter"},
		{"empty model", map[string]any{"model": ""}, "model", "missing_required_parameter"},
		{"model of another kind", map[string]any{"model": 5}, "model", "invalid_type"},
		{"unknown model", map[string]any{"model": "gpt-2"}, "model", "model_not_found"},
		{"no input", map[string]any{"input": nil}, "input", "missing_required_parameter"},
		{"input is a number", map[string]any{"input": 1}, "input", "invalid_type"},
		{"input is empty", map[string]any{"input": []any{}}, "input", "empty_array"},
		{"item is a string", map[string]any{"input": []any{"hi"}}, "input[0]", "invalid_type"},
		{"item of an unknown type", map[string]any{"input": []any{map[string]any{"type": "item_reference"}}}, "input[0].type", "invalid_value"},
		{"item with an unknown field", map[string]any{"input": []any{map[string]any{"role": "user", "content": "hi", "name": "x"}}}, "input[0].name", "unknown_parameter"},
		{"item without a role", map[string]any{"input": []any{map[string]any{"content": "hi"}}}, "input[0].role", "missing_required_parameter"},
		{"item without content", map[string]any{"input": []any{map[string]any{"role": "user"}}}, "input[0].content", "missing_required_parameter"},
		{"unknown role", map[string]any{"input": message("tool", "hi")}, "input[0].role", "invalid_value"},
		{"content is a number", map[string]any{"input": message("user", 1)}, "input[0].content", "invalid_type"},
		{"content is empty", map[string]any{"input": message("user", []any{})}, "input[0].content", "invalid_type"},
		{"part of chat completions", map[string]any{"input": message("user", part("text"))}, "input[0].content[0].type", "invalid_value"},
		{"user with output_text", map[string]any{"input": message("user", part("output_text"))}, "input[0].content[0].type", "invalid_value"},
		{"assistant with input_text", map[string]any{"input": message("assistant", part("input_text"))}, "input[0].content[0].type", "invalid_value"},
		{"part without text", map[string]any{"input": message("user", []any{map[string]any{"type": "input_text"}})}, "input[0].content[0].text", "missing_required_parameter"},
		{"instructions are a list", map[string]any{"instructions": []any{}}, "instructions", "invalid_type"},
		{"stream is a string", map[string]any{"stream": "true"}, "stream", "invalid_type"},
		{"store is a number", map[string]any{"store": 0}, "store", "invalid_type"},
		{"stream_options without stream", map[string]any{"stream_options": map[string]any{}}, "stream_options", "invalid_value"},
		{"max_output_tokens too small", map[string]any{"max_output_tokens": 15}, "max_output_tokens", "integer_below_min_value"},
		{"max_output_tokens a string", map[string]any{"max_output_tokens": "100"}, "max_output_tokens", "invalid_type"},
		{"max_output_tokens a decimal", map[string]any{"max_output_tokens": 100.5}, "max_output_tokens", "invalid_type"},
		{"temperature too high", map[string]any{"temperature": 2.1}, "temperature", "decimal_above_max_value"},
		{"top_p below zero", map[string]any{"top_p": -0.1}, "top_p", "decimal_below_min_value"},
		{"metadata is a list", map[string]any{"metadata": []any{}}, "metadata", "invalid_type"},
		{"metadata holds a number", map[string]any{"metadata": map[string]any{"n": 1}}, "metadata.n", "invalid_type"},
		{"metadata too long", map[string]any{"metadata": map[string]any{"n": strings.Repeat("x", 513)}}, "metadata.n", "string_above_max_length"},
		{"cache key too long", map[string]any{"prompt_cache_key": strings.Repeat("x", 65)}, "prompt_cache_key", "string_above_max_length"},
		{"safety identifier too long", map[string]any{"safety_identifier": strings.Repeat("x", 65)}, "safety_identifier", "string_above_max_length"},
		{"unknown service tier", map[string]any{"service_tier": "gold"}, "service_tier", "invalid_value"},
		{"prompt is a string", map[string]any{"prompt": "pmpt_1"}, "prompt", "invalid_type"},
		{"prompt without id", map[string]any{"prompt": map[string]any{"version": "1"}}, "prompt.id", "missing_required_parameter"},
		{"prompt version is a number", map[string]any{"prompt": map[string]any{"id": "pmpt_1", "version": 1}}, "prompt.version", "invalid_type"},
		{"prompt with more", map[string]any{"prompt": map[string]any{"id": "pmpt_1", "name": "x"}}, "prompt.name", "unknown_parameter"},
		{"previous response", map[string]any{"previous_response_id": "resp_1"}, "previous_response_id", "previous_response_not_found"},
		{"background", map[string]any{"background": true}, "background", "unsupported_value"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			response, raw := ask(t, l, body(t, c.change))
			message, param, code := errorOf(t, raw)
			if response.StatusCode != http.StatusBadRequest || param != c.param || code != c.code {
				t.Errorf("%d, param %q, code %q (%s); want 400, %q, %q", response.StatusCode, param, code, message, c.param, c.code)
			}
		})
	}
	t.Cleanup(func() {
		if got := len(l.Refused()); got != len(cases) {
			t.Errorf("%d refusals are recorded, want %d", got, len(cases))
		}
		if got := l.Requests(); len(got) != 0 {
			t.Errorf("refused requests are among the accepted ones: %v", got)
		}
	})
}

func TestResponsesRefusesWhatIsNoJSONObject(t *testing.T) {
	t.Parallel()
	l := start(t, Options{})
	for _, raw := range []string{"", "{", "[]", "null", `"text"`, `{"model":"m","input":"x"} trailing`, "\xff"} {
		response, answer := ask(t, l, raw)
		if _, _, code := errorOf(t, answer); response.StatusCode != http.StatusBadRequest || code != "" {
			t.Errorf("%q: %d, code %q", raw, response.StatusCode, code)
		}
	}
}

func TestResponsesAcceptsWhatTheAPIAccepts(t *testing.T) {
	t.Parallel()
	l := start(t, Options{})
	for name, change := range map[string]map[string]any{
		"plain text":    {},
		"empty text":    {"input": ""},
		"parts":         {"input": []any{map[string]any{"type": "message", "role": "user", "content": []any{map[string]any{"type": "input_text", "text": "hi"}}}}},
		"every role":    {"input": []any{map[string]any{"role": "system", "content": "a"}, map[string]any{"role": "developer", "content": "b"}, map[string]any{"role": "assistant", "content": []any{map[string]any{"type": "output_text", "text": "c", "annotations": []any{}}}}, map[string]any{"role": "user", "content": "d"}}},
		"what we send":  {"instructions": "Be kind.", "store": false, "stream": false, "prompt_cache_key": "0b1f2a6e-5a0d-4b0e-9d0e-000000000000", "safety_identifier": strings.Repeat("a", 64)},
		"hosted prompt": {"model": nil, "prompt": map[string]any{"id": "pmpt_1", "version": "7"}},
		"prompt only":   {"model": nil, "input": nil, "prompt": map[string]any{"id": "pmpt_1"}},
		"other options": {"max_output_tokens": 16, "temperature": 0, "top_p": 1, "reasoning": map[string]any{"effort": "low"}, "text": map[string]any{"verbosity": "low"}, "metadata": map[string]any{"k": "v"}, "tools": []any{}, "tool_choice": "auto", "truncation": "auto", "service_tier": "auto", "user": "u", "include": []any{}, "parallel_tool_calls": false},
	} {
		if response, raw := ask(t, l, body(t, change)); response.StatusCode != http.StatusOK {
			t.Errorf("%s: %d %s", name, response.StatusCode, raw)
		}
	}
	response, raw := ask(t, l, `{"model":"m","input":"hi","temperature":null,"metadata":null,"stream_options":null,"prompt":null}`)
	if response.StatusCode != http.StatusOK {
		t.Errorf("null for optional parameters: %d %s", response.StatusCode, raw)
	}
}

func TestAccessAndRoutes(t *testing.T) {
	t.Parallel()
	l := start(t, Options{})
	for _, c := range []struct {
		name, method, path string
		header             http.Header
		status             int
		code               string
	}{
		{"no key", http.MethodPost, "/v1/responses", http.Header{"Authorization": nil}, 401, ""},
		{"empty key", http.MethodPost, "/v1/responses", http.Header{"Authorization": {"Bearer "}}, 401, ""},
		{"another scheme", http.MethodPost, "/v1/responses", http.Header{"Authorization": {"Basic eDp5"}}, 401, ""},
		{"wrong method", http.MethodGet, "/v1/responses", nil, 405, "method_not_supported"},
		{"wrong path", http.MethodPost, "/v1/completions", nil, 404, ""},
		{"wrong content type", http.MethodPost, "/v1/responses", http.Header{"Content-Type": {"text/plain"}}, 400, "unsupported_content_type"},
	} {
		r := request(t, l, c.method, c.path, body(t, nil))
		maps.Copy(r.Header, c.header)
		response, raw, err := do(t, r)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, code := errorOf(t, raw); response.StatusCode != c.status || code != c.code {
			t.Errorf("%s: %d %q, want %d %q", c.name, response.StatusCode, code, c.status, c.code)
		}
	}
	response, raw, err := do(t, request(t, l, http.MethodGet, "/v1/models", ""))
	if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(raw), hostedModel) {
		t.Errorf("models: %d %v %s", response.StatusCode, err, raw)
	}
}

func TestTooLargeABodyIsRefused(t *testing.T) {
	t.Parallel()
	s := New(Options{})
	defer s.Close()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/responses", strings.NewReader(strings.Repeat(" ", bodyLimit+1)))
	r.Header.Set("Authorization", "Bearer anything")
	answer := httptest.NewRecorder()
	s.ServeHTTP(answer, r)
	if _, _, code := errorOf(t, answer.Body.Bytes()); answer.Code != http.StatusRequestEntityTooLarge || code != "request_too_large" {
		t.Errorf("%d %q", answer.Code, code)
	}
}
