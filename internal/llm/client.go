// Package llm calls the models by the Responses API. Any server with it works, and there is no layer for other APIs. Its
// errors are logged, so they never contain text of a prompt or a reply.
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
	"sync/atomic"
	"time"

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
	http     *http.Client
	reach
	refused struct{ metadata, store atomic.Bool } // fields of a call that the server does not know: a call does without them
	form    atomic.Int32                          // of structured answers: what the server has not refused
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
	Input            string            `json:"input"`
	Instructions     string            `json:"instructions,omitempty"`
	Prompt           *hostedPrompt     `json:"prompt,omitempty"`
	Stream           bool              `json:"stream,omitempty"`
	Text             *textConfig       `json:"text,omitempty"`
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

// send makes a call, whose response the caller closes. When the server refuses one of the fields that only describe a
// call, the call is made once more without it, as are all later ones.
func (c *Client) send(ctx context.Context, params params) (*http.Response, error) {
	for {
		if c.refused.metadata.Load() {
			params.Metadata = nil
		}
		if c.refused.store.Load() {
			params.Store = nil
		}
		response, err := post(ctx, c.http, c.settings, "/responses", params, maxRetries)
		switch {
		case params.Metadata != nil && refusesField(err, "metadata"):
			c.leaveOut(ctx, &c.refused.metadata, "metadata")
		case params.Store != nil && refusesField(err, "store"):
			c.leaveOut(ctx, &c.refused.store, "store")
		default:
			return response, err
		}
	}
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
		spent.InputTokens = text.Tokens(params.Instructions) + text.Tokens(params.Input)
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
	response, err := c.send(ctx, params)
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

// leaveOut notes a refused field, and logs it once.
func (c *Client) leaveOut(ctx context.Context, refused *atomic.Bool, field string) {
	if refused.CompareAndSwap(false, true) {
		c.settings.Logger.LogAttrs(ctx, slog.LevelWarn, "the model's server refuses a field of calls, which are made without it from now on",
			slog.String("field", field))
	}
}

// refusesField reports whether the server refused a call because of a field, or of something in it.
func refusesField(err error, field string) bool {
	refused, ok := errors.AsType[*refusal](err)
	if !ok || refused.status != http.StatusBadRequest {
		return false
	}
	name, _, _ := strings.Cut(refused.param, ".")
	return name == field
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
