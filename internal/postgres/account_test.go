package postgres

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/transfer"
	"github.com/arcoscribe/throughline/internal/transfer/bundle"
)

func (p *port) account(user auth.Principal) (string, error) {
	var out bytes.Buffer
	err := p.transfer.ExportAccount(p.t.Context(), user, &out)
	return out.String(), err
}

func (p *port) mustAccount(user auth.Principal) string {
	return must(p.account(user))(p.t)
}

// fullAccount has two chats, one of which is expired, memories that were said in both, written, and superseded, a graph and
// settings.
func (p *port) fullAccount() (chats []uuid.UUID) {
	p.t.Helper()
	chats = []uuid.UUID{p.chatWithEverything(), p.newChat(2)}
	p.exec("update chats set ttl_hours = 1, created_at = now() - interval '9 days', last_message_at = now() - interval '8 days' where id = $1", chats[1])
	p.exec("update messages set created_at = now() - interval '8 days' where chat_id = $1", chats[1])
	p.exec("update chats set last_message_at = (select max(created_at) from messages where chat_id = $1) where id = $1", chats[1])
	p.exec("update messages set rating = -1 where chat_id = $1 and seq = 4", chats[1])
	p.exec(`insert into memory_users (user_id, enabled, time_zone, language, excluded) values ($1, false, 'Europe/Berlin', 'de', '{health}')`, p.user.UserID)
	p.exec(`insert into memories (id, user_id, content, origin, status, superseded_by, created_at, access_count, last_accessed, source_session_id) values
		('aaaaaaaa-0000-4000-8000-000000000001', $1, 'Lives in Lyon.', 'extracted', 'superseded', 'aaaaaaaa-0000-4000-8000-000000000002', '2026-01-01', 3,
		  '2026-02-01', $2),
		('aaaaaaaa-0000-4000-8000-000000000002', $1, 'Lives in Porto.', 'extracted', 'active', null, '2026-01-02', 0, null, $2),
		('aaaaaaaa-0000-4000-8000-000000000003', $1, 'Prefers tea.', 'user', 'active', null, '2026-01-03', 0, null, null)`, p.user.UserID, chats[0])
	p.exec(`insert into memory_sources (memory_id, message_id, user_id, chat_id, seq, fact, quote, said_at)
		select case when m.chat_id = $2 then 'aaaaaaaa-0000-4000-8000-000000000001' else 'aaaaaaaa-0000-4000-8000-000000000002' end::uuid, m.id, m.user_id,
		  m.chat_id, m.seq, null, 'q', m.created_at
		  from messages m where m.user_id = $1 and m.role = 'user' and m.seq in (1, 3)`, p.user.UserID, chats[0])
	p.exec("insert into memory_entities (user_id, name, entity_type, mentions) values ($1, 'Porto', 'place', 1), ($1, 'Lyon', 'place', 1)", p.user.UserID)
	p.exec(`insert into memory_relationships (user_id, source_entity_id, target_entity_id, relationship, memory_id)
		select $1, a.id, b.id, 'near', 'aaaaaaaa-0000-4000-8000-000000000002' from memory_entities a, memory_entities b where a.name = 'Porto'
		  and b.name = 'Lyon'`, p.user.UserID)
	return chats
}

// Every column of a message is exported, but for those of a running reply and of its request.
func TestNoColumnOfAMessageStaysBehind(t *testing.T) {
	t.Parallel()
	p := newPort(t)
	members := map[string]bool{}
	for field := range reflect.TypeFor[bundle.Message]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		members[name] = true
	}
	var missing []string
	for _, column := range ask[[]string](p, `select array_agg(attname::text order by attnum) from pg_attribute
		where attrelid = 'messages'::regclass and attnum > 0 and not attisdropped`) {
		if !members[column] {
			missing = append(missing, column)
		}
	}
	is(t, missing, []string{"user_id", "client_message_id", "server_id", "lease_until", "cancel_requested", "replaces"}, "columns that no export has")
}

