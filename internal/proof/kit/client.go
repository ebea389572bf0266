package kit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
)

// Secret signs the users' access tokens. It protects nothing.
const Secret = "the secret of a measurement, which protects nothing at all"

// Token returns an access token of a user.
func Token(user uuid.UUID) (string, error) {
	const longerThanAnyRun = 7 * 24 * time.Hour
	return auth.Mint([]byte(Secret), user, "", longerThanAnyRun, time.Now())
}

// NewUser stores a user and returns the id and an access token.
func NewUser(ctx context.Context, database Execer) (id uuid.UUID, token string, err error) {
	id = uuid.New()
	_, err = database.Exec(ctx, `insert into auth.users (id, aud, role, email, created_at, updated_at)
		values ($1, 'authenticated', 'authenticated', $2, now(), now())`, id, id.String()+"@example.com")
	if err != nil {
		return id, "", fmt.Errorf("make a user: %w", err)
	}
	token, err = Token(id)
	return id, token, err
}

// Client sends a user's requests. It returns every answer as it came: it retries nothing and follows no reply,
// because what happens on a broken connection is what its callers are about.
type Client struct {
	HTTP    *http.Client
	Token   string
	Headers map[string]string // of every request, beside the usual ones
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
	for name, value := range c.Headers {
		request.Header.Set(name, value)
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
	response, err := Client{HTTP: client}.Do(ctx, http.MethodGet, url, nil, "")
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", url, response.Status)
	}
	return io.ReadAll(response.Body)
}
