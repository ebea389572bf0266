package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/testkit"
)

const (
	firstPath = "/v1/message/first"
	nextPath  = "/v1/message"
	hello     = `{"content":"hello"}`
)

// refusedRequests are those that any server answers with the code.
var refusedRequests = map[fault.Code]struct {
	method, path, body string
	headers            []string
}{
	fault.BadRequest:           {post, firstPath, `{"content": `, nil},
	fault.BadUUID:              {post, nextPath, `{"chat_id":"nonsense","content":"a"}`, nil},
	fault.NoAuthorization:      {post, firstPath, hello, []string{"Authorization", ""}},
	fault.SessionExpired:       {post, firstPath, hello, []string{"Authorization", tokenAt(uuid.New(), time.Now().Add(-2*time.Hour))}},
	fault.BadJWT:               {post, firstPath, hello, []string{"Authorization", "Bearer nonsense"}},
	fault.ForbiddenOrigin:      {post, pathMCP, "{}", []string{"Origin", "https://evil.example"}},
	fault.NotFound:             {get, "/v2/nothing", "", nil},
	fault.MemoryNotFound:       {get, "/v1/memories/" + exampleChat, "", nil},
	fault.ChatNotFound:         {post, nextPath, nextBody(uuid.New(), "a"), nil},
	fault.BodyTooLarge:         {post, firstPath, bodyOf(maxBody + 1), nil},
	fault.UnsupportedMediaType: {post, firstPath, hello, []string{"Content-Type", "text/plain"}},
	fault.UnknownModelVariant:  {post, firstPath, `{"content":"a","model_variant":"gpt-2"}`, nil},
}

