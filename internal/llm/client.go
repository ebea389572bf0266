// Package llm calls the models by the Responses API, and those that reply also by Chat Completions. Any server with one of them
// works. Its errors are logged, so they never contain text of a prompt or a reply.
package llm

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/memory/topics"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/google/uuid"
	"github.com/tidwall/gjson"
)

// The most that is read, in bytes: of an answer; of a stream, in which each word brings some hundred; of the text of a
// reply, so that an export with it can be imported.
const (
	maxAnswer = 4 << 20
	maxStream = 256 << 20
	maxReply  = 1_000_000
	maxItems  = 2 * maxReply // of the items and sources of a reply, whose text is in them once more
)

// Settings say which server is called and how, by a Client or an Embedder.
type Settings struct {
	// APIKey is sent as a bearer token; empty sends none.
	APIKey string
	// BaseURL of the API, such as https://api.openai.com/v1; empty means OpenAI's.
	BaseURL string
	// IdleTimeout is the longest pause between two events or comments of a streamed reply, and before the first.
	IdleTimeout time.Duration
	// Meter is asked about each call for a user, and told what it has cost, unless it is for a reply; nil for none. About summaries
	// of chats it is not asked.
	Meter work.Meter
	// Logger defaults to none, of calls for replies, summaries and answers.
	Logger *slog.Logger
	// Metrics default to new ones, of calls for vectors.
	Metrics *metrics.Metrics
}

func (s Settings) withDefaults() Settings {
	s.BaseURL = cmp.Or(s.BaseURL, "https://api.openai.com/v1")
	if s.Meter == nil {
		s.Meter = unmetered{}
	}
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	if s.Metrics == nil {
		s.Metrics = metrics.New()
	}
	return s
}

// unmetered is the meter of those who have none.
type unmetered struct{}

func (unmetered) Allow(context.Context, uuid.UUID, string) error { return nil }
func (unmetered) Record(context.Context, work.Spent)             {}

// Client calls the models. It is safe for concurrent use.
type Client struct {
	settings Settings
	variant  Variant // whose replies it makes
	http     *http.Client
	reach
	refused sync.Map     // names of fields that the server does not know: a call does without them
	form    atomic.Int32 // of structured answers: what the server has not refused
}

var (
	_ chat.Model       = (*Client)(nil)
	_ brief.Summarizer = (*Client)(nil)
	_ work.Asker       = (*Client)(nil)
	_ topics.Model     = (*Client)(nil)
)

// New returns a client. The caller closes it.
func New(settings Settings) *Client {
	c := &Client{settings: settings.withDefaults()}
	c.http = newHTTPClient(&c.reach, maxAnswer)
	return c
}

// reach is whether the latest call reached its server.
type reach struct{ away atomic.Bool }

// Away reports whether no server answered the latest call.
func (r *reach) Away() bool { return r.away.Load() }

