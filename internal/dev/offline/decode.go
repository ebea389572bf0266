package offline

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"
)

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

func unparsable() *apiError {
	return bad("", "", "We could not parse the JSON body of your request.")
}

// decodeResponses decodes the body of POST /v1/responses: what this model reads of it.
func decodeResponses(raw []byte, models []string) (Request, *apiError) {
	r := Request{At: time.Now(), Body: raw, Store: true}
	var body struct {
		Input any `json:"input"`
	}
	if json.Unmarshal(raw, &r) != nil || json.Unmarshal(raw, &body) != nil {
		return Request{}, unparsable()
	}
	switch {
	case r.Model == "" && r.Prompt == nil:
		return Request{}, missing("model")
	case r.Model != "" && !known(r.Model, models):
		return Request{}, bad("model_not_found", "model", "The requested model '%s' does not exist.", r.Model)
	case body.Input == nil:
		return Request{}, missing("input")
	}
	r.Text = inputText(body.Input)
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

func known(model string, models []string) bool {
	return model != "" && (models == nil || slices.Contains(models, model))
}

// inputText returns the text of an input: one part unchanged, several joined by blank lines.
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
