package mcptools

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
)

// errRefused means that the server accepts none of the tokens.
var errRefused = errors.New("the server refuses the access token (401): give a valid one with THROUGHLINE_TOKEN or --token-command")

// bearer adds the access token to each request. After a 401 it fetches a new token and tries once more, because a token
// lasts an hour and an editor runs all day.
type bearer struct {
	base  http.RoundTripper
	fetch func(ctx context.Context) (string, error)

	mu    sync.Mutex
	token string
}

// RoundTrip sends the request.
func (b *bearer) RoundTrip(request *http.Request) (*http.Response, error) {
	refused := ""
	for range 2 {
		token, err := b.current(request.Context(), refused)
		if err != nil {
			return nil, err
		}
		if token == refused {
			break
		}
		response, err := b.send(request, token)
		if err != nil || response.StatusCode != http.StatusUnauthorized {
			return response, err
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10)) // so that the connection can be used again
		_ = response.Body.Close()
		refused = token
	}
	return nil, errRefused
}

// current returns the token to use, never the refused one. When several requests are refused at once, only one fetches a
// new token.
func (b *bearer) current(ctx context.Context, refused string) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.token != refused && b.token != "" {
		return b.token, nil
	}
	token, err := b.fetch(ctx)
	if err == nil {
		b.token = token
	}
	return token, err
}

func (b *bearer) send(request *http.Request, token string) (*http.Response, error) {
	again := request.Clone(request.Context())
	if request.GetBody != nil {
		body, err := request.GetBody()
		if err != nil {
			return nil, err
		}
		again.Body = body
	}
	again.Header.Set("Authorization", "Bearer "+token)
	return b.base.RoundTrip(again)
}
