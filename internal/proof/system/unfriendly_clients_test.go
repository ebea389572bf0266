package system

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// A sample of internal/auth's attacks, over HTTP and on several routes. All are answered with the same bytes, so that
// the answer does not reveal which check failed.
func TestForgedTokensAreAnsweredAlike(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	claims := jwt.MapClaims{"sub": r.user.String(), "aud": "authenticated", "role": "authenticated", "exp": time.Now().Add(time.Hour).Unix()}
	signed := func(method jwt.SigningMethod, key any, change func(token *jwt.Token, claims jwt.MapClaims)) string {
		body := maps.Clone(claims)
		token := jwt.NewWithClaims(method, body)
		if change != nil {
			change(token, body)
		}
		text, err := token.SignedString(key)
		require.NoError(t, err)
		return text
	}
	secret := []byte(testkit.JWTSecret)
	with := func(name string, value any) string {
		return signed(jwt.SigningMethodHS256, secret, func(_ *jwt.Token, body jwt.MapClaims) { body[name] = value })
	}
	good := signed(jwt.SigningMethodHS256, secret, nil)
	got := r.Call(http.MethodGet, "/v1/chats", nil, "Authorization", "Bearer "+good)
	require.Truef(t, got.Status == http.StatusOK, "the good token: %d %s", got.Status, got.Text)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	parts := strings.Split(good, ".")
	attacks := map[string]string{
		"none":         base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + parts[1] + ".",
		"wrong secret": signed(jwt.SigningMethodHS256, []byte("another"), nil),
		"HS512":        signed(jwt.SigningMethodHS512, secret, nil),
		"ES256":        signed(jwt.SigningMethodES256, key, nil),
		"jku":          signed(jwt.SigningMethodHS256, secret, func(token *jwt.Token, _ jwt.MapClaims) { token.Header["jku"] = "http://127.0.0.1:1/" }),
		"service_role": with("role", "service_role"),
		"audience":     with("aud", "somebody"),
		"sub":          with("sub", "me"),
		"no exp":       with("exp", nil),
		"cut":          good[:len(good)-3],
		"17 kB":        good + strings.Repeat("A", 17_000),
		"a secret key": "sb_secret_abcdefghijklmnopqrstuv_12345678",
		"two tokens":   good + ", Bearer " + good,
	}
	first := ""
	for name, token := range attacks {
		for _, route := range [][2]string{{"GET", "/v1/chats"}, {"POST", "/v1/message/first"}, {"POST", "/mcp"}} {
			got := r.Call(route[0], route[1], testkit.Body{"content": "x"}, "Authorization", "Bearer "+token)
			if got.Status != http.StatusUnauthorized || got.Code() != "bad_jwt" ||
				!strings.HasPrefix(got.Header.Get("WWW-Authenticate"), `Bearer error="invalid_token", error_description="`) {
				t.Errorf("%s, %s: %d %s", name, route[1], got.Status, got.Text)
			}
			if first == "" {
				first = got.Text
			}
			if got.Text != first {
				t.Errorf("%s, %s: answered %s, others %s", name, route[1], got.Text, first)
			}
		}
	}
	got = r.Call(http.MethodGet, "/v1/chats", nil, "Authorization", "Bearer "+with("exp", 1))
	assert.Truef(t, got.Status == http.StatusUnauthorized && got.Code() == "session_expired",
		"expired: %d %s", got.Status, got.Text)
}

// One user sends fifty times as fast as allowed, and keeps all of their streams open, some unread. Another user's
// messages are answered as usual.
func TestGreedyUserHindersNobody(t *testing.T) {
	t.Parallel()
	const perMinute, streams, modest = 10, 4, 8
	gate := make(chan struct{})
	hold := strings.Repeat("a long reply that nobody reads ", 1<<13)
	r := newRig(t, func(request *offline.Request) offline.Answer {
		if request.Kind == offline.KindReply && strings.Contains(request.Current, "Hold.") {
			return offline.Answer{Text: hold, Gate: gate, GateAfter: 500}
		}
		return offline.Answer{}
	}, env{"RATE_LIMIT_MESSAGES_PER_MINUTE": strconv.Itoa(perMinute), "MAX_STREAMS_PER_USER": strconv.Itoa(streams)})
	greedy := testkit.Client{T: t, Base: r.Base, Token: testkit.Token(t, testkit.NewUser(t, r.db))}
	for range streams {
		greedy.Send("", testkit.Body{"content": "Hold."}).Until(func(e testkit.Event) bool { return e.Name == testkit.Delta })
	}
	// Fifty times what a minute allows, all of it while the other user speaks.
	var accepted, refused atomic.Int32
	var flood sync.WaitGroup
	for range 4 {
		flood.Go(func() {
			for range 50 * perMinute / 4 {
				switch got, err := greedy.TryCall(http.MethodPost, "/v1/message/first", testkit.Body{"content": "Me!"}); {
				case err != nil:
					t.Error(err)
				case got.Status == http.StatusTooManyRequests && got.Code() == "over_request_rate_limit" && got.Header.Get("Retry-After") != "":
					refused.Add(1)
				default:
					accepted.Add(1)
				}
			}
		})
	}
	chatID := r.Say("", "Hello.").ChatID
	for range modest - 1 {
		assert.True(t, r.Say(chatID, "And then?").Text != "", "an empty reply")
	}
	flood.Wait()
	if accepted.Load() != 0 || refused.Load() == 0 {
		t.Errorf("the greedy user has all their streams open; %d more were accepted, %d refused", accepted.Load(), refused.Load())
	}
	n := r.count("select count(*) from messages where role = 'user' and user_id <> $1", r.user)
	assert.Truef(t, n == streams, "%d messages of the greedy user are stored, want %d", n, streams)
	close(gate)
}
