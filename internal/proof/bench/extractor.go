package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/llm"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// extractor is the model that mem0 has extract what is worth keeping: as much of Chat Completions as that
// takes, and nothing else. What it finds in a message is what the offline model would put into a summary of
// it, so that both remember with the same wits.
type extractor struct {
	latency time.Duration
	mind    *offline.Listening
	client  *llm.Client

	mu   sync.Mutex
	bill bill
}

func newExtractor(latency time.Duration) (*extractor, error) {
	mind, err := offline.Start(offline.Options{})
	if err != nil {
		return nil, err
	}
	return &extractor{latency: latency, mind: mind, client: llm.New(llm.Config{APIKey: "offline", BaseURL: mind.BaseURL(), IdleTimeout: time.Minute})}, nil
}

func (x *extractor) close() error {
	x.client.Close()
	return x.mind.Close()
}

func (x *extractor) spent() bill {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.bill
}

// beside serves the extractor and, on all other paths, a model for embeddings.
func (x *extractor) beside(others http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/v1/chat/completions", x)
	mux.Handle("/", others)
	return mux
}

// extraction is a request for one. What it does not know it refuses.
type extraction struct {
	Model          string    `json:"model"`
	Messages       []message `json:"messages"`
	ResponseFormat struct {
		Type string `json:"type"`
	} `json:"response_format"`
}

func (x *extractor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	asked, err := readExtraction(r)
	var found []string
	if err == nil {
		found, err = x.extract(r.Context(), asked.Messages[1].Content)
	}
	if err != nil {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": err.Error(), "type": "invalid_request_error", "param": nil, "code": nil}})
		return
	}
	if sleepUntil(r.Context(), time.Now().Add(x.latency)) != nil {
		return
	}
	x.answer(w, asked, memoriesOf(found))
}

func readExtraction(r *http.Request) (extraction, error) {
	var asked extraction
	body, err := io.ReadAll(io.LimitReader(r.Body, 16<<20))
	if err != nil {
		return asked, err
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&asked); err != nil {
		return asked, fmt.Errorf("the body cannot be read: %w", err)
	}
	switch scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " "); {
	case r.Method != http.MethodPost || scheme != "Bearer" || key == "":
		return asked, errors.New("expected a POST with a key")
	case asked.Model == "" || asked.ResponseFormat.Type != "json_object":
		return asked, errors.New("expected a model, and a JSON object as response_format")
	case len(asked.Messages) != 2 || asked.Messages[0].Role != "system" || asked.Messages[1].Role != "user":
		return asked, errors.New("expected one system and one user message")
	case !strings.Contains(strings.ToLower(asked.Messages[0].Content+asked.Messages[1].Content), "json"):
		return asked, errors.New("'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'")
	}
	return asked, nil
}

// The part of mem0's prompt that holds what was said.
const (
	newMessages    = "## New Messages\nuser: "
	assistantBegin = "\nassistant: "
)

// extract gives the statements of the user's new message.
func (x *extractor) extract(ctx context.Context, prompt string) ([]string, error) {
	_, said, found := strings.Cut(prompt, newMessages)
	said, _, ended := strings.Cut(said, assistantBegin)
	if !found || !ended {
		return nil, errors.New("the prompt has no new messages in the form that is known")
	}
	turn := memory.Turn{Messages: []memory.Message{{Seq: 1, Role: memory.RoleUser, Status: memory.StatusComplete, Content: said, Tokens: text.Tokens(said)}}}
	summary, err := summarize(ctx, x.client, "", []memory.Turn{turn})
	if err != nil {
		return nil, err
	}
	_, statements, _ := strings.Cut(summary, "The user said:\n")
	var all []string
	for line := range strings.Lines(statements) {
		item, isItem := strings.CutPrefix(strings.TrimSpace(line), "- ")
		if !isItem {
			break
		}
		all = append(all, item)
	}
	return all, nil
}

// memoriesOf is the object that mem0 asks for.
func memoriesOf(found []string) string {
	type item struct {
		ID           string `json:"id"`
		Text         string `json:"text"`
		AttributedTo string `json:"attributed_to"`
	}
	items := make([]item, len(found))
	for i, text := range found {
		items[i] = item{ID: strconv.Itoa(i), Text: text, AttributedTo: "user"}
	}
	text, _ := json.Marshal(map[string]any{"memory": items}) // strings alone
	return string(text)
}

func (x *extractor) answer(w http.ResponseWriter, asked extraction, text string) {
	x.mu.Lock()
	input, output := x.bill.input, x.bill.output
	x.bill.add(asked.Messages[0].Content+"\n"+asked.Messages[1].Content, text)
	input, output = x.bill.input-input, x.bill.output-output
	x.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{ // a caller who has gone needs no answer
		"id": "chatcmpl-" + newID().String(), "object": "chat.completion", "created": time.Now().Unix(), "model": asked.Model,
		"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "logprobs": nil, "message": map[string]any{"role": "assistant", "content": text, "refusal": nil}}},
		"usage":   map[string]int{"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output},
	})
}
