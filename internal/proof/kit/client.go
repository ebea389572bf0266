package kit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
)

// Secret signs the users' access tokens. It protects nothing.
const Secret = "the secret of a measurement, which protects nothing at all"

// tokenLife is longer than any run.
const tokenLife = 7 * 24 * time.Hour

// Token returns an access token of a user.
func Token(user uuid.UUID) (string, error) {
	return auth.Mint([]byte(Secret), user, "", tokenLife, time.Now())
}

// NewUser stores a user and returns the id and an access token.
func NewUser(ctx context.Context, database Execer) (id uuid.UUID, token string, err error) {
	id = uuid.New()
	_, err = database.Exec(ctx, "insert into auth.users (id, aud, role, created_at, updated_at) values ($1, 'authenticated', 'authenticated', now(), now())", id)
	if err != nil {
		return id, "", fmt.Errorf("make a user: %w", err)
	}
	token, err = Token(id)
	return id, token, err
}

// Client sends a user's requests. It returns every answer as it came: it retries nothing and follows no reply,
// because what happens on a broken connection is what its callers are about.
type Client struct {
	HTTP  *http.Client
	Token string
}

// Do sends a request with a body of JSON, nil for none, and a cursor, "" for none. The caller closes the answer's body.
func (c Client) Do(ctx context.Context, method, url string, body []byte, lastEventID string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+c.Token)
	request.Header.Set("Content-Type", "application/json")
	if lastEventID != "" {
		request.Header.Set("Last-Event-ID", lastEventID)
	}
	return c.HTTP.Do(request)
}

// CodeOf reads the code of a refusal; "" where there is none, or the answer broke off.
func CodeOf(body io.Reader) string {
	var refusal struct{ Code string }
	const most = 1 << 16
	if json.NewDecoder(io.LimitReader(body, most)).Decode(&refusal) != nil {
		return ""
	}
	return refusal.Code
}

// Get returns the body of a URL. Every answer but 200 is an error.
func Get(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", request.URL.Path, response.Status)
	}
	return io.ReadAll(response.Body)
}

// Serve serves a handler on a free port of loopback and returns its base URL. Idle connections are closed after a
// time, 0 for never. The caller calls stop.
func Serve(ctx context.Context, handler http.Handler, idle time.Duration) (base string, stop func(), err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: idle}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // ends when it is closed
	}()
	return "http://" + listener.Addr().String(), func() {
		_ = server.Close()
		<-done
	}, nil
}
