package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
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

// mem0 is the library of that name, as a process, with a Postgres for its vectors as another. It is asked for
// memories before each reply, and given each turn after it. The last turns are shown beside the memories, as with
// the others.
type mem0 struct {
	*transcript
	meter
	version  string
	folder   string // its Postgres's files
	vectors  *process
	process  *process
	model    *extractor
	embedder *offline.Server
	stop     func()
}

func (e *environment) newMem0(ctx context.Context) (_ keeper, err error) {
	packages, err := npmFolder()
	if err != nil {
		return nil, err
	}
	k := &mem0{}
	if k.version, err = versionOf(packages, mem0Package); err != nil {
		return nil, err
	}
	if k.transcript, err = e.newTranscript(ctx); err != nil {
		return nil, err
	}
	k.embedder = offline.New(e.remember.standIn(nil))
	k.meter.model = k.embedder
	if k.model, err = newExtractor(e.remember.summaryTime); err != nil {
		return nil, err
	}
	address, stop, err := kit.Serve(ctx, k.model.beside(k.embedder), 0)
	if err != nil {
		return nil, errors.Join(err, k.close())
	}
	k.stop = stop
	if k.folder, err = os.MkdirTemp("", "throughline-bench-mem0-"); err != nil {
		return nil, errors.Join(err, k.close())
	}
	if err := k.start(ctx, packages, address); err != nil {
		return nil, errors.Join(err, k.close())
	}
	return k, nil
}

func (k *mem0) start(ctx context.Context, packages, model string) error {
	var err error
	if k.vectors, err = startNode(ctx, packages, []string{"FOLDER=" + filepath.Join(k.folder, "data")}, "pgvector.mjs"); err != nil {
		return err
	}
	if err := k.vectors.AwaitAddress("postgres://"); err != nil {
		return fmt.Errorf("Postgres with pgvector: %w", err)
	}
	// Without the setting it reports usage to its makers.
	k.process, err = startNode(ctx, packages, []string{"MEM0_TELEMETRY=false", "MEM0_DIR=" + k.folder, "DATABASE_URL=" + k.vectors.Address, "MODEL_URL=" + model + "/v1"}, "mem0.mjs")
	return err
}

func (k *mem0) name() string { return "mem0 " + k.version }

func (k *mem0) spent() work {
	k.count()
	k.work.bill = k.model.spent()
	return k.work
}

func (k *mem0) turn(ctx context.Context, content, reply string) (turnCost, error) {
	began := time.Now()
	turns, err := k.add(ctx, memory.RoleUser, content, memory.DefaultLimits().KRawTurns)
	if err != nil {
		return turnCost{}, err
	}
	before := k.count().embeddings
	var found struct {
		Memories []string
		Error    string
	}
	if err := k.ask(map[string]any{"search": content}, &found); err != nil {
		return turnCost{}, err
	}
	if found.Error != "" {
		return turnCost{}, errors.New("search: " + found.Error)
	}
	t := turnCost{input: shown(listed(found.Memories), turns, content), waited: time.Since(began)}
	t.standIn = time.Duration(k.count().embeddings-before) * k.remember.embeddingTime
	if err := k.replied(ctx, reply); err != nil {
		return turnCost{}, err
	}
	began = time.Now()
	var kept struct{ Error string }
	err = k.ask(map[string]any{"add": []message{{"user", content}, {"assistant", reply}}}, &kept)
	if err == nil && kept.Error != "" {
		err = errors.New("add: " + kept.Error)
	}
	t.after = time.Since(began)
	return t, err
}

// message is one of a conversation, as mem0 and its model write it.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// ask sends the process a request.
func (k *mem0) ask(what map[string]any, answer any) error {
	line, err := json.Marshal(what)
	if err != nil {
		return err
	}
	return k.process.Ask(string(line), answer)
}

// listed formats memories as they are usually put into a prompt.
func listed(memories []string) string {
	var text strings.Builder
	for _, one := range memories {
		text.WriteString("- " + one + "\n")
	}
	return text.String()
}

func (k *mem0) close() error {
	var errs []error
	for _, p := range []*process{k.process, k.vectors} {
		if p != nil {
			errs = append(errs, p.Stop())
		}
	}
	if k.stop != nil {
		k.stop()
	}
	k.embedder.Close()
	return errors.Join(append(errs, k.model.close(), os.RemoveAll(k.folder))...)
}

// extractor is the model that mem0 uses to extract what to remember: the part of Chat Completions that this
// takes. It extracts from a message what the offline model would put into a summary of it, so that neither side
// has a better model.
type extractor struct {
	latency time.Duration
	model   *model

	mu   sync.Mutex
	bill bill
}

func newExtractor(latency time.Duration) (*extractor, error) {
	model, err := startModel(offline.Options{})
	return &extractor{latency: latency, model: model}, err
}

func (x *extractor) close() error { return x.model.close() }

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
	summary, err := summarize(ctx, x.model.client, "", []memory.Turn{turn})
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
	input, output := x.bill.input, x.bill.output
	x.bill.add(asked.Messages[0].Content+"\n"+asked.Messages[1].Content, text)
	input, output = x.bill.input-input, x.bill.output-output
	x.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{ // a caller that disconnected needs no answer
		"id": "chatcmpl-" + kit.NewID().String(), "object": "chat.completion", "created": time.Now().Unix(), "model": asked.Model,
		"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "logprobs": nil, "message": map[string]any{"role": "assistant", "content": text, "refusal": nil}}},
		"usage":   map[string]int{"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output},
	})
}
