package system

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/testkit"
)

const (
	perMinute = 3
	attempts  = 12
	// callsOfOne is what one message costs at most: its reply, and the vector of its question, which is asked for again if who asked
	// first needs it no more.
	callsOfOne = 3
)

// TestEveryRouteThatAsksAModelIsLimited sends each route of the OpenAPI document more often than it may be asked in a minute, each
// time with words that were never said. No route makes more calls of models than its user's limit allows, and each call has its row
// in usage_events. Jobs do not run meanwhile: what routes cause there passes one job at a time.
func TestEveryRouteThatAsksAModelIsLimited(t *testing.T) {
	t.Parallel()
	r := newStoppedRig(t, testkit.NewDatabase(t), nil, longTerm.And(env{
		"EMBEDDING_MODEL": "an-embedder", "RATE_LIMIT_MESSAGES_PER_MINUTE": fmt.Sprint(perMinute), "TOPICS": "on",
	}))
	r.newUser()
	r.node = r.start(app.Role{API: true}, nil)
	asks := map[string]int{}
	for _, to := range routes(t, r.Client) {
		for _, tool := range toolsOf(to) {
			before, began := len(r.model.Requests()), time.Now()
			r.attempts(to, tool)
			if calls := len(r.model.Requests()) - before; calls > 0 {
				asks[strings.TrimSpace(to.name()+" "+tool)] = calls
				allowed := perMinute + int(time.Since(began).Minutes()*perMinute) // on a busy machine more than a moment passes
				assert.LessOrEqualf(t, calls, allowed*callsOfOne, "calls of %d attempts at %s %s, of which %d are allowed", attempts, to.name(), tool, allowed)
			}
		}
	}
	for _, name := range []string{
		"POST /v1/message", "POST /v1/message/first", "GET /v1/recall", "GET /v1/memories", "GET /v1/chats/{chat_id}/memory",
		"POST /v1/chats/{chat_id}/standalone", "POST /mcp chat", "POST /mcp recall", "POST /mcp list_memories", "POST /mcp what_is_known",
	} {
		assert.Containsf(t, asks, name, "it asked no model, so it was not tried: %v", asks)
	}
	r.wantEachCallRecorded()
}

// toolsOf are the tools that a route calls; "" for a route that calls none.
func toolsOf(to route) []string {
	if to.path != "/mcp" {
		return []string{""}
	}
	return []string{
		"chat", "debug", "codereview", "search_history", "recall", "list_threads", "get_thread", "pin_message", "forget_thread",
		"remember", "list_memories", "forget_memory", "what_is_known",
	}
}

// attempts sends a route as a new user, who has memories and a chat in which something was said.
func (r *rig) attempts(to route, tool string) {
	r.newUser()
	testkit.Exec(r.t, r.pool, "insert into memory_users (user_id) values ($1)", r.user)
	r.remembersMuch()
	chat := testkit.Ask[string](r.t, r.pool, "insert into chats (user_id) values ($1) returning id::text", r.user)
	message := testkit.Ask[string](r.t, r.pool, `with said as (insert into messages (chat_id, role, content, token_count)
		select $1::uuid, r, 'We talked of it.', 5 from unnest(array['user', 'assistant']) r returning id::text) select id from said limit 1`, chat)
	memory := testkit.Ask[string](r.t, r.pool, "select id::text from memories where user_id = $1 limit 1", r.user)
	client := r.Client
	client.Token = r.token
	path := strings.NewReplacer("{chat_id}", chat, "{message_id}", message, "{memory_id}", memory, "{topic_id}", "current").Replace(to.path)
	for n := range attempts {
		text := fmt.Sprintf("Where is violoncello %s-%d of the long list of towns?", r.user, n)
		query := url.Values{}
		for _, p := range to.parameters {
			if p.In == "query" && (p.Name == "q" || p.Name == "content") {
				query.Set(p.Name, text)
			}
		}
		ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Second)
		request := client.Request(ctx, to.method, path+"?"+query.Encode(), bodyOf(to, tool, chat, text), "Accept", "application/json, text/event-stream;q=0.5")
		answer, err := http.DefaultClient.Do(request)
		if err == nil {
			_, _ = io.Copy(io.Discard, answer.Body) // a reply is written as long as this goes on
			_ = answer.Body.Close()
		} else {
			assert.Truef(r.t, errors.Is(err, context.DeadlineExceeded), "%s: %v", to.name(), err) // it waits for a job
		}
		cancel()
	}
	testkit.Eventually(r.t, "replies end", func() bool { return r.count("select count(*) from messages where status = 'streaming'") == 0 })
}

// bodyOf fills the fields of a route that have words.
func bodyOf(to route, tool, chat, text string) testkit.Body {
	if tool != "" {
		arguments := map[string]testkit.Body{
			"recall": {"query": text}, "search_history": {"query": text}, "remember": {"text": text}, "list_memories": {"query": text},
			"what_is_known": {"subject": text},
			"chat":          {"prompt": text}, "debug": {"prompt": text}, "codereview": {"prompt": text}, "get_thread": {"continuation_id": chat},
		}[tool]
		return testkit.Body{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": testkit.Body{"name": tool, "arguments": arguments}}
	}
	var body testkit.Body
	for _, field := range to.fields {
		if body == nil {
			body = testkit.Body{}
		}
		switch field {
		case "content", "query":
			body[field] = text
		case "chat_id":
			body[field] = chat
		}
	}
	return body
}
