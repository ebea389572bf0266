package system

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// wanted sends a request, checks its status, and returns the answer's object, nil if it has no body.
func (r *rig) wanted(status int, method, path string, payload testkit.Body, headers ...string) map[string]any {
	answer := r.Call(method, path, payload, headers...)
	require.Truef(r.t, answer.Status == status, "%s %s: %d %s", method, path, answer.Status, answer.Text)
	if answer.Text == "" {
		return nil
	}
	return answer.JSON(r.t)
}

// lastPrompt is what the model was asked last.
func (r *rig) lastPrompt() string {
	asked := r.model.Asked(offline.KindReply)
	return asked[len(asked)-1].Text
}

func (r *rig) summaries(chatID string) []string {
	return testkit.Ask[[]string](r.t, r.pool, `select array_agg(brief ->> 'global_summary') ||
		(select coalesce(array_agg(r.global_summary), '{}') from conversation_brief_revisions r where r.chat_id = $1 and r.global_summary is not null)
		from conversation_briefs where chat_id = $1`, uuid.MustParse(chatID))
}

// A deleted message is removed from the brief and its revisions, without waiting for the sweep.
func TestDeletedMessageLeavesTheBrief(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, smallMemory)
	chatID := r.Say("", "My cello teacher is called Ilse and I live in Graz.").ChatID
	for range 8 {
		r.Say(chatID, strings.Repeat("I practised scales slowly today. ", 15))
	}
	r.awaitFolds()
	holds := func(text string) bool { return strings.Contains(text, "Ilse") }
	if !slices.ContainsFunc(r.summaries(chatID), holds) {
		t.Fatalf("nothing to delete in %q", r.summaries(chatID))
	}
	messages := testkit.Ask[[]uuid.UUID](t, r.pool, "select array_agg(id) from messages where content like '%Ilse%'")
	for _, id := range messages {
		r.wanted(http.StatusNoContent, http.MethodDelete, "/v1/messages/"+id.String(), nil)
	}
	assert.Falsef(t, slices.ContainsFunc(r.summaries(chatID), holds), "the words are left in %q", r.summaries(chatID))
}

// The deployment's defaults hold for chats from every way in that say nothing themselves, but not for rows by SQL.
func TestDeploymentDefaultsOfNewChats(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, env{"CHAT_MEMORY_STRATEGY": "simple", "CHAT_TTL_HOURS": "48", "CHAT_MAX_TURNS": "12"})
	check := func(how, chatID, want string) {
		t.Helper()
		if got := testkit.Ask[string](t, r.pool, `select concat_ws(' ', memory_strategy, coalesce(ttl_hours::text, '-'), coalesce(max_turns::text, '-'))
			from chats where id = $1`, uuid.MustParse(chatID)); got != want {
			t.Errorf("%s: %s, want %s", how, got, want)
		}
	}
	const defaults = "simple 48 12"
	first := r.Say("", "My cello teacher is called Ilse.")
	check("a first message", first.ChatID, defaults)
	strategy := first.End.Data["memory"].(map[string]any)["strategy"]
	assert.Truef(t, strategy == "simple", "the first receipt says %v", strategy)
	made := func(body testkit.Body) string {
		return r.wanted(http.StatusCreated, http.MethodPost, "/v1/chats", body)["id"].(string)
	}
	check("an empty chat", made(testkit.Body{}), defaults)
	check("an empty chat of a tool", made(testkit.Body{"tool_name": "lookup"}), defaults)
	check("a chat with its own settings", made(testkit.Body{"memory_strategy": "hybrid", "ttl_hours": nil, "max_turns": 7}), "hybrid - 7")
	got := askTool(r.Client)
	require.Truef(t, got.Status == http.StatusOK, "%d %s", got.Status, got.Text)
	check("a tool's thread", testkit.Ask[string](t, r.pool, "select id::text from chats where tool_name = 'chat'"), defaults)
	imported := func(file string) string {
		return r.imports(file)["chats"].([]any)[0].(map[string]any)["chat_id"].(string)
	}
	check("plain lines", imported(`{"role":"user","content":"From another program."}`+"\n"), defaults)
	exported := r.Call(http.MethodGet, "/v1/chats/"+made(testkit.Body{"memory_strategy": "summary", "ttl_hours": nil, "max_turns": nil})+"/export", nil)
	mine := r.Client
	r.Client = r.stranger()
	check("a bundle, which has its own settings", imported(exported.Text), "summary - -")
	r.Client = mine
	check("a row by SQL", testkit.Ask[string](t, r.pool, "insert into chats (user_id, title) values ($1, '') returning id::text", r.user), "summary - -")
}

// importFile imports a file as it is. Accept chooses how it is answered.
func importFile(client testkit.Client, file, accept string) testkit.Answer {
	request := client.Request(client.T.Context(), http.MethodPost, "/v1/chats/import", nil, "Content-Type", "application/x-ndjson", "Accept", accept)
	request.Body, request.ContentLength = io.NopCloser(strings.NewReader(file)), int64(len(file))
	return client.Do(request)
}

// imports imports a file that nothing is wrong with.
func (r *rig) imports(file string) map[string]any {
	answer := importFile(r.Client, file, "application/json")
	require.Truef(r.t, answer.Status == http.StatusOK, "%d %s", answer.Status, answer.Text)
	return answer.JSON(r.t)
}

