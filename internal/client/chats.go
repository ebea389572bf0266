package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/history"
)

// ChatPage is a page of the user's chats. NextCursor, which the server alone can read, is that of the next page; nil
// after the last.
type ChatPage struct {
	Chats      []history.Chat `json:"chats"`
	NextCursor *string        `json:"next_cursor"`
}

// Memory is the memory that the next prompt of a chat would contain.
type Memory struct {
	ChatID   uuid.UUID       `json:"chat_id"`
	Strategy string          `json:"strategy"`
	Coverage string          `json:"coverage"` // one sentence
	Sections []MemorySection `json:"sections"`
	Tokens   int             `json:"tokens"`
}

// MemorySection is one part of Memory.
type MemorySection struct {
	Name   string `json:"name"`
	Text   string `json:"text"`
	Tokens int    `json:"tokens"`
	Turns  int    `json:"turns"`
}

// ChatPath returns the path of a chat, followed by rest, such as "/messages".
func ChatPath(id uuid.UUID, rest string) string { return "/v1/chats/" + id.String() + rest }

// Chats lists the chats with the latest activity, expired ones as well.
func (c *Client) Chats(ctx context.Context, limit int) (ChatPage, error) {
	return call[ChatPage](ctx, c, http.MethodGet, "/v1/chats", url.Values{"limit": {strconv.Itoa(limit)}, "include_expired": {"true"}}, nil)
}

// Chat returns one chat.
func (c *Client) Chat(ctx context.Context, id uuid.UUID) (history.Chat, error) {
	return call[history.Chat](ctx, c, http.MethodGet, ChatPath(id, ""), nil, nil)
}

// Change changes the fields that change names.
func (c *Client) Change(ctx context.Context, id uuid.UUID, change map[string]any) (history.Chat, error) {
	return call[history.Chat](ctx, c, http.MethodPatch, ChatPath(id, ""), nil, change)
}

// Delete deletes a chat with its messages and memory.
func (c *Client) Delete(ctx context.Context, id uuid.UUID) error {
	_, err := c.Call(ctx, http.MethodDelete, ChatPath(id, ""), nil, nil)
	return err
}

// Clear starts a new context in a chat. Its messages stay stored.
func (c *Client) Clear(ctx context.Context, id uuid.UUID) (history.Cleared, error) {
	return call[history.Cleared](ctx, c, http.MethodPost, ChatPath(id, "/clear"), nil, nil)
}

// Cancel stops the reply that is generated in a chat. Its text so far is stored.
func (c *Client) Cancel(ctx context.Context, id uuid.UUID) error {
	_, err := c.Call(ctx, http.MethodPost, "/v1/message/"+id.String()+"/cancel", nil, nil)
	return err
}

// Messages returns the newest messages.
func (c *Client) Messages(ctx context.Context, id uuid.UUID, limit int) (history.MessagePage, error) {
	return call[history.MessagePage](ctx, c, http.MethodGet, ChatPath(id, "/messages"), url.Values{"limit": {strconv.Itoa(limit)}}, nil)
}

// Pin pins a message or unpins it.
func (c *Client) Pin(ctx context.Context, messageID uuid.UUID, pinned bool) (history.Message, error) {
	return call[history.Message](ctx, c, http.MethodPatch, "/v1/messages/"+messageID.String(), nil, map[string]any{"pinned": pinned})
}

// Memory returns the memory that the next prompt of a chat would contain.
func (c *Client) Memory(ctx context.Context, id uuid.UUID) (Memory, error) {
	return call[Memory](ctx, c, http.MethodGet, ChatPath(id, "/memory"), nil, nil)
}

// Search searches all of the user's messages.
func (c *Client) Search(ctx context.Context, query string, limit int) ([]history.SearchResult, error) {
	found, err := call[struct {
		Results []history.SearchResult `json:"results"`
	}](ctx, c, http.MethodGet, "/v1/search", url.Values{"q": {query}, "limit": {strconv.Itoa(limit)}}, nil)
	return found.Results, err
}

// Why returns what the prompt of a reply held of its chat.
func (c *Client) Why(ctx context.Context, messageID uuid.UUID) (history.Why, error) {
	return call[history.Why](ctx, c, http.MethodGet, "/v1/messages/"+messageID.String()+"/why", nil, nil)
}

// Prune deletes the chats whose last activity is so many days ago; with dryRun it only counts them. The answer is a
// history.Pruned as JSON.
func (c *Client) Prune(ctx context.Context, olderThanDays int, dryRun bool) (json.RawMessage, error) {
	return c.Call(ctx, http.MethodPost, "/v1/chats/prune", nil, map[string]any{"older_than_days": olderThanDays, "dry_run": dryRun})
}
