package system

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// signed returns a client with a token of the user that has further claims.
func (r *rig) signed(user uuid.UUID, claims jwt.MapClaims) testkit.Client {
	body := jwt.MapClaims{"sub": user.String(), "aud": "authenticated", "role": "authenticated", "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(body, claims)
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, body).SignedString([]byte(testkit.JWTSecret))
	require.NoError(r.t, err)
	client := r.Client
	client.Token = token
	return client
}

const twoLines = `{"role":"user","content":"How do I practise scales?"}` + "\n" + `{"role":"assistant","content":"Slowly."}` + "\n"

func askTool(client testkit.Client) testkit.Answer {
	call := rpc("tools/call", testkit.Body{"name": "chat", "arguments": testkit.Body{"prompt": "Hello."}})
	return client.Call(http.MethodPost, "/mcp", call, "Accept", "application/json, text/event-stream")
}

func withPlan(plan string) jwt.MapClaims {
	return jwt.MapClaims{
		"app_metadata": map[string]any{"plan": plan}, "email": "canary-email@example.com",
		"user_metadata": map[string]any{"name": "canary-name"}, "hooked": "canary-hook",
	}
}

// ownerRules are what the owner of an app adds, as the role that owns the tables: a plan to write, in the claims, for
// signed-in users; subscriptions to see chats, in a table of the app's and for everybody; a permissive policy for
// everybody; triggers that work with the rights of whoever writes.
const ownerRules = `
	create table subscriptions (user_id uuid primary key);
	alter table subscriptions enable row level security;
	grant select on subscriptions to authenticated;
	create policy own on subscriptions for select to authenticated using ((select auth.uid()) = user_id);
	create policy paid on messages as restrictive for insert to authenticated
	  with check ((select auth.jwt() -> 'app_metadata' ->> 'plan') = 'pro');
	create policy subscribed on chats as restrictive using (exists (select from subscriptions s where s.user_id = chats.user_id));
	create policy subscribed on conversation_briefs as restrictive
	  using ((select auth.jwt() -> 'app_metadata' ->> 'plan') = 'pro' and exists (select from subscriptions));
	create policy everybody on chats using (true) with check (true);
	create policy everybody on messages for select using (true);
	create function stamp() returns trigger language plpgsql as $$
	begin
	  perform auth.uid(), auth.jwt();
	  if to_jsonb(new) ->> 'content' like '%canary-word%' then
	    raise 'not about %', new.content;
	  end if;
	  return new;
	end $$;
	create trigger stamp before insert or update on messages for each row execute function stamp();
	create trigger stamp before insert or update on conversation_briefs for each row execute function stamp();
	create trigger stamp before insert on conversation_brief_revisions for each row execute function stamp();
	alter table chats add constraint no_shouting check (title <> upper(title) or title = '')`

// What the app's owner decides binds the server, and stops no fold.
func TestOwnersRulesBindTheServerAndNoJob(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, foldAtOnce)
	testkit.Exec(t, r.pool, ownerRules)
	testkit.Exec(t, r.pool, "insert into subscriptions values ($1)", r.user)
	pro, free := r.signed(r.user, withPlan("pro")), r.signed(r.user, withPlan("free"))
	stranger := r.signed(testkit.NewUser(t, r.db), withPlan("pro"))

	chatID := pro.Say("", "My cello teacher is called Ilse and I live in Graz.").ChatID
	for n := range 4 {
		pro.Say(chatID, fmt.Sprintf("On day %d I practised the etude number %d for an hour.", n, 100+n))
	}
	r.awaitFolds()
	assert.True(t, testkit.Ask[int64](t, r.pool, "select version from conversation_briefs") != 0,
		"the brief was not written")
	seen := stranger.Call(http.MethodGet, "/v1/chats", nil)
	assert.Truef(t, seen.Status == http.StatusOK && !strings.Contains(seen.Text, chatID),
		"a permissive policy shows another user's chat: %d %s", seen.Status, seen.Text)
	seen = free.Call(http.MethodGet, "/v1/chats", nil)
	assert.Containsf(t, seen.Text, chatID, "reading needs no plan: %d %s", seen.Status, seen.Text)
	before := testkit.Ask[int](t, r.pool, "select count(*) from messages")
	for name, refused := range map[string]testkit.Answer{
		"a message without the plan": free.Call(http.MethodPost, "/v1/message", testkit.Body{"chat_id": chatID, "content": "Hello."}),
		"as JSON": free.Call(http.MethodPost, "/v1/message", testkit.Body{"chat_id": chatID, "content": "Hello."}, "Accept",
			"application/json"),
		"a first message":                    free.Call(http.MethodPost, "/v1/message/first", testkit.Body{"content": "Hello."}),
		"a chat without a subscription":      stranger.Call(http.MethodPost, "/v1/chats", testkit.Body{"title": "Mine"}),
		"a value that a constraint excludes": pro.Call(http.MethodPatch, "/v1/chats/"+chatID, testkit.Body{"title": "LOUD"}),
		"a message that a trigger refuses":   pro.Call(http.MethodPost, "/v1/message", testkit.Body{"chat_id": chatID, "content": "The canary-word."}),
	} {
		assert.Truef(t, refused.Status == http.StatusForbidden && refused.Code() == "forbidden_by_policy",
			"%s: %d %s", name, refused.Status, refused.Text)
	}
	if answer := importFile(free, twoLines, "application/json"); answer.Status != http.StatusForbidden || answer.Code() != "forbidden_by_policy" {
		t.Errorf("import: %d %s", answer.Status, answer.Text)
	}
	if answer := importFile(free, twoLines, "text/event-stream"); !strings.Contains(answer.Text, `"code":"forbidden_by_policy"`) {
		t.Errorf("import with events: %d %s", answer.Status, answer.Text)
	}
	if answer := askTool(free); !strings.Contains(answer.Text, "forbidden_by_policy: ") {
		t.Errorf("a tool: %d %s", answer.Status, answer.Text)
	}
	after := testkit.Ask[int](t, r.pool, "select count(*) from messages")
	assert.Equalf(t, before, after, "%d messages were stored", after-before)
	for _, line := range []string{"request failed", "tool called"} {
		causes := r.logs.Lines(t, line)
		assert.Truef(t, len(causes) != 0 && (strings.Contains(fmt.Sprint(causes), `policy \"paid\"`) || strings.Contains(fmt.Sprint(causes), `policy "paid"`)),
			"the log does not name the rule: %v", causes)
	}
	assert.NotContains(t, r.logs.String(), "canary", "claims or content are in the log")
}

