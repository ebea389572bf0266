package client

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// What each call asks for; what it gives is held against the real server by the commands' tests.
func TestCalls(t *testing.T) {
	t.Parallel()
	id := uuid.MustParse(chatID)
	chat := "/v1/chats/" + chatID
	for name, test := range map[string]struct {
		call func(ctx context.Context, c *Client) error
		want string // method, address and body
	}{
		"chats":  {func(ctx context.Context, c *Client) error { _, err := c.Chats(ctx, 20); return err }, "GET /v1/chats?include_expired=true&limit=20 "},
		"a chat": {func(ctx context.Context, c *Client) error { _, err := c.Chat(ctx, id); return err }, "GET " + chat + " "},
		"a change": {func(ctx context.Context, c *Client) error {
			_, err := c.Change(ctx, id, map[string]any{"revive": true})
			return err
		}, "PATCH " + chat + ` {"revive":true}`},
		"delete":     {func(ctx context.Context, c *Client) error { return c.Delete(ctx, id) }, "DELETE " + chat + " "},
		"clear":      {func(ctx context.Context, c *Client) error { _, err := c.Clear(ctx, id); return err }, "POST " + chat + "/clear "},
		"cancel":     {func(ctx context.Context, c *Client) error { return c.Cancel(ctx, id) }, "POST /v1/message/" + chatID + "/cancel "},
		"the end":    {func(ctx context.Context, c *Client) error { _, err := c.Messages(ctx, id, 50); return err }, "GET " + chat + "/messages?limit=50 "},
		"the memory": {func(ctx context.Context, c *Client) error { _, err := c.Memory(ctx, id); return err }, "GET " + chat + "/memory "},
		"a search":   {func(ctx context.Context, c *Client) error { _, err := c.Search(ctx, `"ü" -x`, 3); return err }, "GET /v1/search?limit=3&q=%22%C3%BC%22+-x "},
		"prune": {func(ctx context.Context, c *Client) error { _, err := c.Prune(ctx, 30, true); return err },
			`POST /v1/chats/prune {"dry_run":true,"older_than_days":30}`},
		"export": {func(ctx context.Context, c *Client) error { return c.Export(ctx, id, "json", io.Discard) }, "GET " + chat + "/export?format=json "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serve(t, func(http.ResponseWriter, *http.Request) {}, refuses(http.StatusNotFound, "chat_not_found"))
			if err := test.call(t.Context(), c.Client); err != nil {
				t.Error(err)
			}
			asked := c.requests()[0]
			body, _ := io.ReadAll(asked.Body)
			if got := asked.Method + " " + asked.URL.String() + " " + string(body); got != test.want {
				t.Errorf("asked %s, want %s", got, test.want)
			}
			if err := test.call(t.Context(), c.Client); !IsCode(err, "chat_not_found") {
				t.Errorf("refused, it says %v", err)
			}
		})
	}
}

func TestCallTellsWhatWentWrong(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "{")
	}, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"title": 7}`) })
	for _, want := range []string{"the answer broke off", "cannot unmarshal"} {
		if _, err := c.Chat(t.Context(), uuid.New()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, not %s", err, want)
		}
	}
	if _, err := c.Change(t.Context(), uuid.New(), map[string]any{"title": func() {}}); err == nil || !strings.Contains(err.Error(), "encode the request") {
		t.Errorf("%v", err)
	}
}