// alike is an account without what an import makes: each id becomes the place where it is named first.
func alike(t reporter, text string) []string {
	var kept []string
	places := map[string]string{}
	for _, record := range records(t, text) {
		if record.Account == nil && record.Chat == nil && record.Message == nil && record.Memory == nil && record.End == nil && record.AccountEnd == nil &&
			record.File == nil && record.Topic == nil {
			continue // the header, revisions and the graph
		}
		if record.Message != nil {
			record.Message.ChatID = "" // which a file need not say
		}
		var fields any
		encoded, err := json.Marshal(record)
		if err == nil {
			decoder := json.NewDecoder(bytes.NewReader(encoded))
			decoder.UseNumber()
			err = decoder.Decode(&fields)
		}
		if err == nil {
			encoded, err = json.Marshal(unchanging(fields))
		}
		if err != nil {
			t.Fatalf("%v", err)
		}
		kept = append(kept, uuids.ReplaceAllStringFunc(string(encoded), func(id string) string {
			if places[id] == "" {
				places[id] = fmt.Sprint("id ", len(places))
			}
			return places[id]
		}))
	}
	return kept
}

var uuids = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// changing is the part that an import makes itself, or that is only a record.
var changing = []string{"updated_at", "token_count", "email", "version", "history", "revisions", "entities", "relationships", "seq"}

// unchanging is JSON without the changing fields.
func unchanging(value any) any {
	switch value := value.(type) {
	case map[string]any:
		maps.DeleteFunc(value, func(name string, _ any) bool { return slices.Contains(changing, name) })
		for name := range value {
			value[name] = unchanging(value[name])
		}
	case []any:
		for i := range value {
			value[i] = unchanging(value[i])
		}
	}
	return value
}

func TestAnAccountMovesToAnotherUser(t *testing.T) {
	t.Parallel()
	p := newPort(t)
	chats := p.fullAccount()
	p.exec("insert into chats (user_id, title) values ($1, 'Not yours')", p.newUser().UserID)
	text := p.mustAccount(p.user)
	is(t, strings.Contains(text, "Not yours"), false, "another user's chat is in it")
	var kinds []string
	for line := range strings.Lines(text) {
		kind, _, _ := strings.Cut(strings.TrimPrefix(line, `{"type":"`), `"`)
		kinds = append(kinds, kind)
	}
	want := []string{"bundle", "account", "chat", "message", "end", "chat", "file", "message", "revision", "end", "memory", "entity", "relationship",
		"account_end"}
	mustBe(t, slices.Compact(kinds), want, "the result")
	if !strings.Contains(text, `"history":[{"version":1,"action":"ADD"`) ||
		!strings.Contains(text, `"settings":{"enabled":false,"time_zone":"Europe/Berlin","language":"de","excluded":["health"]}`) {
		t.Error(text)
	}

	other := p.newUser()
	result := p.mustImport(other, text)
	is(t, tuple(result.Imported, result.Memories, result.SkippedMemories), tuple(2, 3, 0), "%+v", result)
	is(t, alike(t, p.mustAccount(other)), alike(t, text), "-out +back")
	is(t, p.count(`conversation_briefs b join chats c on c.id = b.chat_id where b.user_id = $1 and b.extracted_seq < c.last_seq`, other.UserID), 0,
		"chats would be read again")
	first := ask[uuid.UUID](p, "select source_session_id from memories where user_id = $1 and content = 'Lives in Porto.'", other.UserID)
	is(t, first == chats[1] || first == uuid.Nil, false, "it was first said in %s", first)

	again := p.mustImport(other, text)
	is(t, tuple(again.Imported, again.Skipped, again.Memories, again.SkippedMemories), tuple(0, 2, 0, 3), "again: %+v", again)
	own := p.mustImport(p.user, text)
	is(t, tuple(own.Imported, own.Memories), tuple(0, 0), "one's own: %+v", own)
	is(t, alike(t, p.mustAccount(p.user)), alike(t, text), "one's own account has changed")
}