// The tables let a chat be read but not changed: that is said, and not that there is none.
func TestChangesThatAPolicyHidesAreForbidden(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	said := r.Say("", "Hello.")
	testkit.Exec(t, r.pool, `
		create policy fixed on chats as restrictive for update to authenticated using (false);
		create policy kept on chats as restrictive for delete to authenticated using (false);
		create policy fixed on messages as restrictive for update to authenticated using (false);
		create policy kept on messages as restrictive for delete to authenticated using (false)`)
	before := testkit.Ask[string](t, r.pool, "select concat_ws(' ', version, cleared_seq, (select count(*) from messages)) from conversation_briefs")
	for name, refused := range map[string]testkit.Answer{
		"clearing": r.Call(http.MethodPost, "/v1/chats/"+said.ChatID+"/clear", nil),
		"stored messages": r.Call(http.MethodPost, "/v1/chats/"+said.ChatID+"/messages",
			testkit.Body{"messages": []testkit.Body{{"role": "tool", "content": "441 Hz"}}}),
		"a message":         r.Call(http.MethodPost, "/v1/message", testkit.Body{"chat_id": said.ChatID, "content": "More."}),
		"a title":           r.Call(http.MethodPatch, "/v1/chats/"+said.ChatID, testkit.Body{"title": "Mine"}),
		"a deletion":        r.Call(http.MethodDelete, "/v1/chats/"+said.ChatID, nil),
		"one deletion":      r.Call(http.MethodDelete, "/v1/messages/"+said.MessageID, nil),
		"a message's place": r.Call(http.MethodPatch, "/v1/messages/"+said.MessageID, testkit.Body{"pinned": true}),
	} {
		assert.Truef(t, refused.Status == http.StatusForbidden && refused.Code() == "forbidden_by_policy",
			"%s: %d %s", name, refused.Status, refused.Text)
	}
	assert.Equalf(t, before, testkit.Ask[string](t, r.pool,
		"select concat_ws(' ', version, cleared_seq, (select count(*) from messages)) from conversation_briefs"),
		"a refused call changed %s to", before)
}

// A reply that the app's rules do not let be stored fails at once, and is not tried for minutes.
func TestReplyThatMayNotBeStoredFails(t *testing.T) {
	t.Parallel()
	r := newRig(t, testkit.InOrder(offline.Answer{Text: "A rude word."}), nil)
	testkit.Exec(t, r.pool, `alter table messages add constraint polite check (content !~ 'rude')`)
	last := r.Send("", testkit.Body{"content": "Hello."}).Rest().End
	assert.Truef(t, last.Name == testkit.Failed && last.Code() == "forbidden_by_policy" && last.Data["retryable"] == false,
		"ends with %+v", last)
}

// A token may outlive its account, and may name a user who never was one.
func TestTokenWithoutAnAccount(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	deleted := r.Client
	deleted.Say("", "Hello.")
	testkit.Exec(t, testkit.Connect(t, r.db.AdminDSN), "delete from auth.users where id = $1", r.user)
	unknown := r.Client
	unknown.Token = testkit.Token(t, uuid.New())
	for who, client := range map[string]testkit.Client{"deleted": deleted, "unknown": unknown} {
		for name, answer := range map[string]testkit.Answer{
			"a first message": client.Call(http.MethodPost, "/v1/message/first", testkit.Body{"content": "Hello."}),
			"one sent twice":  client.Call(http.MethodPost, "/v1/message/first", testkit.Body{"content": "Hello.", "client_message_id": uuid.NewString()}),
			"one with a file": client.Call(http.MethodPost, "/v1/message/first",
				testkit.Body{"content": "Hello.", "files": []testkit.Body{{"path": "a.txt", "content": "a"}}}),
			"a chat":    client.Call(http.MethodPost, "/v1/chats", testkit.Body{"title": "Mine"}),
			"an import": importFile(client, twoLines, "application/json"),
		} {
			assert.Truef(t, answer.Status == http.StatusUnauthorized && answer.Code() == "user_not_found" && answer.Header.Get("Www-Authenticate") != "",
				"%s, %s: %d %s", who, name, answer.Status, answer.Text)
		}
		if answer := importFile(client, twoLines, "text/event-stream"); !strings.Contains(answer.Text, `"code":"user_not_found"`) {
			t.Errorf("%s, an import with events: %s", who, answer.Text)
		}
		if answer := askTool(client); !strings.Contains(answer.Text, "user_not_found: ") {
			t.Errorf("%s, a tool: %s", who, answer.Text)
		}
	}
	chats := testkit.Ask[int](t, r.pool, "select count(*) from chats")
	assert.Truef(t, chats == 0, "%d chats are left", chats)
	failures := r.logs.Lines(t, "request failed")
	assert.Truef(t, len(failures) == 0, "logged as our failure: %v", failures)
}
