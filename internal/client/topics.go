package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/history"
)

// Topics lists a chat's topics by the parameters of the API, such as q, state, tag and limit.
func (c *Client) Topics(ctx context.Context, chatID uuid.UUID, query url.Values) ([]history.Topic, error) {
	found, err := call[struct {
		Topics []history.Topic `json:"topics"`
	}](ctx, c, http.MethodGet, ChatPath(chatID, "/topics"), query, nil)
	return found.Topics, err
}

// ChangeTopic changes the fields that change names.
func (c *Client) ChangeTopic(ctx context.Context, chatID, topicID uuid.UUID, change map[string]any) (history.OneTopic, error) {
	return call[history.OneTopic](ctx, c, http.MethodPatch, ChatPath(chatID, "/topics/"+topicID.String()), nil, change)
}

// TopicContext returns the summary and the active messages of a topic.
func (c *Client) TopicContext(ctx context.Context, chatID, topicID uuid.UUID) (history.TopicContext, error) {
	return call[history.TopicContext](ctx, c, http.MethodGet, ChatPath(chatID, "/topics/"+topicID.String()+"/context"), nil, nil)
}