// refusals makes each other code of the contract happen, on a server of its own, or on one that is kept in Postgres.
var refusals = map[fault.Code]func(t *testing.T, k keeper) answered{
	fault.ForbiddenClient: func(_ *testing.T, k keeper) answered {
		return k.call(post, firstPath, hello, "Authorization", k.oauthToken(oauthClient))
	},
	fault.UserNotFound: func(_ *testing.T, k keeper) answered {
		k.user = uuid.New()
		return k.call(post, "/v1/chats", "{}")
	},
	fault.WrongCell: func(t *testing.T, k keeper) answered { return k.departed(t, "moved") },
	fault.Moving:    func(t *testing.T, k keeper) answered { return k.departed(t, "moving") },
	fault.ForbiddenByPolicy: func(t *testing.T, k keeper) answered {
		testkit.Exec(t, k.pool, `create policy no_secrets on chats as restrictive for insert with check (title <> 'secret')`)
		answer := k.call(post, "/v1/chats", `{"title": "secret"}`)
		lines := k.logs.Lines(t, "request failed")
		assert.Truef(t, len(lines) != 0 && lines[0]["level"] == "WARN" && strings.Contains(fmt.Sprint(lines), `"no_secrets"`),
			"the policy is not in the log: %v", lines)
		return answer
	},
	fault.MethodNotAllowed: func(t *testing.T, k keeper) answered {
		answer := k.call(remove, nextPath, "")
		got := answer.header.Get("Allow")
		assert.Containsf(t, got, "POST", "Allow is %q", got)
		return answer
	},
	fault.MessageNotFound: func(_ *testing.T, k keeper) answered {
		return k.call(post, "/v1/message/"+k.store.addEmptyChat(k.user).String()+"/cancel", "")
	},
	fault.GenerationInProgress: func(t *testing.T, _ keeper) answered {
		model := newConductor()
		h := newHarness(t, model)
		model.accept()
		started := h.open(h.request(post, firstPath, hello)).event()
		chatID, _ := started.data["chat_id"].(string)
		answer := h.call(post, nextPath, nextBody(uuid.MustParse(chatID), "more"))
		got := answer.error(t).Details["message_id"]
		assert.Truef(t, got == started.data["message_id"],
			"the running message is %v, told is %v", started.data["message_id"], got)
		return answer
	},
	fault.MessageSuperseded: func(t *testing.T, _ keeper) answered {
		h := newHarness(t, says("x"))
		h.store.fails = fault.Superseded(uuid.New())
		return h.call(post, nextPath, nextBody(uuid.New(), "more"))
	},
	fault.ConversationChanged: func(_ *testing.T, k keeper) answered {
		message := k.talk(k.newChat("").ID, 1)[0]
		testkit.Exec(k.t, k.pool, "update messages set superseded_by = id where id = $1", message)
		return k.call(post, "/v1/messages/"+message.String()+"/select", `{"last_message_id": "`+message.String()+`"}`)
	},
	fault.CallNotFound: answeredWith(fault.NoCall()),
	fault.CallSettled:  answeredWith(fault.Settled("denied"), "status"),
	fault.CallClaimed:  answeredWith(fault.Claimed(time.Now().Add(time.Minute)), "claimed_until"),
	fault.ChatExpired: func(_ *testing.T, k keeper) answered {
		made := k.newChat(`{"ttl_hours": 1}`)
		k.expire(made.ID)
		return k.call(get, "/v1/chats/"+made.ID.String(), "")
	},
	fault.ImportInvalid: func(t *testing.T, k keeper) answered {
		answer := k.call(post, "/v1/chats/import", twoLines+"{}")
		got := answer.error(t).Details["line"]
		assert.Truef(t, got == float64(3), "the line is told as %v", got)
		return answer
	},
	fault.TopicNotFound: func(_ *testing.T, k keeper) answered {
		return k.call(get, "/v1/chats/"+k.newChat("").ID.String()+"/topics/current", "")
	},
	fault.MemoryExists: func(_ *testing.T, k keeper) answered {
		k.remember("Plays the cello.")
		return k.call(patch, k.remember("Plays the viola."), `{"content":"Plays the cello!"}`)
	},
	fault.MemoriesFull: func(t *testing.T, k keeper) answered {
		k.remember("Plays the cello.")
		testkit.Exec(t, k.pool, `insert into memories (user_id, content)
			select $1, 'Has number ' || n from generate_series(2, 10000) n`, k.user)
		return k.call(post, "/v1/memories", `{"content":"Plays the viola."}`)
	},
	fault.MemoryOff: func(t *testing.T, _ keeper) answered {
		h := newHarness(t, says("x"), func(c *Config) { c.Extracts = extractor{fails: api.MemoryOff()} })
		return h.call(post, "/v1/chats/"+exampleChat+"/extract", "")
	},
	fault.RecallOff: func(t *testing.T, _ keeper) answered {
		h := newHarness(t, says("x"), func(c *Config) { c.Recall = noRecall{} })
		return h.call(get, "/v1/recall?q=x", "")
	},
	fault.ValidationFailed: func(t *testing.T, k keeper) answered {
		answer := k.call(post, firstPath, `{"content":" \n"}`)
		_, ok := answer.error(t).Details["content"]
		assert.Truef(t, ok, "details do not name the field: %s", answer.body)
		return answer
	},
	fault.IdempotencyMismatch: func(_ *testing.T, k keeper) answered {
		id := uuid.NewString()
		k.call(post, firstPath, marshal(map[string]any{"content": "a", "client_message_id": id}))
		return k.call(post, firstPath, marshal(map[string]any{"content": "b", "client_message_id": id}))
	},
	fault.OverRequestRateLimit: func(t *testing.T, _ keeper) answered {
		h := newHarness(t, says("x"), func(c *Config) { c.MessagesPerMinute = 1 })
		h.first("one")
		return h.first("two")
	},
	fault.QuotaExceeded: func(t *testing.T, _ keeper) answered {
		h := newHarness(t, says("x"))
		h.store.fails = fault.Quota("ten a day", time.Now().Add(time.Hour))
		answer := h.first("one")
		assert.Contains(t, []string{"3600", "3599"}, answer.header.Get("Retry-After"))
		assert.Equal(t, "ten a day", answer.error(t).Details["reason"])
		assert.NotEmpty(t, answer.error(t).Details["resets_at"])
		return answer
	},
	fault.UpstreamFailed: func(t *testing.T, _ keeper) answered {
		answer := newHarness(t, refuses(errUpstream)).first("a")
		assert.True(t, len(answer.error(t).Details) != 0, "the stored message is not named")
		return answer
	},
	fault.UpstreamTimeout:    func(t *testing.T, _ keeper) answered { return newHarness(t, refuses(errTimeout)).first("a") },
	fault.UpstreamOverloaded: func(t *testing.T, _ keeper) answered { return newHarness(t, refuses(errOverloaded)).first("a") },
	fault.NotReady: func(t *testing.T, _ keeper) answered {
		h := newHarness(t, says("x"), func(c *Config) {
			c.Ready = func(context.Context) (map[string]any, error) {
				return map[string]any{"migrations": "pending"}, errors.New("secret address refused")
			}
		})
		answer := h.call(get, "/readyz", "")
		assert.Truef(t, answer.error(t).Details["migrations"] == "pending" && !strings.Contains(string(answer.body), "secret"),
			"answer is %s", answer.body)
		return answer
	},
	fault.DatabaseUnreachable: notReadyBecause(fault.DatabaseUnreachable),
	fault.MigrationsPending:   notReadyBecause(fault.MigrationsPending),
	fault.RoleNotGranted:      notReadyBecause(fault.RoleNotGranted),
	fault.IssuersDiffer:       notReadyBecause(fault.IssuersDiffer),
	fault.AccountDeletionUnavailable: func(t *testing.T, _ keeper) answered {
		h := newHarness(t, says("x"), func(c *Config) { c.Accounts = keptAccounts{} })
		return h.call(remove, "/v1/account", "")
	},
	fault.SessionNotIsolated: notReadyBecause(fault.SessionNotIsolated),
	fault.ShuttingDown: func(t *testing.T, _ keeper) answered {
		h := newHarness(t, says("x"))
		h.closeChat()
		return h.first("a")
	},
	fault.Interrupted: func(t *testing.T, _ keeper) answered {
		model := newConductor()
		h := newHarness(t, model)
		done := make(chan answered)
		go func() { done <- h.first("a", "Accept", "application/json") }()
		h.waitFor("the call of the model", func() bool { return model.calls.Load() == 1 })
		h.closeChat()
		return <-done
	},
	fault.Internal: func(t *testing.T, _ keeper) answered {
		h := newHarness(t, says("x"))
		h.store.fails = errors.New("secret cause")
		answer := h.first("a", "X-Request-Id", "my-id-1")
		assert.NotContainsf(t, string(answer.body), "secret", "the cause is told: %s", answer.body)
		lines := h.logs.Lines(t, "request failed")
		assert.Truef(t, len(lines) == 1 && lines[0]["request_id"] == "my-id-1" && lines[0]["error"] == "secret cause",
			"the cause is not in the log with the request id: %v", lines)
		return answer
	},
}

