// Package llm calls the models. It adapts openai-go's package for the Responses API to what chat and brief need; any server
// with that API works, and there is no layer for other APIs. Its errors are logged, so they never contain text
// of a prompt or a reply.
package llm

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/rewrite"
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

// Config configures a Client.
type Config struct {
	// APIKey is sent as a bearer token; empty sends none.
	APIKey string
	// BaseURL of the API, such as https://api.openai.com/v1; empty means OpenAI's.
	BaseURL string
	// IdleTimeout is the longest pause between two events or comments of a streamed reply, and before the first.
	IdleTimeout time.Duration
	// Record is told what each call has cost that is not for a reply; nil for no one. It returns soon.
	Record func(ctx context.Context, spent work.Spent)
	// Logger defaults to none.
	Logger *slog.Logger
}

// Client calls the models. It is safe for concurrent use.
type Client struct {
	// api is only one of the library's services. Its client has all of them, tens of megabytes of code.
	api     responses.ResponseService
	idle    time.Duration
	http    *http.Client
	record  func(ctx context.Context, spent work.Spent)
	logger  *slog.Logger
	refused refusedFields
	form    atomic.Int32 // of structured answers: what the server has not refused
}

var (
	_ chat.Model       = (*Client)(nil)
	_ brief.Summarizer = (*Client)(nil)
	_ work.Asker       = (*Client)(nil)
	_ rewrite.Model    = (*Client)(nil)
)

// New returns a client. The caller closes it.
func New(config Config) *Client {
	client := newHTTPClient()
	options := []option.RequestOption{
		option.WithBaseURL(cmp.Or(config.BaseURL, openAIBaseURL)), option.WithAPIKey(config.APIKey), option.WithHTTPClient(client),
		option.WithMaxRetries(maxRetries), option.WithMaxRetryDelay(maxRetryDelay), option.WithMiddleware(neverRepeatForQuota),
	}
	logger := config.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	record := config.Record
	if record == nil {
		record = func(context.Context, work.Spent) {}
	}
	return &Client{api: responses.NewResponseService(options...), idle: config.IdleTimeout, http: client, record: record, logger: logger}
}

func newHTTPClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	// Many replies run at once. With the default of two idle connections, nearly each would open a new one.
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 1024, 1024
	transport.DialContext = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext
	// Events are small. At their default size these buffers would be most of a running reply's memory.
	transport.WriteBufferSize, transport.ReadBufferSize = 1<<10, 2<<10
	return &http.Client{Transport: releasingTransport{transport}}
}

// Close closes idle connections.
func (c *Client) Close() {
	c.http.CloseIdleConnections()
}

// purposeReply is the purpose of a call for a reply. That of a summary is its kind, that of a question its own.
const purposeReply = "reply"

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
