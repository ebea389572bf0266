package mcptools

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
)

// errRefused tells that the server accepts no token that there is.
var errRefused = errors.New("the server refuses the access token (401)")

// bearer adds the access token to each request. When the server answers 401 it fetches another one and tries
// once more: a token lasts an hour, an editor all day.
type bearer struct {
	base  http.RoundTripper
	fetch func(ctx context.Context) (string, error)

	mu    sync.Mutex
	token string
}

// RoundTrip sends the request.
func (b *bearer) RoundTrip(request *http.Request) (*http.Response, error) {
	used, err := b.current(request.Context(), "")
	if err != nil {
		return nil, err
	}
	response, err := b.send(request, used)
	if err != nil || response.StatusCode != http.StatusUnauthorized {
		return response, err
	}
	discard(response)
	fresh, err := b.current(request.Context(), used)
	if err != nil {
		return nil, err
	}
	if fresh == used {
		return nil, errRefused
	}
	response, err = b.send(request, fresh)
	if err == nil && response.StatusCode == http.StatusUnauthorized {
		discard(response)
		return nil, errRefused
	}
	return response, err
}

// current is the token to use, another one than the refused. Of several calls that are refused at once one
// fetches it and the others take it.
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

func discard(response *http.Response) {
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10)) // so that the connection can be used again
	_ = response.Body.Close()
}