// keptAccounts is a server that may not delete logins.
type keptAccounts struct{}

func (keptAccounts) DeleteAccount(context.Context, auth.Principal) error {
	return fault.New(fault.AccountDeletionUnavailable, "No.")
}

// noRecall is a server that indexes no turns.
type noRecall struct{}

func (noRecall) Recall(context.Context, auth.Principal, api.RecallQuery) ([]api.RecallResult, error) {
	return nil, api.NoRecall()
}

// notReadyBecause is /readyz of a server whose check names the cause.
func notReadyBecause(code fault.Code) func(t *testing.T, k keeper) answered {
	return func(t *testing.T, _ keeper) answered {
		h := newHarness(t, says("x"), func(c *Config) {
			c.Ready = func(context.Context) (map[string]any, error) {
				return nil, &fault.Error{Code: code, Message: "Not yet.", Details: map[string]any{"pending": []string{"one"}}}
			}
		})
		answer := h.call(get, "/readyz", "")
		assert.Truef(t, answer.error(t).Details["pending"] != nil, "answer is %s", answer.body)
		return answer
	}
}

func (k keeper) departed(t *testing.T, why string) answered {
	t.Helper()
	testkit.Exec(t, k.pool, "insert into throughline.departed (user_id, why, cell) values ($1, $2, 'c')", k.user, why)
	return k.call(get, "/v1/chats", "")
}