func TestAnEmptyAccountComesAndGoes(t *testing.T) {
	t.Parallel()
	p := newPort(t)
	empty := p.newUser()
	empty.Claims = strings.Replace(empty.Claims, "{", `{"email": "a@example.org", `, 1)
	text := p.mustAccount(empty)
	assert.Containsf(t, text, `"id":"`+empty.UserID.String()+`","email":"a@example.org"`, "%v", text)
	result := p.mustImport(p.newUser(), text)
	is(t, tuple(result.Imported, strings.Count(text, "\n")), tuple(0, 3), "%+v of", result)
}

// Importing again adds nothing, for each user separately, also at once. The same lines in another file are another chat. An id
// that is taken is an error, and nothing of the chat is written.
func TestImportingAgainAddsNothing(t *testing.T) {
	t.Parallel()
	p := newPort(t)
	file, victim := longFile(1000), p.newUser()
	results := make([]transfer.Result, 4)
	together(t, len(results), func(n int) (err error) {
		results[n], err = p.importAs(p.user, file)
		return err
	})
	id, imported := results[0].Chats[0].ChatID, 0
	for _, result := range results {
		imported += result.Imported
		is(t, tuple(result.Imported+result.Skipped, result.Chats[0].ChatID, result.Chats[0].Skipped), tuple(1, id, result.Imported == 0), "%+v", result)
	}
	is(t, tuple(imported, p.count("messages")), tuple(1, 1000), "imported, messages")
	theirs := p.mustImport(victim, file)
	is(t, tuple(theirs.Imported, theirs.Chats[0].ChatID == id), tuple(1, false), "another user: %+v", theirs)
	is(t, p.mustImport(p.user, file+"\n").Imported, 1, "another file")
	p.exec("delete from chats where id = $1", theirs.Chats[0].ChatID)
	p.exec("insert into chats (id, user_id) values ($1, $2)", theirs.Chats[0].ChatID, p.user.UserID)
	wantFault(t, errOf(p.importAs(victim, file)), fault.ImportInvalid, "a taken id")
	is(t, p.count("messages"), 2000, "messages")
}

// Importing the owner's own bundle changes nothing while the chat exists, and restores it after it was deleted. The time to live
// of an old chat begins with its import.
func TestOwnersBundle(t *testing.T) {
	t.Parallel()
	p := newPort(t)
	chatID := p.newChat(2)
	p.exec("update chats set ttl_hours = 3 where id = $1", chatID)
	text := p.mustExport(p.user, chatID, transfer.FormatLines)
	result := p.mustImport(p.user, text)
	is(t, tuple(result.Skipped, result.Chats[0].ChatID), tuple(1, chatID), "%+v", result)
	p.exec("delete from chats where id = $1", chatID)
	text = strings.ReplaceAll(text, time.Now().UTC().Format("2006-01-02"), "2020-01-02")
	back, again := p.mustImport(p.user, text), p.mustImport(p.user, text)
	is(t, tuple(back.Imported, back.Messages, again.Skipped, again.Chats[0].ChatID), tuple(1, 4, 1, back.Chats[0].ChatID), "%+v, then %+v", back, again)
	is(t, ask[string](p, `select date_part('year', last_message_at) || ' ' || (expires_at between now() + interval '2 hours' and now() + interval '3 hours')
		from chats where id = $1`, back.Chats[0].ChatID), "2020 true", "said in …, expires in time")
}

// The fold is enqueued with the chat if it is due, and only then. Who imports a history can search all of it at once, and no job
// has to index it.
func TestImportedChatIsFoldedAndIndexed(t *testing.T) {
	t.Parallel()
	p := newPort(t)
	p.mustImport(p.user, plainLines)
	is(t, len(p.folds), 0, "folds of a short chat")
	const messages = 1200 // more than are indexed at once
	chatID := p.mustImport(p.user, longFile(messages)).Chats[0].ChatID
	is(t, testkit.Receive(t, "the fold is enqueued", p.folds), chatID, "is folded")
	is(t, ask[bool](p, "select indexed_seq = $2 and not to_index from conversation_briefs where chat_id = $1", chatID, messages), true,
		"messages are left to index")
	p.checkIndex()
	p.wantFound("practise", "How do I practise scales?")
	p.wantFound("slowly", "Slowly.", "Slowly.")
}

