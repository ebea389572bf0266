package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

const mem0Package = "mem0ai"

// newMem0 is the library of that name, as a process, with a Postgres for its vectors as another. It is asked for
// memories before each reply, and given each turn after it. The last turns are shown beside the memories, as with
// the others.
func (e *environment) newMem0(ctx context.Context) (_ keeper, err error) {
	var closers []func() error
	closeAll := func() error {
		var errs []error
		for _, one := range slices.Backward(closers) {
			errs = append(errs, one())
		}
		return errors.Join(errs...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll())
		}
	}()
	packages, err := npmFolder()
	if err != nil {
		return keeper{}, err
	}
	version, err := versionOf(packages, mem0Package)
	if err != nil {
		return keeper{}, err
	}
	embedder := offline.New(e.remember.standIn(nil))
	closers = append(closers, func() error { embedder.Close(); return nil })
	model, err := newExtractor(e.remember.summaryTime)
	if err != nil {
		return keeper{}, err
	}
	closers = append(closers, model.close)
	models := http.NewServeMux()
	models.Handle("POST /v1/chat/completions", model)
	models.Handle("/", embedder)
	address, stop, err := kit.Serve(ctx, models, 0)
	if err != nil {
		return keeper{}, err
	}
	closers = append(closers, func() error { stop(); return nil })
	folder, err := os.MkdirTemp("", "throughline-bench-mem0-")
	if err != nil {
		return keeper{}, err
	}
	closers = append(closers, func() error { return os.RemoveAll(folder) })
	vectors, err := startNode(ctx, packages, []string{"FOLDER=" + filepath.Join(folder, "data")}, "pgvector.mjs")
	if err != nil {
		return keeper{}, err
	}
	closers = append(closers, vectors.Stop)
	if err := vectors.AwaitAddress("postgres://"); err != nil {
		return keeper{}, fmt.Errorf("Postgres with pgvector: %w", err)
	}
	// Without the setting it reports usage to its makers.
	process, err := startNode(ctx, packages, []string{"MEM0_TELEMETRY=false", "MEM0_DIR=" + folder, "DATABASE_URL=" + vectors.Address, "MODEL_URL=" + address + "/v1"}, "mem0.mjs")
	if err != nil {
		return keeper{}, err
	}
	closers = append(closers, process.Stop)

	meter := &meter{model: embedder}
	recall := func(_ context.Context, before []memory.Message, content string) (string, time.Duration, error) {
		embeddings := meter.count().embeddings
		memories, err := askMem0(process, map[string]any{"search": content})
		standIn := time.Duration(meter.count().embeddings-embeddings) * e.remember.embeddingTime
		return shown(memories, before, content), standIn, err
	}
	remember := func(content, reply string) error {
		_, err := askMem0(process, map[string]any{"add": []message{{"user", content}, {"assistant", reply}}})
		return err
	}
	turn, err := e.transcribe(ctx, lastTurns(), recall, remember)
	spent := func() work {
		return work{bill: model.spent(), embeddings: meter.count().embeddings, memories: model.spent()}
	}
	return keeper{name: "mem0 " + version, turn: turn, spent: spent, close: closeAll}, err
}

// message is one of a conversation, as mem0 and its model write it.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// askMem0 sends the process a request, and returns the memories that it found, as they are usually put into a prompt.
func askMem0(process *kit.Helper, request map[string]any) (string, error) {
	line, err := json.Marshal(request)
	if err != nil {
		return "", err
	}
	var answer struct {
		Memories []string
		Error    string
	}
	err = process.Ask(string(line), &answer)
	if err == nil && answer.Error != "" {
		err = errors.New("mem0: " + answer.Error)
	}
	var memories strings.Builder
	for _, one := range answer.Memories {
		memories.WriteString("- " + one + "\n")
	}
	return memories.String(), err
}

// extractor is the model that mem0 uses to extract what to remember: the part of Chat Completions that this
// takes. It extracts from a message what the offline model would put into a summary of it, so that neither side
// has a better model.
type extractor struct {
	*model
	latency time.Duration

	mu   sync.Mutex
	bill bill
}

func newExtractor(latency time.Duration) (*extractor, error) {
	model, err := startModel(offline.Options{})
	return &extractor{model: model, latency: latency}, err
}

func (x *extractor) spent() bill {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.bill
}

// extraction is a request. Unknown fields are refused.
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
	if kit.Sleep(r.Context(), x.latency) != nil {
		return
	}
	x.answer(w, asked, memoriesOf(found))
}

func readExtraction(r *http.Request) (extraction, error) {
	var asked extraction
	decoder := json.NewDecoder(io.LimitReader(r.Body, 16<<20))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&asked); err != nil {
		return asked, fmt.Errorf("the body cannot be read: %w", err)
	}
	switch {
	case !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer "):
		return asked, errors.New("expected a request with a key")
	case asked.Model == "" || asked.ResponseFormat.Type != "json_object":
		return asked, errors.New("expected a model, and a JSON object as response_format")
	case len(asked.Messages) != 2 || asked.Messages[0].Role != "system" || asked.Messages[1].Role != "user":
		return asked, errors.New("expected one system and one user message")
	case !strings.Contains(strings.ToLower(asked.Messages[0].Content+asked.Messages[1].Content), "json"):
		return asked, errors.New("'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'")
	}
	return asked, nil
}

// What stands around the new message in mem0's prompt.
const (
	newMessages    = "## New Messages\nuser: "
	assistantBegin = "\nassistant: "
)

// extract returns the statements of the user's new message.
func (x *extractor) extract(ctx context.Context, prompt string) ([]string, error) {
	_, content, found := strings.Cut(prompt, newMessages)
	content, _, ended := strings.Cut(content, assistantBegin)
	if !found || !ended {
		return nil, errors.New("the prompt has no new messages in the form that is known")
	}
	turn := memory.Turn{Messages: []memory.Message{{Seq: 1, Role: memory.RoleUser, Status: memory.StatusComplete, Content: content, Tokens: text.Tokens(content)}}}
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

// memoriesOf returns the object that mem0 expects.
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
	input, output := x.bill.add(asked.Messages[0].Content+"\n"+asked.Messages[1].Content, text)
	x.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{ // a caller that disconnected needs no answer
		"id": "chatcmpl-" + kit.NewID().String(), "object": "chat.completion", "created": time.Now().Unix(), "model": asked.Model,
		"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "logprobs": nil, "message": map[string]any{"role": "assistant", "content": text, "refusal": nil}}},
		"usage":   map[string]int{"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output},
	})
}
