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
	gotrue "github.com/supabase-community/gotrue-go"
	"github.com/supabase-community/gotrue-go/types"
	library "github.com/supabase-community/supabase-go"

	"github.com/arcoscribe/throughline/internal/fault"
)

const (
	// callTimeout bounds one call to the auth server, answer included.
	callTimeout = 5 * time.Second
	// maxAnswerBytes bounds what is read of an answer; a user with much metadata stays far below.
	maxAnswerBytes = 1 << 20
)

// What a call can end with besides success and the end of the caller's context. Errors wrap these;
// compare with errors.Is.
var (
	// ErrInvalidToken says that the auth server knows the token's session or user no more, or never
	// signed it.
	ErrInvalidToken error = fault.New(fault.BadJWT, "The access token is not valid.")
	// ErrExpiredToken says that the token's only fault is its age.
	ErrExpiredToken error = fault.New(fault.SessionExpired, "The session has expired; refresh it and try again.")
	// ErrUnreachable says that the auth server gave no usable answer: down, too slow, overloaded, or
	// not an auth server at all.
	ErrUnreachable error = &fault.Error{
		Code: fault.NotReady, Message: "The sign-in service does not answer; try again shortly.", RetryAfter: callTimeout,
	}
	// ErrKeyRefused says that the project's gateway does not take our API key, or that the key may
	// not do this: a matter of configuration, not of the user.
	ErrKeyRefused error = fault.New(fault.Internal, "Something went wrong on our side.")
)

// Client asks a project's auth server. It is safe for concurrent use: supabase-go keeps the current
// user's token in its client and knows no contexts, so each call here gets a client of its own,
// whose requests are bound to the call's context.
type Client struct {
	url     string
	key     string
	timeout time.Duration
}

// NewClient makes a client for a project (SUPABASE_URL). The key is a publishable or a secret one;
// DeleteUser needs the secret one.
func NewClient(projectURL, key string) (*Client, error) {
	u, err := url.Parse(projectURL)
	if err != nil {
		return nil, fmt.Errorf("project URL: %w", err)
	}
	if (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" {
		return nil, errors.New("project URL: want http(s)://host")
	}
	if !fitsHeader(key) {
		return nil, errors.New("the API key is empty or has characters that no key has")
	}
	return &Client{url: strings.TrimRight(projectURL, "/"), key: key, timeout: callTimeout}, nil
}

// GetUser tells whose access token this is (GET /auth/v1/user). It checks more than a signature: an
// ended session and a banned or deleted user are refused. Errors: ErrInvalidToken, ErrExpiredToken,
// ErrUnreachable, ErrKeyRefused, or ctx's own, at once when ctx ends.
func (c *Client) GetUser(ctx context.Context, accessToken string) (uuid.UUID, error) {
	if !fitsHeader(accessToken) {
		return uuid.Nil, ErrInvalidToken
	}
	var user *types.UserResponse
	said, err := c.call(ctx, accessToken, func(auth gotrue.Client) (err error) {
		user, err = auth.GetUser()
		return err
	})
	if err != nil {
		return uuid.Nil, fmt.Errorf("get user: %w", said.aboutToken(ctx, err))
	}
	if user.ID == uuid.Nil {
		return uuid.Nil, fmt.Errorf("get user: %w: an answer without an id", ErrUnreachable)
	}
	return user.ID, nil
}

// DeleteUser removes an account for good (DELETE /auth/v1/admin/users/:id); the rows of the user
// follow by cascade. A user who does not exist is deleted already: no error. Errors:
// ErrUnreachable, ErrKeyRefused, or ctx's own. After ErrUnreachable the account may be gone or not;
// calling again is safe.
func (c *Client) DeleteUser(ctx context.Context, id uuid.UUID) error {
	if id == uuid.Nil {
		return errors.New("delete user: the nil uuid is nobody")
	}
	said, err := c.call(ctx, c.key, func(auth gotrue.Client) error {
		return auth.AdminDeleteUser(types.AdminDeleteUserRequest{UserID: id})
	})
	if err == nil || said.noSuchUser() {
		return nil
	}
	return fmt.Errorf("delete user: %w", said.aboutKey(ctx, err))
}

// call runs one request of the library as bearer, and tells what was said on the wire, because the
// library's errors are text.
func (c *Client) call(ctx context.Context, bearer string, run func(gotrue.Client) error) (*exchange, error) {
	bound, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	own, err := library.NewClient(c.url, c.key, nil)
	if err != nil {
		return &exchange{}, err
	}
	said := &exchange{ctx: bound}
	err = run(own.Auth.WithToken(bearer).WithClient(http.Client{
		Transport: said,
		// A redirect would carry the API key to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}))
	return said, err
}

// fitsHeader tells whether a key or token is printable ASCII without blanks, as all of them are.
func fitsHeader(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

// exchange is one request and its answer. As the transport of a single call it binds the library's
// request to the call's context, bounds the answer and keeps what failures are told apart by. Not
// safe for concurrent use.
type exchange struct {
	// ctx is the call's: the library makes its requests without one, so it has to travel here.
	ctx    context.Context
	status int // 0 while nothing was answered
	said   refusal
}

// refusal is the body of a failed answer. The auth server writes msg and, since 2024, error_code;
// the gateway before it writes message.
type refusal struct {
	ErrorCode string `json:"error_code"`
	Msg       string `json:"msg"`
}

var _ http.RoundTripper = (*exchange)(nil)

// RoundTrip sends the request; see exchange.
func (e *exchange) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := http.DefaultTransport.RoundTrip(request.WithContext(e.ctx))
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes+1))
	if closing := response.Body.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return nil, err
	}
	if len(body) > maxAnswerBytes {
		return nil, fmt.Errorf("the answer is over %d bytes", maxAnswerBytes)
	}
	e.status = response.StatusCode
	// A body that is no JSON leaves said empty, which is what is to be known about it.
	_ = json.Unmarshal(body, &e.said)
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}

// byAuthServer tells an answer of the auth server from one of the gateway or of a proxy.
func (e *exchange) byAuthServer() bool { return e.said.ErrorCode != "" || e.said.Msg != "" }

func (e *exchange) noSuchUser() bool {
	return e.status == http.StatusNotFound &&
		(e.said.ErrorCode == "user_not_found" || strings.EqualFold(e.said.Msg, "User not found"))
}

// aboutToken names the failure of a call made with a user's token. The cause is not kept: it holds
// the body, which may name the user.
func (e *exchange) aboutToken(ctx context.Context, cause error) error {
	switch e.status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		if !e.byAuthServer() {
			break
		}
		// The auth server checks the signature first, so a token it calls expired is its own. There is
		// no code for it, only these words of its JWT library.
		if strings.Contains(e.said.Msg, "token is expired") {
			return ErrExpiredToken
		}
		return ErrInvalidToken
	}
	return e.aboutKey(ctx, cause)
}

// aboutKey names the failure of a call made with our own key.
func (e *exchange) aboutKey(ctx context.Context, cause error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case e.status == http.StatusUnauthorized, e.status == http.StatusForbidden:
		return fmt.Errorf("%w: status %d", ErrKeyRefused, e.status)
	case e.status != 0:
		return fmt.Errorf("%w: status %d", ErrUnreachable, e.status)
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, cause)
}
