package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/transfer"
)

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
	answer, err := io.ReadAll(response.Body)
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
	events := newEvents(response.Body)
	for {
		next, err := events.next()
		if err != nil {
			return nil, fmt.Errorf("the import: %w", err)
		}
		data := []byte(next.data)
		switch next.name {
		case "import.progress":
			var p transfer.Progress
			if err := json.Unmarshal(data, &p); err != nil {
				return nil, fmt.Errorf("the import's progress cannot be read: %w", err)
			}
			progress(p)
		case "import.completed":
			return data, nil
		case "import.failed":
			refused := &Error{Status: http.StatusUnprocessableEntity}
			return nil, errors.Join(json.Unmarshal(data, refused), refused)
		}
	}
}
