package llm

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
)

// asking is the question of most tests.
func asking() work.Question {
	return work.Question{
		Purpose: "entities", Model: "gpt-5.6-luna", Instructions: "Name them.", Input: "I play the cello.", SchemaName: "named",
		Schema: map[string]any{
			"type": "object", "additionalProperties": false, "required": []string{"names"},
			"properties": map[string]any{"names": map[string]any{"type": "array", "items": map[string]any{"type": "string"}}},
		},
		CacheKey: chatID, UserID: userID,
	}
}

const namedCello = `{"names":["cello"]}`

// The id of a user is not for the provider: a question of no chat is keyed as the user is named.
func TestAskKeysTheCacheWithoutTheUsersID(t *testing.T) {
	t.Parallel()
	for _, key := range []uuid.UUID{uuid.Nil, userID} {
		server := model(t, always(offline.Answer{Text: namedCello}))
		question := asking()
		question.CacheKey = key
		_, err := client(t, server.BaseURL(), 0).Ask(t.Context(), question)
		require.NoError(t, err)
		body := bodyOf(t, server)
		sent, err := json.Marshal(body)
		assert.Truef(t, err == nil && body["prompt_cache_key"] == safetyIdentifier(userID) && !strings.Contains(string(sent), userID.String()),
			"sent %s, %v", sent, err)
	}
}

// choosy is a server that refuses forms of answers with this body. It passes on the form and the instructions of each call.
func choosy(t *testing.T, status int, body string, forms ...string) (url string, calls <-chan [2]string) {
	sent := make(chan [2]string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call struct {
			Instructions string
			Text         struct{ Format struct{ Type string } }
		}
		_ = json.NewDecoder(r.Body).Decode(&call)
		form := call.Text.Format.Type
		sent <- [2]string{form, call.Instructions}
		if slices.Contains(forms, form) {
			answers(status, "application/json", body)(w, r)
			return
		}
		const fenced = "```json\\n{\\\"names\\\":[\\\"cello\\\"]}\\n```"
		answers(http.StatusOK, "application/json", `{"status":"completed","model":"m","output":[{"type":"message","content":[
			{"type":"output_text","text":"`+fenced+`"}]}]}`)(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, sent
}

// A server that refuses schemas is asked in JSON mode, and one that refuses that in words alone, then and from then on.
func TestFormsThatTheServerRefuses(t *testing.T) {
	t.Parallel()
	const byParam = `{"error":{"message":"Unsupported.","param":"text.format.type"}}`
	for name, c := range map[string]struct {
		status int
		body   string
		forms  []string
		calls  []string // of two questions
	}{
		"none":    {400, byParam, nil, []string{"json_schema", "json_schema"}},
		"schemas": {400, byParam, []string{"json_schema"}, []string{"json_schema", "json_object", "json_object"}},
		"schemas, by the sentence": {
			422, `{"error":{"message":"response_format json_schema is not supported"}}`, []string{"json_schema"}, []string{"json_schema", "json_object", "json_object"},
		},
		"all": {400, byParam, []string{"json_schema", "json_object"}, []string{"json_schema", "json_object", "", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, calls := choosy(t, c.status, c.body, c.forms...)
			logs := &testkit.Log{}
			asked := New(Settings{BaseURL: url, IdleTimeout: time.Minute, Logger: logs.Logger()})
			t.Cleanup(asked.Close)
			for range 2 {
				got, err := asked.Ask(t.Context(), asking())
				require.Truef(t, err == nil && got.Text == namedCello, "%+v, %v", got, err)
			}
			for _, want := range c.calls {
				got := <-calls
				shown := strings.Contains(got[1], "JSON") && strings.Contains(got[1], `"names"`)
				assert.Truef(t, got[0] == want && shown == (want != "json_schema"), "asked for %q with the instructions %q, want %q", got[0], got[1], want)
			}
			const told = "the model's server refuses the form of an answer, which the instructions describe from now on"
			lines := len(logs.Lines(t, told))
			assert.Truef(t, lines == min(1, len(c.forms)) && len(calls) == 0, "%d lines are logged, %d calls too many", lines, len(calls))
		})
	}
}

// A fault of the question or the answer is told from a model that is away.
func TestAnswersThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		answer offline.Answer
		want   fault.Code
		broken bool
	}{
		{"empty", offline.Answer{Fault: offline.FaultEmpty}, fault.UpstreamFailed, true},
		{"incomplete", offline.Answer{Text: fourWords, Fault: offline.FaultIncomplete, FaultAfter: 2}, fault.UpstreamFailed, true},
		{"500", offline.Answer{Fault: offline.Fault500, RetryAfter: "0.01"}, fault.UpstreamFailed, true},
		{"503", offline.Answer{Fault: offline.Fault503, RetryAfter: "0.01"}, fault.UpstreamOverloaded, false},
		{"hang", offline.Answer{Fault: offline.FaultHang}, fault.UpstreamTimeout, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := model(t, always(c.answer))
			ctx, cancel := context.WithCancel(t.Context())
			if c.want == fault.UpstreamTimeout {
				ctx, cancel = context.WithTimeout(ctx, 300*time.Millisecond)
			}
			defer cancel()
			got, err := client(t, server.BaseURL(), 0).Ask(ctx, asking())
			wantFault(t, err, c.want)
			assert.Truef(t, got == (work.Answer{}) && errors.Is(err, work.ErrBroken) == c.broken, "%+v, %v", got, err)
			assert.NotContainsf(t, err.Error(), "cello", "the error quotes the question: %v", err)
		})
	}
	for status, broken := range map[int]bool{400: true, 413: true, 404: false, 403: false} {
		const refusal = `{"error":{"message":"Too long: I play the cello.","param":"input","code":"context_length_exceeded"}}`
		server := serve(t, answers(status, "application/json", refusal))
		_, err := client(t, server.url, 0).Ask(t.Context(), asking())
		assert.Truef(t, errors.Is(err, work.ErrBroken) == broken && fault.CodeOf(err) == fault.UpstreamFailed && !strings.Contains(err.Error(), "cello"),
			"%d: %v", status, err)
	}
	refusal := serve(t, answers(http.StatusOK, "application/json",
		`{"status":"completed","output":[{"type":"message","content":[{"type":"refusal","refusal":"no"}]}]}`))
	_, err := client(t, refusal.url, 0).Ask(t.Context(), asking())
	assert.ErrorIsf(t, err, work.ErrBroken, "a refusal: %v", err)
}