func nextBody(chatID uuid.UUID, content string) string {
	return marshal(map[string]any{"chat_id": chatID, "content": content})
}

// bodyOf is a valid message of exactly that many bytes.
func bodyOf(size int) string {
	const frame = `{"content":"a","metadata":{"x":""}}`
	return strings.Replace(frame, `""`, `"`+strings.Repeat("y", size-len(frame))+`"`, 1)
}

func TestEveryErrorOfTheContract(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	for code, status := range statuses {
		t.Run(string(code), func(t *testing.T) {
			t.Parallel()
			request, happen := refusedRequests[code], refusals[code]
			if request.method != "" {
				happen = func(_ *testing.T, k keeper) answered {
					return k.call(request.method, request.path, request.body, request.headers...)
				}
			}
			require.True(t, happen != nil, "no test makes this error happen")
			answer := happen(t, k.in(t))
			body := answer.error(t)
			assert.Truef(t, answer.status == status && body.Code == string(code) && body.Message != "",
				"answered %d %+v, want %d %s", answer.status, body, status, code)
			checkErrorHeaders(t, answer)
		})
	}
}

func checkErrorHeaders(t *testing.T, answer answered) {
	got := answer.header.Get("WWW-Authenticate")
	assert.Equalf(t, (answer.status == 401), strings.HasPrefix(got, "Bearer"),
		"WWW-Authenticate is %q with %d", got, answer.status)
	wait := answer.header.Get("Retry-After")
	if answer.status != 429 && answer.status != 503 {
		assert.Truef(t, wait == "", "Retry-After is %q with %d", wait, answer.status)
		return
	}
	seconds, err := strconv.Atoi(wait)
	assert.Truef(t, err == nil && seconds >= 1, "Retry-After is %q", wait)
}

func TestRetryAfterIsWholeSecondsUp(t *testing.T) {
	t.Parallel()
	for wait, want := range map[time.Duration]string{0: "5", time.Millisecond: "1", time.Second: "1", 1001 * time.Millisecond: "2", time.Minute: "60"} {
		assert.Equalf(t, want, retryAfter(wait), "%v", wait)
	}
}

// broken is a chat that panics, at once or in the middle of a stream.
type broken struct{ Chat }

func (broken) Send(context.Context, auth.Principal, chat.Message) (*chat.Reply, error) {
	panic("secret state")
}

func TestPanicIsAnInternalError(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"), func(c *Config) { c.Chat = broken{c.Chat}; c.MaxStreamsPerUser = 1 })
	for range 2 { // twice, because a panic must not keep the user's place
		answer := h.first("a")
		require.Truef(t, answer.status == 500 && answer.error(t).Code == "internal" && !strings.Contains(string(answer.body), "secret"),
			"answered %d %s", answer.status, answer.body)
	}
	lines := h.logs.Lines(t, "handler panicked")
	assert.Truef(t, len(lines) == 2 && strings.Contains(lines[0]["stack"].(string), "errors_test.go"),
		"the panic is not logged with its stack: %v", lines)
}

func TestPanicWithinAnAnswerCutsTheConnection(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"), func(c *Config) {
		c.RiverUI = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("the beginning"))
			_ = http.NewResponseController(w).Flush()
			panic("late")
		})
	})
	response, err := h.http.Client().Do(h.request(get, "/river/jobs", ""))
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	if _, err := response.Body.Read(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	if _, err := response.Body.Read(make([]byte, 100)); err == nil || err.Error() == "EOF" {
		t.Errorf("the answer seems complete: %v", err)
	}
}
