package llm

import (
	"cmp"
	"context"

	"github.com/arcoscribe/throughline/internal/chat"
)

// Variant is how the model of a variant is called.
type Variant struct {
	// BaseURL of its server; empty for the server of all others, and then an empty APIKey is that server's, too.
	BaseURL string
	APIKey  string
	// Chat calls it by Chat Completions instead of Responses.
	Chat bool
	// Effort is how long it thinks, in the words of its server; empty for the server's default.
	Effort string
	// ReasoningSummary asks for summaries of its reasoning, which Chat Completions have not.
	ReasoningSummary bool
}

// reasoning is what a call says about that; empty for nothing.
func (v Variant) reasoning() object {
	said := object{}
	if v.Effort != "" {
		said["effort"] = v.Effort
	}
	if v.ReasoningSummary {
		said["summary"] = "auto"
	}
	return said
}

// Models are the models that reply: of each variant the one on its own server. What a server refuses is remembered by variant.
type Models struct {
	standard *Client
	variants map[string]*Client
}

var _ chat.Model = (*Models)(nil)

// NewModels returns the models of these variants; all others are on the server of standard, which the caller closes as well.
func NewModels(standard *Client, variants map[string]Variant) *Models {
	m := &Models{standard: standard, variants: make(map[string]*Client, len(variants))}
	for name, variant := range variants {
		m.variants[name] = standard.with(variant)
	}
	return m
}

// with returns a client for a variant. On the same server it has the same connections.
func (c *Client) with(variant Variant) *Client {
	own := &Client{settings: c.settings, variant: variant, http: c.http}
	if own.settings.APIKey = variant.APIKey; variant.BaseURL == "" {
		own.settings.APIKey = cmp.Or(variant.APIKey, c.settings.APIKey)
		return own
	}
	own.settings.BaseURL = variant.BaseURL
	own.http = newHTTPClient(&own.reach, maxAnswer)
	return own
}

// Stream asks the model of the request's variant for a reply.
func (m *Models) Stream(ctx context.Context, request chat.ModelRequest) (chat.ModelStream, error) {
	return cmp.Or(m.variants[request.Variant], m.standard).Stream(ctx, request)
}

// Close closes idle connections.
func (m *Models) Close() {
	for _, client := range m.variants {
		client.Close()
	}
}
