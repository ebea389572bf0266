package httpapi

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
)

const callPath = "/v1/messages/" + exampleReply + "/calls/call_1"

// calls stands in front of the chat service: a call is answered, or is not, as the test says, and the reply to the answer is that to "a".
type calls struct {
	Chat

	fails error
	token string
	taken []chat.CallAnswer
}

func (s *calls) AnswerCall(ctx context.Context, user auth.Principal, answer chat.CallAnswer) (*chat.Reply, error) {
	s.token, s.taken = user.Token, append(s.taken, answer)
	if s.fails != nil {
		return nil, s.fails
	}
	return s.Send(ctx, user, chat.Message{Content: "a"})
}

func (s *calls) ClaimCall(_ context.Context, _ auth.Principal, claim chat.CallAnswer) (time.Time, error) {
	s.taken = append(s.taken, claim)
	return time.Date(2026, 11, 27, 8, 1, 0, 0, time.FixedZone("CET", 3600)), s.fails
}

// newCalls is a harness whose calls are answered by the returned stand-in.
func newCalls(t *testing.T, change ...func(*Config)) (*harness, *calls) {
	service := &calls{}
	return newHarness(t, says("Nice."), append(change, func(c *Config) { service.Chat, c.Chat = c.Chat, service })...), service
}

// answeredWith is the route for answers where the service refuses, with an error of these details.
func answeredWith(refusal *fault.Error, details ...string) func(*testing.T, keeper) answered {
	return func(t *testing.T, _ keeper) answered {
		h, service := newCalls(t)
		service.fails = refusal
		answer := h.call(post, callPath, `{"output": 1}`)
		for _, name := range details {
			assert.Contains(t, answer.error(t).Details, name)
		}
		return answer
	}
}

func TestCallIsAnswered(t *testing.T) {
	t.Parallel()
	h, service := newCalls(t)
	device, bearer := uuid.MustParse(someID), token(h.user)
	yes, no, why := true, false, "No camera."
	for _, c := range []struct {
		body string
		want chat.CallAnswer
	}{
		{`{"output": {"b": [1.50, "<é>"], "a": 12345678901234567}}`, chat.CallAnswer{Output: []byte(`{"a":12345678901234567,"b":[1.50,"<é>"]}`)}},
		{`{"output": null}`, chat.CallAnswer{Output: []byte(`null`)}},
		{`{"output": "half \ud800", "claim": "` + someID + `"}`, chat.CallAnswer{Output: []byte(`"half ` + "\uFFFD" + `"`), Claim: device}},
		{`{"error": "No camera.", "approved": null}`, chat.CallAnswer{Error: &why}},
		{`{"approved": true}`, chat.CallAnswer{Approved: &yes}},
		{`{"approved": false, "reason": "Too dear."}`, chat.CallAnswer{Approved: &no, Reason: "Too dear."}},
	} {
		c.want.MessageID, c.want.CallID = uuid.MustParse(exampleReply), "call_1"
		service.taken = nil
		events := h.call(post, callPath, c.body, "Authorization", bearer).events(t)
		assert.Equal(t, "Nice.", spoken(events), c.body)
		assert.Equal(t, []chat.CallAnswer{c.want}, service.taken, c.body)
	}
	assert.Equal(t, strings.TrimPrefix(bearer, "Bearer "), service.token, "the token of whoever answers")
	whole := h.call(post, callPath, `{"output": 1}`, "Accept", "application/json")
	assert.Contains(t, string(whole.body), `"content":"Nice."`)
	ui := h.call(post, callPath+"?protocol=ui", `{"output": 1}`)
	assert.Contains(t, string(ui.body), `"type":"text-delta"`)
	assert.Equal(t, 400, h.call(post, callPath+"?protocol=x", `{"output": 1}`).status)
}