// The cost of a call is recorded, also where its answer is of no use. A broken call is estimated, a refused one is free.
func TestCallsAreRecorded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    []work.Spent
	}{
		"answered": {answers(http.StatusOK, "application/json", `{"status":"completed","model":"m-1","output":[],
			"usage":{"input_tokens":90,"input_tokens_details":{"cached_tokens":64},"output_tokens":7}}`),
			[]work.Spent{{Purpose: "entities", Model: "m-1", UserID: userID, ChatID: chatID, InputTokens: 90, CachedTokens: 64, OutputTokens: 7}}},
		"refused": {answers(http.StatusUnauthorized, "application/json", `{"error":{"code":"invalid_api_key"}}`), nil},
		"late": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			[]work.Spent{{Purpose: "entities", Model: "gpt-5.6-luna", UserID: userID, ChatID: chatID, InputTokens: 8, Estimated: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var kept meter
			asked := New(Settings{BaseURL: serve(t, c.handler).url, IdleTimeout: time.Minute, Meter: &kept})
			t.Cleanup(asked.Close)
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // the others have to be answered within it
			defer cancel()
			_, err := asked.Ask(ctx, asking())
			assert.Error(t, err, "there was an answer")
			assert.Truef(t, slices.Equal(kept.spent, c.want), "%+v, not %+v", kept.spent, c.want)
		})
	}
}

// A call that the app denies is not made, and says until when. Folds are made all the same, and so is what is for no user.
func TestDeniedCallsAreNotMade(t *testing.T) {
	t.Parallel()
	server := serve(t, answers(http.StatusUnauthorized, "application/json", `{"error":{"code":"invalid_api_key"}}`))
	settings := Settings{BaseURL: server.url, IdleTimeout: time.Minute, Meter: &meter{denies: &work.DeniedError{
		Until: time.Now().Add(time.Hour), Err: fault.Quota("day", time.Now().Add(time.Hour)),
	}}}
	c, e := New(settings), NewEmbedder(settings, "m")
	t.Cleanup(c.Close)
	t.Cleanup(e.Close)
	summary := func(kind brief.Kind) error {
		_, err := c.Summarize(t.Context(), brief.Call{Model: "m", Input: "x", Kind: kind, ChatID: chatID, UserID: userID})
		return err
	}
	_, asked := c.Ask(t.Context(), asking())
	_, wrote := c.Write(t.Context(), asking())
	_, embedded := e.Embed(t.Context(), recall.For{UserID: userID}, []string{"Where is it?"})
	for _, err := range []error{asked, wrote, embedded, summary(brief.KindTopic)} {
		denied, ok := errors.AsType[*work.DeniedError](err)
		require.Truef(t, ok && fault.CodeOf(err) == fault.QuotaExceeded, "%v", err)
		assert.Greater(t, time.Until(denied.Until), 50*time.Minute)
	}
	assert.Zero(t, server.asked.Load(), "calls")
	_, err := e.Embed(t.Context(), recall.For{}, []string{"Where is it?"})
	for _, err := range []error{err, summary(brief.KindFold)} {
		assert.Equal(t, fault.UpstreamFailed, fault.CodeOf(err))
	}
}