// during runs something once, when the first bytes are written.
type during struct {
	bytes.Buffer
	now func()
}

func (d *during) Write(data []byte) (int, error) {
	if d.Len() == 0 {
		d.now()
	}
	return d.Buffer.Write(data)
}

// A row that is written while an account is exported is not in it; one that is deleted or edited meanwhile is in no file that ends.
func TestAnAccountIsOfOneMoment(t *testing.T) {
	t.Parallel()
	p := newPort(t)
	p.fullAccount()
	for name, c := range map[string]struct {
		do string
		is fault.Code
	}{
		"a new chat":         {"insert into chats (user_id, title) values ((select user_id from chats where id = $1), 'New')", ""},
		"a new message":      {"insert into messages (chat_id, role, content) values ($1, 'user', 'one more')", ""},
		"an edited message":  {"update messages set content = 'other' where chat_id = $1 and seq = 1", fault.NotReady},
		"a deleted message":  {"delete from messages where chat_id = $1 and seq = 1", fault.NotReady},
		"a forgotten memory": {"delete from memories where content = 'Prefers tea.' and user_id = (select user_id from chats where id = $1)", fault.NotReady},
		"a deleted chat":     {"delete from chats where id = $1", fault.NotReady},
	} {
		user := p.newUser()
		result := p.mustImport(user, p.mustAccount(p.user))
		out := &during{now: func() { p.exec(c.do, result.Chats[0].ChatID) }}
		err := p.transfer.ExportAccount(t.Context(), user, out)
		assert.Truef(t, fault.CodeOf(err) == c.is || (c.is == "" && err == nil), "%s: %v", name, err)
		assert.Truef(t, !strings.Contains(out.String(), "one more") && !strings.Contains(out.String(), `"New"`),
			"%s is in it", name)
	}
}

// What a brief said of deleted words is in no export, and that it was is.
func TestWhatWasTakenBackIsNotExported(t *testing.T) {
	t.Parallel()
	p := newPort(t)
	chatID := p.newChat(3)
	change := p.claim(chatID)
	change.Summary = "They told the secret."
	p.mustCommit(change)
	require.Contains(t, p.mustAccount(p.user), "the secret", "the brief is not in the account")
	p.exec("delete from messages where chat_id = $1 and seq = 1", chatID)
	text := p.mustAccount(p.user)
	assert.Truef(t, !strings.Contains(text, "secret") && strings.Contains(text, `"type":"revision"`), "%v", text)
	assert.NotContains(t, p.mustExport(p.user, chatID, transfer.FormatLines), "secret", "the chat's own export has it")
}

// The reader of an account knows when it is not whole.
func TestABrokenAccountIsRefused(t *testing.T) {
	t.Parallel()
	p := newPort(t)
	p.fullAccount()
	lines := slices.Collect(strings.Lines(p.mustAccount(p.user)))
	other := p.newUser()
	for name, text := range map[string]string{
		"no end":     strings.Join(lines[:len(lines)-1], ""),
		"no account": lines[0] + strings.Join(lines[2:], ""),
		"a memory less": strings.Replace(strings.Join(lines, ""),
			lines[slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, `{"type":"memory"`) })], "", 1),
		"two accounts":    strings.Join(lines, "") + strings.Join(lines, ""),
		"another origin":  strings.Replace(strings.Join(lines, ""), `"origin":"user"`, `"origin":"god"`, 1),
		"a chat too many": strings.Join(lines, "") + lines[2],
	} {
		wantFault(t, errOf(p.importAs(other, text)), fault.ImportInvalid, "%s", name)
	}
	is(t, p.count("chats where user_id = $1", other.UserID), 0, "chats were written")
}