func TestCallIsClaimed(t *testing.T) {
	t.Parallel()
	h, service := newCalls(t)
	answer := h.call(post, callPath, `{"claim": "`+someID+`"}`)
	require.Equal(t, http.StatusOK, answer.status)
	assert.JSONEq(t, `{"call_id": "call_1", "claimed_until": "2026-11-27T07:01:00Z"}`, string(answer.body))
	assert.Equal(t, []chat.CallAnswer{{MessageID: uuid.MustParse(exampleReply), CallID: "call_1", Claim: uuid.MustParse(someID)}}, service.taken)
	service.fails = fault.NoCall()
	assert.Equal(t, http.StatusNotFound, h.call(post, callPath, `{"claim": "`+someID+`"}`).status)
}

func TestAnswersToCallsAreRefused(t *testing.T) {
	t.Parallel()
	h, service := newCalls(t)
	for body, field := range map[string]string{
		`{}`:                                                "output",
		`{"reason": "x"}`:                                   "output",
		`{"error": "x", "output": 1}`:                       "output",
		`{"output": null, "approved": true}`:                "output",
		`{"error": "x", "approved": true}`:                  "error",
		`{"error": "x", "reason": "x"}`:                     "reason",
		`{"output": "\u0000"}`:                              "output",
		`{"output": 1e999}`:                                 "output",
		`{"output": 1, "claim": "x"}`:                       "claim",
		`{"claim": "00000000-0000-0000-0000-000000000000"}`: "claim",
		`{"error": "` + strings.Repeat("é", 2001) + `"}`:    "error",
		`{"approved": false, "reason": "` + strings.Repeat("é", 2001) + `"}`:    "reason",
		`{"output": "` + strings.Repeat("a", chat.MaxOutput-1) + `"}`:           "output",
		`{"output": ` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`: "output",
	} {
		refused := h.call(post, callPath, body)
		assert.Equalf(t, http.StatusUnprocessableEntity, refused.status, "%.60s: %s", body, refused.body)
		assert.Containsf(t, refused.error(t).Details, field, "%.60s", body)
	}
	assert.Empty(t, service.taken)
	assert.Equal(t, 200, h.call(post, callPath, `{"output": "`+strings.Repeat("a", chat.MaxOutput-2)+`"}`).status, "as long as may be")
}

func TestAnswersToCallsAreMessagesToTheLimit(t *testing.T) {
	t.Parallel()
	h, _ := newCalls(t, func(c *Config) { c.MessagesPerMinute = 1 })
	assert.Equal(t, 200, h.call(post, callPath, `{"output": 1}`).status)
	assert.Equal(t, 429, h.call(post, callPath, `{"output": 1}`).status)
}

func TestToolsOfAMessage(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"))
	for body, want := range map[string]string{
		`"tools": [{"type": "function", "name": "photo", "parameters": {"type": "object"}, "description": null, "strict": null}]`: "",
		`"tools": null, "tool_choice": null`:                              "",
		`"tools": [], "tool_choice": "none"`:                              "",
		`"tools": {}`:                                                     "tools",
		`"tools": ["photo"]`:                                              "tools[0]",
		`"tools": [{"name": "photo"}]`:                                    "tools[0].type",
		`"tools": [{"type": "function", "name": 1}]`:                      "tools[0].name",
		`"tools": [{"type": "function", "name": "f", "strict": "yes"}]`:   "tools[0].strict",
		`"tools": [{"type": "function", "name": "f", "parameters": "x"}]`: "tools[0].parameters",
		`"tool_choice": "always"`:                                         "tool_choice",
	} {
		answer := h.call(post, firstPath, `{"content": "a", `+body+`}`)
		if want == "" {
			assert.Equal(t, http.StatusOK, answer.status, body)
			continue
		}
		assert.Equal(t, http.StatusUnprocessableEntity, answer.status, body)
		assert.Contains(t, answer.error(t).Details, want, body)
	}
	unknown := h.call(post, firstPath, `{"content": "a", "tools": [{"type": "function", "name": "f", "url": "x"}]}`)
	assert.Equal(t, []any{"tools[0].url"}, unknown.error(t).Details["unknown_fields"])
}
