// Package llm asks the models: an adapter of openai-go's Responses API to what chat and fold need.
// Every server that speaks that API will do; there is no layer for others. No text of a prompt or a
// reply ever gets into its errors, which are logged.
package llm

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/http"
	"time"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/google/uuid"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
)

// Retries of a call that the server refused for the moment, and the longest wait between two.
const (
	maxRetries    = 2
	maxRetryDelay = 5 * time.Second
)

// Config of a Client.
type Config struct {
	APIKey string
	// BaseURL of the API, such as https://api.openai.com/v1; empty means OpenAI's.
	BaseURL string
	// IdleTimeout is the longest silence of the model during a streamed reply, from the call on.
	IdleTimeout time.Duration
}

// Client asks the models. It is safe for concurrent use.
type Client struct {
	// api is one of the library's services: its client is all of them, tens of megabytes of code.
	api  responses.ResponseService
	idle time.Duration
	http *http.Client
}

var (
	_ chat.Model       = (*Client)(nil)
	_ brief.Summarizer = (*Client)(nil)
)

// New makes a client. Close it.
func New(config Config) *Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	// Replies are long and many at once; the default of two idle connections would open a new one for
	// nearly each of them.
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 1024, 1024
	transport.DialContext = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext
	// Events are small; of the default size these buffers would be most of what a running reply holds.
	transport.WriteBufferSize, transport.ReadBufferSize = 1<<10, 2<<10
	client := &http.Client{Transport: forgetful{transport}}
	options := []option.RequestOption{
		option.WithEnvironmentProduction(), option.WithAPIKey(config.APIKey), option.WithHTTPClient(client),
		option.WithMaxRetries(maxRetries), option.WithMaxRetryDelay(maxRetryDelay),
	}
	if config.BaseURL != "" {
		options = append(options, option.WithBaseURL(config.BaseURL))
	}
	return &Client{api: responses.NewResponseService(options...), idle: config.IdleTimeout, http: client}
}

// Close closes idle connections.
func (c *Client) Close() {
	c.http.CloseIdleConnections()
}

// request is what every call carries: nothing is kept at the provider, its prompt cache is keyed by
// chat, and it can tell users apart without knowing who they are.
func request(input string, chatID, userID uuid.UUID) responses.ResponseNewParams {
	return responses.ResponseNewParams{
		Input:            responses.ResponseNewParamsInputUnion{OfString: param.NewOpt(input)},
		Store:            param.NewOpt(false),
		PromptCacheKey:   param.NewOpt(chatID.String()),
		SafetyIdentifier: param.NewOpt(safetyIdentifier(userID)),
	}
}

func safetyIdentifier(userID uuid.UUID) string {
	digest := sha256.Sum256([]byte(userID.String()))
	return hex.EncodeToString(digest[:])
}