// newHTTPClient returns a client that reads no more of an answer than so many bytes, or maxStream of a streamed one. It
// follows no redirect: the texts and the key are for the configured server only.
func newHTTPClient(reached *reach, most int64) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	// Many replies run at once. With the default of two idle connections, nearly each would open a new one.
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 1024, 1024
	transport.DialContext = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext
	// Events are small. At their default size these buffers would be most of a running reply's memory.
	transport.WriteBufferSize, transport.ReadBufferSize = 1<<10, 2<<10
	return &http.Client{
		Transport:     boundedTransport{transport, reached, most},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Close closes idle connections.
func (c *Client) Close() {
	c.http.CloseIdleConnections()
}

// params is the body of a call.
type params struct {
	Model            string            `json:"model,omitempty"`
	Input            any               `json:"input"` // a text, or items
	Instructions     string            `json:"instructions,omitempty"`
	Prompt           *hostedPrompt     `json:"prompt,omitempty"`
	Stream           bool              `json:"stream,omitempty"`
	Text             *textConfig       `json:"text,omitempty"`
	Reasoning        object            `json:"reasoning,omitempty"`
	Tools            []object          `json:"tools,omitempty"`
	ToolChoice       chat.ToolChoice   `json:"tool_choice,omitempty"`
	Include          []string          `json:"include,omitempty"`
	Store            *bool             `json:"store,omitempty"`
	Metadata         map[string]string `json:"metadata,omitempty"`
	PromptCacheKey   string            `json:"prompt_cache_key"`
	SafetyIdentifier string            `json:"safety_identifier"`
}

type hostedPrompt struct {
	ID      string `json:"id"`
	Version string `json:"version"`
}

// newParams returns what every call has in common. The provider stores nothing, learns what the call is for, keys its
// prompt cache by chat, and can tell users apart without knowing who they are.
func newParams(purpose, input, instructions string, chatID, userID uuid.UUID) params {
	return params{
		Input: input, Instructions: instructions, Store: new(bool), Metadata: map[string]string{"purpose": purpose},
		PromptCacheKey: chatID.String(), SafetyIdentifier: safetyIdentifier(userID),
	}
}

func safetyIdentifier(userID uuid.UUID) string {
	digest := sha256.Sum256([]byte(userID.String()))
	return hex.EncodeToString(digest[:])
}

// body is what a call sends.
type body interface {
	// optional has the fields that a server may refuse, each with what leaves it out.
	optional() map[string]func()
	// isRefused reports whether a call was refused because of one of them.
	isRefused(field string, why *refusal) bool
}

func (p *params) optional() map[string]func() {
	fields := map[string]func(){"metadata": func() { p.Metadata = nil }, "store": func() { p.Store = nil }}
	if p.Include != nil {
		fields["include"] = func() { p.Include = nil }
	}
	return fields
}

func (p *params) isRefused(field string, why *refusal) bool { return why.isAbout(field) }

// send makes a call, whose response the caller closes. When the server refuses one of the fields that it can do without, the
// call is made once more without it, as are all later ones.
func (c *Client) send(ctx context.Context, path string, call body, retries int) (*http.Response, error) {
	for optional := call.optional(); ; {
		for field, leaveOut := range optional {
			if _, refused := c.refused.Load(field); refused {
				leaveOut()
				delete(optional, field)
			}
		}
		response, err := post(ctx, c.http, c.settings, path, call, retries)
		why, refused := errors.AsType[*refusal](err)
		if !refused || !c.learn(ctx, call, optional, why) {
			return response, err
		}
	}
}

// learn notes the fields because of which a call was refused, and reports whether there are any.
func (c *Client) learn(ctx context.Context, call body, optional map[string]func(), why *refusal) (learnt bool) {
	for field := range optional {
		if !call.isRefused(field, why) {
			continue
		}
		learnt = true
		if _, known := c.refused.LoadOrStore(field, true); !known {
			c.settings.Logger.LogAttrs(ctx, slog.LevelWarn, "the model's server refuses a field of calls, which are made without it from now on",
				slog.String("field", field))
		}
	}
	return learnt
}

// ask is send for calls that make no reply, if the user may have it, and records the cost. A call that broke off may be on
// the bill all the same: the texts sent are estimated. A refused one is free.
func (c *Client) ask(ctx context.Context, params params, userID, chatID uuid.UUID) (answer gjson.Result, err error) {
	purpose := params.Metadata["purpose"]
	if isUpkeep(purpose) {
		if err := c.settings.Meter.Allow(ctx, userID, purpose); err != nil {
			return answer, err
		}
	}
	answer, err = c.answer(ctx, params)
	spent := work.Spent{Purpose: purpose, Model: params.Model, UserID: userID}
	if chatID != userID {
		spent.ChatID = chatID
	}
	_, refused := errors.AsType[*refusal](err)
	switch {
	case refused:
		return answer, err
	case err != nil:
		spent.Estimated = true
		input, _ := params.Input.(string) // only a reply has items
		spent.InputTokens = text.Tokens(params.Instructions) + text.Tokens(input)
	default:
		said := textOf(answer)
		spent.Model = cmp.Or(said.Model, spent.Model)
		spent.InputTokens, spent.CachedTokens, spent.OutputTokens = said.InputTokens, said.CachedTokens, said.OutputTokens
	}
	c.settings.Meter.Record(ctx, spent)
	return answer, err
}

// answer makes a call that is answered with one object.
func (c *Client) answer(ctx context.Context, params params) (answer gjson.Result, err error) {
	response, err := c.send(ctx, "/responses", &params, maxRetries)
	if err != nil {
		return answer, err
	}
	defer func() { _ = response.Body.Close() }() // it was read, or is of no use
	body, err := io.ReadAll(response.Body)       // the client bounds it
	if err == nil && !gjson.ValidBytes(body) {
		err = errors.New("the answer is no JSON")
	}
	return gjson.ParseBytes(body), err
}

// isUpkeep reports whether a call can be denied. Folds cannot: that no turn is lost is a promise.
func isUpkeep(purpose string) bool {
	return purpose != string(brief.KindFold)
}

// isAbout reports whether a call was refused because of a field, or of something in it. Deeper in a path there may be names of tools.
// Words count for nothing: without store the provider would keep the texts.
func (r *refusal) isAbout(field string) bool {
	path := names(r.param)
	return r.status == http.StatusBadRequest && len(path) > 0 && path[0] == field
}

// names returns the names in a path or a text.
func names(in string) []string {
	return strings.FieldsFunc(in, func(c rune) bool { return c != '_' && !unicode.IsLetter(c) && !unicode.IsDigit(c) })
}

// boundedTransport bounds every body that is read, errors too, and notes whether the server was reached.
type boundedTransport struct {
	*http.Transport

	reached *reach
	most    int64 // bytes of an answer
}

// RoundTrip sends the request.
func (t boundedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.Transport.RoundTrip(request)
	if !errors.Is(request.Context().Err(), context.Canceled) {
		t.reached.away.Store(err != nil)
	}
	if err != nil {
		return nil, err
	}
	most := t.most
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		most = maxStream
	}
	response.Body = http.MaxBytesReader(nil, response.Body, most)
	return response, nil
}