// An imported chat gets a brief from the workers and continues as any other. Its export can be imported by another user.
func TestImportedChatIsRemembered(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, smallMemory)
	var file strings.Builder
	file.WriteString(`{"role":"user","content":"My cello teacher is called Ilse and I live in Graz.","created_at":"2024-05-06T07:08:09Z"}` + "\n")
	file.WriteString(`{"role":"assistant","content":"How nice."}` + "\n")
	for n := range 20 {
		fmt.Fprintf(&file, `{"role":"user","content":"On day %d I practised the etude number %d for an hour, and my bow arm felt heavy."}`+"\n", n, 1000+n)
		file.WriteString(`{"role":"assistant","content":"Rest a little more."}` + "\n")
	}
	chatID := r.imports(file.String())["chats"].([]any)[0].(map[string]any)["chat_id"].(string)
	testkit.Eventually(t, "the chat has a brief", func() bool {
		return testkit.Ask[bool](t, r.pool, "select version > 0 from conversation_briefs where chat_id = $1", uuid.MustParse(chatID))
	})
	r.awaitFolds()
	said := r.Say(chatID, "What is my cello teacher called?")
	assert.Containsf(t, said.Text, "Ilse", "forgotten: %q", said.Text)
	exported := r.Call(http.MethodGet, "/v1/chats/"+chatID+"/export", nil)
	if exported.Status != http.StatusOK || strings.Count(exported.Text, `{"type":"message"`) != 44 || !strings.Contains(exported.Text, `{"type":"revision"`) {
		t.Fatalf("%d %.400s", exported.Status, exported.Text)
	}
	r.newUser()
	r.Token = r.token
	other := r.imports(exported.Text)
	assert.Truef(t, other["imported"] == 1.0 && other["messages"] == 44.0, "another user: %v", other)
	assert.Equal(t, http.StatusNotFound, r.Call(http.MethodGet, "/v1/chats/"+chatID+"/export", nil).Status,
		"the first user's chat")
}

func TestVariantsShareOneMemory(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, env{"MODEL_VARIANTS": "arco=model-a,arco-pro=model-b,deep-dive=model-c"})
	chatID := r.Send("", testkit.Body{"content": "My dog is called Bello.", "model_variant": "deep-dive"}).Rest().ChatID
	second := r.Send(chatID, testkit.Body{"content": "What is my dog called?", "model_variant": "arco-pro"}).Rest()
	third := r.Say(chatID, "And what is my dog called again?")
	for _, got := range []testkit.Said{second, third} {
		assert.Containsf(t, got.Text, "Bello", "%v does not know: %q", got.End.Data["model_variant"], got.Text)
	}
	var models []string
	for _, request := range r.model.Asked(offline.KindReply) {
		models = append(models, request.Model)
		assert.Truef(t, !request.Store && request.PromptCacheKey == chatID && len(request.SafetyIdentifier) == 64 && request.Stream,
			"the call carries store %v, cache key %q, safety identifier %q", request.Store, request.PromptCacheKey, request.SafetyIdentifier)
	}
	assert.Equal(t, "model-c model-b model-a", strings.Join(models, " "), "asked")
	assert.Equal(t, "deep-dive arco-pro arco", testkit.Ask[string](t, r.pool,
		`select string_agg(metadata ->> 'model_variant', ' ' order by seq) from messages where role = 'assistant'`),
		"stored variants")
}

// A variant of MODELS_FILE is called on its own server, over its own wire and with its own key, and its replies have a price.
func TestVariantOnAServerOfItsOwn(t *testing.T) {
	t.Parallel()
	keys := make(chan string, 1)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys <- r.URL.Path + " " + r.Header.Get("Authorization")
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"id":"c-1","model":"m-1","choices":[{"delta":{"content":"Hello from elsewhere."},"finish_reason":"stop"}]}`+"\n\n"+
			`data: {"choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":20,"prompt_tokens_details":{"cached_tokens":400}}}`+"\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(other.Close)
	file := filepath.Join(t.TempDir(), "models.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"variants": [{"name": "other", "model": "m", "api": "chat",
		"base_url": "`+other.URL+`/v1", "api_key_env": "OTHER_KEY", "price": {"input": 1.25, "cached": 0.125, "output": 10}}]}`), 0o600))
	r := newRig(t, nil, env{"MODELS_FILE": file, "MODEL_VARIANTS": "arco=model-a", "OTHER_KEY": "sk-other"})
	first := r.Send("", testkit.Body{"content": "Hello?"}).Rest()
	assert.Equal(t, "Hello from elsewhere.", first.Text, "the file's first is the default")
	assert.Equal(t, "/v1/chat/completions Bearer sk-other", <-keys)
	r.Send(first.ChatID, testkit.Body{"content": "And you?", "model_variant": "arco"}).Rest()
	assert.Len(t, r.model.Asked(offline.KindReply), 1, "replies of the standard server")
	assert.Equal(t, "other 1000 400 20 1000, arco 0", testkit.Ask[string](t, r.pool, `select string_agg(concat_ws(' ', model_variant,
		case when model_variant = 'other' then concat_ws(' ', input_tokens, cached_tokens, output_tokens) end, micro_usd), ', ' order by created_at)
		from usage_events where purpose = 'reply'`), "charged")
}

func isDelta(e testkit.Event) bool { return e.Name == testkit.Delta }
