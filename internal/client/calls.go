package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/transfer"
	"github.com/arcoscribe/throughline/streaming"
)

// ChatPage is a page of the user's chats. NextCursor, which the server alone can read, is that of the next page; nil
// after the last.
type ChatPage struct {
	Chats      []api.Chat `json:"chats"`
	NextCursor *string    `json:"next_cursor"`
}

// ChatPath returns the path of a chat, followed by rest, such as "/messages".
func ChatPath(id uuid.UUID, rest string) string { return "/v1/chats/" + id.String() + rest }

// Chats lists the chats with the latest activity, expired ones as well.
func (c *Client) Chats(ctx context.Context, limit int) (ChatPage, error) {
	return Ask[ChatPage](ctx, c, http.MethodGet, "/v1/chats", url.Values{"limit": {strconv.Itoa(limit)}, "include_expired": {"true"}}, nil)
}

// Chat returns one chat.
func (c *Client) Chat(ctx context.Context, id uuid.UUID) (api.Chat, error) {
	return Ask[api.Chat](ctx, c, http.MethodGet, ChatPath(id, ""), nil, nil)
}

// Change changes the fields that change names.
func (c *Client) Change(ctx context.Context, id uuid.UUID, change map[string]any) (api.Chat, error) {
	return Ask[api.Chat](ctx, c, http.MethodPatch, ChatPath(id, ""), nil, change)
}

// Delete deletes a chat with its messages and memory.
func (c *Client) Delete(ctx context.Context, id uuid.UUID) error {
	_, err := c.Call(ctx, http.MethodDelete, ChatPath(id, ""), nil, nil)
	return err
}

// Clear starts a new context in a chat. Its messages stay stored.
func (c *Client) Clear(ctx context.Context, id uuid.UUID) (api.Cleared, error) {
	return Ask[api.Cleared](ctx, c, http.MethodPost, ChatPath(id, "/clear"), nil, nil)
}

// Cancel stops the reply that is generated in a chat. Its text so far is stored.
func (c *Client) Cancel(ctx context.Context, id uuid.UUID) error {
	_, err := c.Call(ctx, http.MethodPost, "/v1/message/"+id.String()+"/cancel", nil, nil)
	return err
}

// Messages returns the newest messages.
func (c *Client) Messages(ctx context.Context, id uuid.UUID, limit int) (api.MessagePage, error) {
	return Ask[api.MessagePage](ctx, c, http.MethodGet, ChatPath(id, "/messages"), url.Values{"limit": {strconv.Itoa(limit)}}, nil)
}

// Pin pins a message or unpins it.
func (c *Client) Pin(ctx context.Context, messageID uuid.UUID, pinned bool) (api.Message, error) {
	return Ask[api.Message](ctx, c, http.MethodPatch, "/v1/messages/"+messageID.String(), nil, map[string]any{"pinned": pinned})
}

// Versions returns what was said in place of a message, itself included.
func (c *Client) Versions(ctx context.Context, messageID uuid.UUID) (api.Versions, error) {
	return Ask[api.Versions](ctx, c, http.MethodGet, "/v1/messages/"+messageID.String()+"/versions", nil, nil)
}

// Select leads a chat that ends with the message last through another version.
func (c *Client) Select(ctx context.Context, messageID, last uuid.UUID) (api.Selected, error) {
	return Ask[api.Selected](ctx, c, http.MethodPost, "/v1/messages/"+messageID.String()+"/select", nil, map[string]any{"last_message_id": last})
}

// Memory returns the memory that the next prompt of a chat would contain.
func (c *Client) Memory(ctx context.Context, id uuid.UUID) (chat.PromptPreview, error) {
	return Ask[chat.PromptPreview](ctx, c, http.MethodGet, ChatPath(id, "/memory"), nil, nil)
}

// Search searches all of the user's messages.
func (c *Client) Search(ctx context.Context, query string, limit int) ([]api.SearchResult, error) {
	found, err := Ask[struct {
		Results []api.SearchResult `json:"results"`
	}](ctx, c, http.MethodGet, "/v1/search", url.Values{"q": {query}, "limit": {strconv.Itoa(limit)}}, nil)
	return found.Results, err
}

// Why returns the content of a reply's prompt.
func (c *Client) Why(ctx context.Context, messageID uuid.UUID) (api.Why, error) {
	return Ask[api.Why](ctx, c, http.MethodGet, "/v1/messages/"+messageID.String()+"/why", nil, nil)
}

// Prune deletes the chats whose last activity is so many days ago; with dryRun it only counts them. The answer is a
// api.Pruned as JSON.
func (c *Client) Prune(ctx context.Context, olderThanDays int, dryRun bool) (json.RawMessage, error) {
	return c.Call(ctx, http.MethodPost, "/v1/chats/prune", nil, map[string]any{"older_than_days": olderThanDays, "dry_run": dryRun})
}

// Topics lists a chat's topics by the parameters of the API, such as q, state, tag and limit.
func (c *Client) Topics(ctx context.Context, chatID uuid.UUID, query url.Values) ([]api.Topic, error) {
	found, err := Ask[struct {
		Topics []api.Topic `json:"topics"`
	}](ctx, c, http.MethodGet, ChatPath(chatID, "/topics"), query, nil)
	return found.Topics, err
}

