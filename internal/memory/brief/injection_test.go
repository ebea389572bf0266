package brief_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/testkit/injection"
)

// sentInput returns a request's input text, and the rest of the request, which is the same for every chat.
func sentInput(t *testing.T, request offline.Request) (input string, rest map[string]any) {
	require.NoError(t, json.Unmarshal(request.Body, &rest))
	items, _ := rest["input"].([]any)
	if len(items) == 1 {
		item, _ := items[0].(map[string]any)
		if item["role"] == "user" {
			if content, ok := item["content"].([]any); ok && len(content) == 1 {
				input, _ = content[0].(map[string]any)["text"].(string)
			} else {
				input, _ = item["content"].(string)
			}
		}
	} else {
		input, _ = rest["input"].(string) // the API's short form of one input of the user's role
	}
	require.Truef(t, input != "" && input == request.Text, "the input is not one text in the user's role: %s", request.Body)
	for _, name := range []string{"input", "prompt_cache_key", "safety_identifier"} {
		delete(rest, name)
	}
	return input, rest
}

// hostileChat has a text wherever a fold may meet one: title, instructions, messages of three roles, the brief so far.
func (r *rig) hostileChat(content string) uuid.UUID {
	chatID := testkit.Ask[uuid.UUID](r.t, r.pool,
		"insert into chats (user_id, title, system_prompt) values ($1, left($2, 80), $2) returning id", r.user, content)
	for _, role := range []string{"user", "assistant", "tool"} {
		r.say(chatID, role, content)
	}
	r.goOn(chatID, 8)
	testkit.Exec(r.t, r.pool, `update conversation_briefs set brief = jsonb_set(brief, '{global_summary}', to_jsonb($2::text)) where chat_id = $1`,
		chatID, content)
	testkit.Exec(r.t, r.pool, "update messages set created_at = '2026-11-20 12:00:00+00' where chat_id = $1", chatID)
	return chatID
}

// goOn stores so many harmless messages.
func (r *rig) goOn(chatID uuid.UUID, messages int) {
	content := "And then?" + strings.Repeat(" And", 40)
	testkit.Exec(r.t, r.pool, "insert into messages (chat_id, role, content, token_count) select $1, 'user', $2, $3 from generate_series(1, $4::int)",
		chatID, content, text.Tokens(content), messages)
}

// A fold of hostile words sends what a fold of harmless ones sends, with the words, quoted where they would
// speak for others, in the places of the harmless ones: one input of the user's role, the same
// instructions to the byte.
func TestPayloadsDoNotLeaveTheirPlaceInAFold(t *testing.T) {
	t.Parallel()
	r := newRig(t, testkit.InOrder(offline.Answer{Text: "The user goes on."}), nil)
	const harmless = "PLACEHOLDER"
	r.mustFold(r.hostileChat(harmless))
	frame, wantRest := sentInput(t, r.model.Requests()[0])
	if n := strings.Count(frame, harmless); n != 4 { // the brief and three messages; no title, no instructions of the chat
		t.Fatalf("%d places in\n%s", n, frame)
	}
	for n, p := range injection.All() {
		if testing.Short() && n%10 > 0 {
			continue // a sample; internal/memory has them all
		}
		before := len(r.model.Requests())
		chatID := r.hostileChat(p.Text)
		r.mustFold(chatID)
		input, rest := sentInput(t, r.model.Requests()[before])
		assert.Equalf(t, strings.ReplaceAll(frame, harmless, p.In(injection.Letter)), input, "%s: input", p.Name)
		assert.Equalf(t, wantRest, rest, "%s: what is beside the input", p.Name)
	}
	assert.Empty(t, r.model.Refused(), "the model refused a call as malformed")
}
