package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/history"
)

const memoriesPath = "/v1/memories"

// MemoryPage is a page of the user's memories. NextCursor is as that of a ChatPage.
type MemoryPage struct {
	Memories   []history.Memory `json:"memories"`
	NextCursor *string          `json:"next_cursor"`
}

// Forgettable are memories that words may mean, and the token that forgets them.
type Forgettable struct {
	Candidates []history.ForgetCandidate `json:"candidates"`
	Token      string                    `json:"token"`
}

// Memories lists memories by the parameters of the API, such as q, status, limit and cursor.
func (c *Client) Memories(ctx context.Context, query url.Values) (MemoryPage, error) {
	return call[MemoryPage](ctx, c, http.MethodGet, memoriesPath, query, nil)
}

// Remember stores what the user wants to be remembered for.
func (c *Client) Remember(ctx context.Context, content string) (history.Memory, error) {
	return call[history.Memory](ctx, c, http.MethodPost, memoriesPath, nil, map[string]any{"content": content})
}

// ForgetMemory deletes a memory.
func (c *Client) ForgetMemory(ctx context.Context, id uuid.UUID) error {
	_, err := c.Call(ctx, http.MethodDelete, memoriesPath+"/"+id.String(), nil, nil)
	return err
}

// ProposeForgetting returns what would be forgotten.
func (c *Client) ProposeForgetting(ctx context.Context, query string) (Forgettable, error) {
	return call[Forgettable](ctx, c, http.MethodPost, memoriesPath+"/forget", nil, map[string]any{"query": query})
}

// Forget deletes what a proposal named, and counts it.
func (c *Client) Forget(ctx context.Context, token string) (int, error) {
	done, err := call[struct {
		Forgotten int `json:"forgotten"`
	}](ctx, c, http.MethodPost, memoriesPath+"/forget", nil, map[string]any{"token": token})
	return done.Forgotten, err
}