// ChangeTopic changes the fields that change names.
func (c *Client) ChangeTopic(ctx context.Context, chatID, topicID uuid.UUID, change map[string]any) (api.OneTopic, error) {
	return Ask[api.OneTopic](ctx, c, http.MethodPatch, ChatPath(chatID, "/topics/"+topicID.String()), nil, change)
}

// TopicContext returns the summary and the active messages of a topic.
func (c *Client) TopicContext(ctx context.Context, chatID, topicID uuid.UUID) (api.TopicContext, error) {
	return Ask[api.TopicContext](ctx, c, http.MethodGet, ChatPath(chatID, "/topics/"+topicID.String()+"/context"), nil, nil)
}

const memoriesPath = "/v1/memories"

// MemoryPage is a page of the user's memories. NextCursor is as that of a ChatPage.
type MemoryPage struct {
	Memories   []api.Memory `json:"memories"`
	NextCursor *string      `json:"next_cursor"`
}

// Memories lists memories by the parameters of the API, such as q, status, limit and cursor.
func (c *Client) Memories(ctx context.Context, query url.Values) (MemoryPage, error) {
	return Ask[MemoryPage](ctx, c, http.MethodGet, memoriesPath, query, nil)
}

// Remember stores a memory of the user.
func (c *Client) Remember(ctx context.Context, content string) (api.Memory, error) {
	return Ask[api.Memory](ctx, c, http.MethodPost, memoriesPath, nil, map[string]any{"content": content})
}

// ForgetMemory deletes a memory.
func (c *Client) ForgetMemory(ctx context.Context, id uuid.UUID) error {
	_, err := c.Call(ctx, http.MethodDelete, memoriesPath+"/"+id.String(), nil, nil)
	return err
}

// ProposeForgetting returns the memories that would be forgotten.
func (c *Client) ProposeForgetting(ctx context.Context, query string) (api.ForgetResult, error) {
	return Ask[api.ForgetResult](ctx, c, http.MethodPost, memoriesPath+"/forget", nil, map[string]any{"query": query})
}

// Forget deletes the memories of a proposal, and counts them.
func (c *Client) Forget(ctx context.Context, token string) (int, error) {
	done, err := Ask[api.ForgetResult](ctx, c, http.MethodPost, memoriesPath+"/forget", nil, map[string]any{"token": token})
	return *cmp.Or(done.Forgotten, new(int)), err
}

// Export writes a whole chat to out, in one of the API's formats: jsonl, json or markdown. After an error
// the output is incomplete.
func (c *Client) Export(ctx context.Context, id uuid.UUID, format string, out io.Writer) error {
	return c.download(ctx, ChatPath(id, "/export"), url.Values{"format": {format}}, out)
}

// ExportAccount writes everything about the user to out. After an error the output is incomplete.
func (c *Client) ExportAccount(ctx context.Context, out io.Writer) error {
	return c.download(ctx, "/v1/export", nil, out)
}

// ExportMemories writes all memories to out, as lines of JSON. After an error the output is incomplete.
func (c *Client) ExportMemories(ctx context.Context, out io.Writer) error {
	return c.download(ctx, memoriesPath+"/export", nil, out)
}

func (c *Client) download(ctx context.Context, path string, query url.Values, out io.Writer) error {
	response, err := c.send(ctx, http.MethodGet, path, query, http.NoBody)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // read to its end
	if _, err := io.Copy(out, response.Body); err != nil {
		return fmt.Errorf("the export broke off: %w", err)
	}
	return nil
}

// ImportMemories imports memories from a file in any of the API's formats. The answer is a api.MemoryImport as JSON.
func (c *Client) ImportMemories(ctx context.Context, file io.Reader) (json.RawMessage, error) {
	response, err := c.send(ctx, http.MethodPost, memoriesPath+"/import", nil, file, "Content-Type", "application/octet-stream")
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // read to its end
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("the import: %w", err)
	}
	return answer, nil
}

// Import imports an account, or chats from a file in any of the API's formats. progress is called now and then. The answer
// is a transfer.Result as JSON.
func (c *Client) Import(ctx context.Context, file io.Reader, progress func(transfer.Progress)) (json.RawMessage, error) {
	response, err := c.send(ctx, http.MethodPost, "/v1/import", nil, file, "Content-Type", "application/octet-stream", "Accept", "text/event-stream")
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // read as far as needed
	events := streaming.NewEventReader(response.Body, maxEvent)
	for {
		next, err := nextEvent(events)
		if err != nil {
			return nil, fmt.Errorf("the import: %w", err)
		}
		switch next.name {
		case "import.progress":
			var p transfer.Progress
			if err := json.Unmarshal(next.data, &p); err != nil {
				return nil, fmt.Errorf("the import's progress cannot be read: %w", err)
			}
			progress(p)
		case "import.completed":
			return next.data, nil
		case "import.failed":
			refused := &Error{Status: http.StatusUnprocessableEntity}
			return nil, errors.Join(json.Unmarshal(next.data, refused), refused)
		}
	}
}
