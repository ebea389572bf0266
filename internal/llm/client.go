// Package llm calls the models. It adapts openai-go's package for the Responses API to what chat and brief need; any server
// with that API works, and there is no layer for other APIs. Its errors are logged, so they never contain text
// of a prompt or a reply.
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

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/memory/topics"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/google/uuid"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
)

// How often openai-go repeats a call that failed before the server accepted it, and its longest wait in between.
const (
	maxRetries    = 2
	maxRetryDelay = 5 * time.Second
)

// The most that is read, in bytes: of an answer, which the library holds a dozen times over; of a stream, in which each word brings
// some hundred; of the text of a reply, so that an export with it can be imported.
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
	// api is only one of the library's services. Its client has all of them, tens of megabytes of code.
	api      responses.ResponseService
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
	c.api = responses.NewResponseService(
		option.WithBaseURL(c.settings.BaseURL), option.WithAPIKey(settings.APIKey), option.WithHTTPClient(c.http),
		option.WithMaxRetries(maxRetries), option.WithMaxRetryDelay(maxRetryDelay), option.WithMiddleware(neverRepeatForQuota),
	)
	return c
}

// reach is whether the latest call reached its server.
type reach struct{ away atomic.Bool }

// Away reports whether no server answered the latest call.
func (r *reach) Away() bool { return r.away.Load() }

// newHTTPClient returns a client that reads no more of an answer than so many bytes, or maxStream of a streamed one.
func newHTTPClient(reached *reach, most int64) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	// Many replies run at once. With the default of two idle connections, nearly each would open a new one.
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 1024, 1024
	transport.DialContext = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext
	// Events are small. At their default size these buffers would be most of a running reply's memory.
	transport.WriteBufferSize, transport.ReadBufferSize = 1<<10, 2<<10
	return &http.Client{Transport: releasingTransport{transport, reached, most}}
}

// Close closes idle connections.
func (c *Client) Close() {
	c.http.CloseIdleConnections()
}

// newParams returns what every call has in common. The provider stores nothing, learns what the call is for, keys its
// prompt cache by chat, and can tell users apart without knowing who they are.
func newParams(purpose, input, instructions string, chatID, userID uuid.UUID) responses.ResponseNewParams {
	params := responses.ResponseNewParams{
		Input:            responses.ResponseNewParamsInputUnion{OfString: param.NewOpt(input)},
		Store:            param.NewOpt(false),
		Metadata:         shared.Metadata{"purpose": purpose},
		PromptCacheKey:   param.NewOpt(chatID.String()),
		SafetyIdentifier: param.NewOpt(safetyIdentifier(userID)),
	}
	if instructions != "" {
		params.Instructions = param.NewOpt(instructions)
	}
	return params
}

func safetyIdentifier(userID uuid.UUID) string {
	digest := sha256.Sum256([]byte(userID.String()))
	return hex.EncodeToString(digest[:])
}

// send makes a call. When the server refuses one of the fields that only describe a call, the call is made once more
// without it, as are all later ones.
func (c *Client) send(ctx context.Context, params responses.ResponseNewParams, options ...option.RequestOption) (*responses.Response, error) {
	for {
		if c.refused.metadata.Load() {
			params.Metadata = nil
		}
		if c.refused.store.Load() {
			params.Store = param.Opt[bool]{}
		}
		response, err := c.api.New(ctx, params, options...)
		switch {
		case params.Metadata != nil && refusesField(err, "metadata"):
			c.leaveOut(ctx, &c.refused.metadata, "metadata")
		case params.Store.Valid() && refusesField(err, "store"):
			c.leaveOut(ctx, &c.refused.store, "store")
		default:
			return response, err
		}
	}
}

// ask is send for calls that make no reply, if the user may have it, and records the cost. A call that broke off may be on
// the bill all the same: the texts sent are estimated. A refused one is free.
func (c *Client) ask(ctx context.Context, params responses.ResponseNewParams, userID, chatID uuid.UUID) (*responses.Response, error) {
	purpose := params.Metadata["purpose"]
	if isUpkeep(purpose) {
		if err := c.settings.Meter.Allow(ctx, userID, purpose); err != nil {
			return nil, err
		}
	}
	response, err := c.send(ctx, params)
	spent := work.Spent{Purpose: purpose, Model: params.Model, UserID: userID}
	if chatID != userID {
		spent.ChatID = chatID
	}
	_, refused := errors.AsType[*responses.Error](err)
	switch {
	case refused:
		return response, err
	case err != nil:
		spent.Estimated = true
		spent.InputTokens = text.Tokens(params.Instructions.Value) + text.Tokens(params.Input.OfString.Value)
	default:
		answer := textOf(response)
		spent.Model = cmp.Or(answer.Model, spent.Model)
		spent.InputTokens, spent.CachedTokens, spent.OutputTokens = answer.InputTokens, answer.CachedTokens, answer.OutputTokens
	}
	c.settings.Meter.Record(ctx, spent)
	return response, err
}

// isUpkeep reports whether a call can be denied. Folds cannot: that no turn is lost is a promise.
func isUpkeep(purpose string) bool {
	return purpose != string(brief.KindFold) && purpose != string(brief.KindRebuild)
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
	refused, ok := errors.AsType[*responses.Error](err)
	if !ok || refused.StatusCode != http.StatusBadRequest {
		return false
	}
	name, _, _ := strings.Cut(refused.Param, ".")
	return name == field
}

// releasingTransport releases a request's body as soon as it is sent. net/http itself holds the request until the
// response ends, which for a reply takes minutes, and the prompt would be most of a running reply's memory. It bounds
// every body that is read, errors too.
type releasingTransport struct {
	*http.Transport

	reached *reach
	most    int64 // bytes of an answer
}

// RoundTrip sends the request. Its body can be sent again, as net/http does when a connection turns out to be
// closed, only until the response has begun.
func (t releasingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.send(request)
	if !errors.Is(request.Context().Err(), context.Canceled) {
		t.reached.away.Store(err != nil)
	}
	return response, err
}

func (t releasingTransport) send(request *http.Request) (*http.Response, error) {
	if request.Body == nil || request.GetBody == nil {
		return t.bounded(t.Transport.RoundTrip(request))
	}
	again := &bodySource{open: request.GetBody}
	defer again.release()
	ours := request.Clone(request.Context())
	ours.Body, ours.GetBody = &sentBody{body: request.Body}, again.body
	return t.bounded(t.Transport.RoundTrip(ours))
}

func (t releasingTransport) bounded(response *http.Response, err error) (*http.Response, error) {
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

// bodySource makes new copies of a body until it is released.
type bodySource struct {
	mu   sync.Mutex
	open func() (io.ReadCloser, error)
}

func (s *bodySource) body() (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		return nil, http.ErrBodyReadAfterClose
	}
	body, err := s.open()
	return &sentBody{body: body}, err
}

func (s *bodySource) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = nil
}

// sentBody releases a body once it is read to its end or closed.
type sentBody struct {
	mu   sync.Mutex
	body io.ReadCloser
}

func (s *sentBody) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.body.Read(p)
	if err != nil {
		_ = s.body.Close() // it is read, or broken
		s.body = http.NoBody
	}
	return n, err
}

func (s *sentBody) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	body := s.body
	s.body = http.NoBody
	return body.Close()
}
