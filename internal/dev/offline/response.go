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

// responseObject is a response as the API shows it. Raw fields are echoes of the request.
type responseObject struct {
	ID                 string            `json:"id"`
	Object             string            `json:"object"`
	CreatedAt          int64             `json:"created_at"`
	CompletedAt        *int64            `json:"completed_at"`
	Status             string            `json:"status"`
	Background         bool              `json:"background"`
	Error              *responseError    `json:"error"`
	IncompleteDetails  *incompleteReason `json:"incomplete_details"`
	Instructions       *string           `json:"instructions"`
	MaxOutputTokens    json.RawMessage   `json:"max_output_tokens"`
	MaxToolCalls       json.RawMessage   `json:"max_tool_calls"`
	Model              string            `json:"model"`
	Output             []outputItem      `json:"output"`
	ParallelToolCalls  json.RawMessage   `json:"parallel_tool_calls"`
	PreviousResponseID *string           `json:"previous_response_id"`
	Prompt             *promptEcho       `json:"prompt"`
	PromptCacheKey     *string           `json:"prompt_cache_key"`
	Reasoning          json.RawMessage   `json:"reasoning"`
	SafetyIdentifier   *string           `json:"safety_identifier"`
	ServiceTier        string            `json:"service_tier"`
	Store              bool              `json:"store"`
	Temperature        json.RawMessage   `json:"temperature"`
	Text               json.RawMessage   `json:"text"`
	ToolChoice         json.RawMessage   `json:"tool_choice"`
	Tools              json.RawMessage   `json:"tools"`
	TopLogprobs        json.RawMessage   `json:"top_logprobs"`
	TopP               json.RawMessage   `json:"top_p"`
	Truncation         json.RawMessage   `json:"truncation"`
	Usage              *usageObject      `json:"usage"`
	User               json.RawMessage   `json:"user"`
	Metadata           map[string]string `json:"metadata"`
}

type responseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type incompleteReason struct {
	Reason string `json:"reason"`
}

type promptEcho struct {
	ID        string          `json:"id"`
	Version   *string         `json:"version"`
	Variables json.RawMessage `json:"variables"`
}

type outputItem struct {
	ID      string       `json:"id"`
	Type    string       `json:"type"`
	Status  string       `json:"status"`
	Role    string       `json:"role"`
	Content []outputPart `json:"content"`
}

type outputPart struct {
	Type        string   `json:"type"`
	Annotations []string `json:"annotations"`
	Logprobs    []string `json:"logprobs"`
	Text        string   `json:"text"`
}

type usageObject struct {
	InputTokens        int `json:"input_tokens"`
	InputTokensDetails struct {
		CachedTokens int `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	OutputTokens        int `json:"output_tokens"`
	OutputTokensDetails struct {
		ReasoningTokens int `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	TotalTokens int `json:"total_tokens"`
}

// object is the response in one of its statuses.
func (g *generation) object(status string) *responseObject {
	r := &g.request
	echo := echoes(r.Body)
	o := &responseObject{
		ID: g.id, Object: "response", CreatedAt: g.created, Status: status,
		Instructions:      orNull(r.Instructions),
		MaxOutputTokens:   echo("max_output_tokens", "null"),
		MaxToolCalls:      echo("max_tool_calls", "null"),
		Model:             cmp.Or(r.Model, hostedModel),
		Output:            []outputItem{},
		ParallelToolCalls: echo("parallel_tool_calls", "true"),
		PromptCacheKey:    orNull(r.PromptCacheKey),
		Reasoning:         echo("reasoning", `{"effort":null,"summary":null}`),
		SafetyIdentifier:  orNull(r.SafetyIdentifier),
		ServiceTier:       "default",
		Store:             r.Store,
		Temperature:       echo("temperature", "1.0"),
		Text:              echo("text", `{"format":{"type":"text"},"verbosity":"medium"}`),
		ToolChoice:        echo("tool_choice", `"auto"`),
		Tools:             echo("tools", "[]"),
		TopLogprobs:       echo("top_logprobs", "0"),
		TopP:              echo("top_p", "1.0"),
		Truncation:        echo("truncation", `"disabled"`),
		User:              echo("user", "null"),
		Metadata:          g.metadata(),
	}
	if r.Prompt != nil {
		o.Prompt = &promptEcho{ID: r.Prompt.ID, Version: orNull(r.Prompt.Version), Variables: json.RawMessage("{}")}
	}
	g.conclude(o)
	return o
}

// conclude adds what only a response has that is over.
func (g *generation) conclude(o *responseObject) {
	switch o.Status {
	case statusFailed:
		o.Error = &responseError{"server_error", "The model failed to generate a response."}
		return
	case statusIncomplete:
		o.IncompleteDetails = &incompleteReason{g.reason}
	case statusCompleted:
		now := time.Now().Unix()
		o.CompletedAt = &now
	default:
		return
	}
	o.Output = []outputItem{g.item(o.Status)}
	o.Usage = &usageObject{InputTokens: g.usage.Input, OutputTokens: g.usage.Output, TotalTokens: g.usage.Input + g.usage.Output}
	o.Usage.InputTokensDetails.CachedTokens = g.usage.Cached
	o.Usage.OutputTokensDetails.ReasoningTokens = g.usage.Reasoning
}

// item is the one message of the output; without content while it is in progress.
func (g *generation) item(status string) outputItem {
	item := outputItem{ID: g.itemID, Type: "message", Status: status, Role: "assistant", Content: []outputPart{}}
	if status != statusInProgress {
		item.Content = append(item.Content, part(g.text))
	}
	return item
}

func part(text string) outputPart {
	return outputPart{Type: "output_text", Annotations: []string{}, Logprobs: []string{}, Text: text}
}

// metadata is the request's, and the word that this is no provider.
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

// echoes gives the request's own value of a parameter, or what the API says without one.
func echoes(body json.RawMessage) func(name, otherwise string) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		fields = nil
	}
	return func(name, otherwise string) json.RawMessage {
		if value, ok := fields[name]; ok && !bytes.Equal(value, []byte("null")) {
			return value
		}
		return json.RawMessage(otherwise)
	}
}

// whole answers without a stream.
func (g *generation) whole(w http.ResponseWriter) error {
	if err := g.wholeDelay(); err != nil {
		return err
	}
	status := g.status()
	switch g.answer.Fault {
	case FaultHang:
		return g.server.hold(g.ctx, nil)
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
		g.server.journal.progress(g.entry, len(g.text))
	}
	return nil
}

// wholeDelay waits as long as the stream would have taken.
func (g *generation) wholeDelay() error {
	if g.answer.Gate != nil {
		if err := g.server.hold(g.ctx, g.answer.Gate); err != nil {
			return err
		}
	}
	return g.server.pause(g.ctx, g.answer.PieceDelay*time.Duration(len(g.pieces)))
}

// mustJSON encodes an answer's own structures; their raw fields were parsed before, so that it
// cannot fail.
func mustJSON(value any) []byte {
	payload, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return payload
}
