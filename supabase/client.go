package supabase

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/supabase-community/gotrue-go"
	"github.com/supabase-community/gotrue-go/types"
	library "github.com/supabase-community/supabase-go"

	"github.com/arcoscribe/throughline/internal/fault"
)

const (
	// callTimeout limits one call to the auth server, response included.
	callTimeout = 5 * time.Second
	// maxResponseBytes limits a response; even a user with much metadata is far smaller.
	maxResponseBytes = 1 << 20
)

// The errors of a call, besides the end of the caller's context. Compare with errors.Is.
var (
	// ErrInvalidToken: the auth server did not sign the token, or its session no longer exists.
	ErrInvalidToken error = fault.New(fault.BadJWT, "The access token is not valid.")
	// ErrNoUser: the token is valid, but its user was deleted.
	ErrNoUser error = fault.NoUser(nil)
	// ErrExpiredToken: the token is valid except for its age.
	ErrExpiredToken error = fault.New(fault.SessionExpired, "The session has expired; refresh it and try again.")
	// ErrUnreachable: no usable response. The auth server is down, slow or overloaded, or the URL is wrong.
	ErrUnreachable error = &fault.Error{
		Code: fault.NotReady, Message: "The sign-in service does not answer; try again shortly.", RetryAfter: callTimeout,
	}
	// ErrKeyRefused: the API key is wrong or lacks a permission, which is a matter of configuration.
	ErrKeyRefused error = fault.New(fault.Internal, "Something went wrong on our side.")
)

// Client calls a project's auth server. It is safe for concurrent use: supabase-go keeps the token in its
// client and takes no contexts, so each call makes a supabase-go client bound to the call's context.
type Client struct {
	url     string
	key     string
	timeout time.Duration
}

// NewClient returns a client for a project (SUPABASE_URL). The key is publishable or secret.
func NewClient(projectURL, key string) (*Client, error) {
	u, err := url.Parse(projectURL)
	if err != nil {
		return nil, fmt.Errorf("project URL: %w", err)
	}
	if (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" {
		return nil, errors.New("project URL: want http(s)://host")
	}
	if !isKeyOrToken(key) {
		return nil, errors.New("the API key is empty or has characters that no key has")
	}
	return &Client{url: strings.TrimRight(projectURL, "/"), key: key, timeout: callTimeout}, nil
}

// GetUser returns the user of an access token (GET /auth/v1/user). The auth server also refuses the tokens of
// an ended session and of a banned or deleted user. Errors: ErrInvalidToken, ErrNoUser, ErrExpiredToken, ErrUnreachable,
// ErrKeyRefused, or that of ctx as soon as it ends.
func (c *Client) GetUser(ctx context.Context, accessToken string) (uuid.UUID, error) {
	if !isKeyOrToken(accessToken) {
		return uuid.Nil, ErrInvalidToken
	}
	var user *types.UserResponse
	_, err := c.call(ctx, "get user", accessToken, func(auth gotrue.Client) (err error) {
		user, err = auth.GetUser()
		return err
	})
	switch {
	case err != nil:
		return uuid.Nil, err
	case user.ID == uuid.Nil:
		return uuid.Nil, fmt.Errorf("get user: %w: an answer without an id", ErrUnreachable)
	}
	return user.ID, nil
}

// DeleteUser deletes a login (DELETE /auth/v1/admin/users/…); one that is not there counts as deleted. The client's key has to be a
// secret one. Errors: as those of GetUser.
func (c *Client) DeleteUser(ctx context.Context, user uuid.UUID) error {
	received, err := c.call(ctx, "delete user", c.key, func(auth gotrue.Client) error {
		return auth.AdminDeleteUser(types.AdminDeleteUserRequest{UserID: user})
	})
	if err != nil && received.status == http.StatusNotFound && received.byAuthServer() {
		return nil
	}
	return err
}

// call makes one call with a token, within the timeout. Errors begin with doing.
func (c *Client) call(ctx context.Context, doing, token string, do func(gotrue.Client) error) (*transport, error) {
	client, err := library.NewClient(c.url, c.key, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	callCtx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	received := &transport{ctx: callCtx}
	err = do(client.Auth.WithToken(token).WithClient(http.Client{
		Transport: received,
		// A redirect would send the API key to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}))
	switch {
	case err != nil && ctx.Err() != nil:
		err = fmt.Errorf("%s: %w", doing, ctx.Err())
	case err != nil:
		err = fmt.Errorf("%s: %w", doing, received.failure(err))
	}
	return received, err
}

// isKeyOrToken reports whether text is printable ASCII without spaces, as all keys and tokens are.
func isKeyOrToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

// transport sends the request of one call with the call's context, limits the response's size, and keeps the
// parts of it that classify a failure. It is not safe for concurrent use.
type transport struct {
	ctx    context.Context // a field because the library makes its requests without one
	status int             // 0 until there is a response
	// The body of an error response. The auth server sends msg and, since 2024, error_code; the gateway before
	// it sends message instead.
	body struct {
		ErrorCode string `json:"error_code"`
		Msg       string `json:"msg"`
	}
}

func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := http.DefaultTransport.RoundTrip(request.WithContext(t.ctx))
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, response.Body, maxResponseBytes))
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return nil, err
	}
	t.status = response.StatusCode
	_ = json.Unmarshal(body, &t.body) // stays empty if the body is not JSON
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}

// byAuthServer reports whether the auth server itself refused, rather than the gateway or a proxy.
func (t *transport) byAuthServer() bool { return t.body.ErrorCode != "" || t.body.Msg != "" }

// failure returns the error of a call. It wraps cause only if there was no response, because otherwise that
// contains the response's body, which may name the user.
func (t *transport) failure(cause error) error {
	refused := t.status == http.StatusUnauthorized || t.status == http.StatusForbidden
	byAuthServer := t.byAuthServer()
	switch {
	case t.status == 0:
		return fmt.Errorf("%w: %w", ErrUnreachable, cause)
	case refused && !byAuthServer:
		return fmt.Errorf("%w: status %d", ErrKeyRefused, t.status)
	case !byAuthServer || !refused && t.status != http.StatusNotFound:
		return fmt.Errorf("%w: status %d", ErrUnreachable, t.status)
	case t.body.ErrorCode == "user_not_found":
		return ErrNoUser
	// There is no error code for this, only these words of the auth server's JWT library, which checks the
	// signature first.
	case strings.Contains(t.body.Msg, "token is expired"):
		return ErrExpiredToken
	}
	return ErrInvalidToken
}
