package postgres

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/transfer"
)

func (p *port) account(user auth.Principal) (string, error) {
	var out bytes.Buffer
	err := p.transfer.ExportAccount(p.t.Context(), user, &out)
	return out.String(), err
}

func (p *port) mustAccount(user auth.Principal) string {
	p.t.Helper()
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

// alike is an account without what an import makes anew: ids become places, and what is only a record is left out.
func alike(t require, text string) []string {
	t.Helper()
	places := map[string]string{}
	for _, record := range records(t, text) {
		switch {
		case record.Account != nil:
			places[record.Account.ID] = "user"
		case record.Chat != nil:
			places[record.Chat.ID] = fmt.Sprint("chat ", len(places))
		case record.Message != nil:
			places[record.Message.ID] = fmt.Sprint("message ", len(places))
		case record.Memory != nil:
			places[record.Memory.ID] = record.Memory.Content
		}
	}
	place := func(id string) string {
		if found := places[id]; found != "" {
			return found
		}
		return "elsewhere"
	}
	var kept []string
	seq := int64(0)
	for _, record := range records(t, text) {
		switch {
		case record.Account != nil:
			record.Account.ID, record.Account.Email = "", nil
		case record.Chat != nil:
			seq = 0
			record.Chat.ID, record.Chat.UpdatedAt = place(record.Chat.ID), time.Time{}
		case record.Message != nil:
			m := record.Message
			seq++
			m.ID, m.ChatID, m.Seq, m.TokenCount = place(m.ID), "", seq, 0 // which Postgres counts for itself
			for _, id := range []*string{m.ReplyTo, m.SupersededBy} {
				if id != nil {
					*id = place(*id)
				}
			}
		case record.Memory != nil:
			m := record.Memory
			m.ID, m.UpdatedAt, m.Version, m.History = "", time.Time{}, 0, nil
			if m.SupersededBy != nil {
				*m.SupersededBy = place(*m.SupersededBy)
			}
			for i := range m.Sources {
				m.Sources[i].ChatID, m.Sources[i].MessageID, m.Sources[i].Seq = place(m.Sources[i].ChatID), place(m.Sources[i].MessageID), 0
			}
		case record.End != nil:
			record.End.Revisions = 0
		case record.AccountEnd != nil:
			record.AccountEnd.Entities, record.AccountEnd.Relationships = 0, 0
		default:
			if record.File == nil && record.Topic == nil {
				continue // the header, revisions and the graph
			}
		}
		encoded, err := json.Marshal(record)
		if err != nil {
			t.Fatalf("%v", err)
		}
		kept = append(kept, string(encoded))
	}
	return kept
}

func TestAnAccountMovesToAnotherUser(t *testing.T) {
	t.Parallel()
	p := newPort(t)
	chats := p.fullAccount()
	stranger := p.newUser()
	p.exec("insert into chats (user_id, title) values ($1, 'Not yours')", stranger.UserID)
	text := p.mustAccount(p.user)
	if strings.Contains(text, "Not yours") {
		t.Error("another user's chat is in it")
	}
	var kinds []string
	for line := range strings.Lines(text) {
		var kind struct {
			Type string `json:"type"`
		}
		noError(t, json.Unmarshal([]byte(line), &kind))
		if len(kinds) == 0 || kinds[len(kinds)-1] != kind.Type {
			kinds = append(kinds, kind.Type)
		}
	}
	want := []string{"bundle", "account", "chat", "message", "end", "chat", "file", "message", "revision", "end", "memory", "entity", "relationship",
		"account_end"}
	mustBe(t, kinds, want, "what is found")
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
	if first := ask[uuid.UUID](p, "select source_session_id from memories where user_id = $1 and content = 'Lives in Porto.'",
		other.UserID); first == chats[1] || first == uuid.Nil {
		t.Errorf("it was first said in %s", first)
	}

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
	if !strings.Contains(text, `"id":"`+empty.UserID.String()+`","email":"a@example.org"`) {
		t.Error(text)
	}
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

// What is written while an account is exported is not in it; what is deleted or edited meanwhile is in no file that ends.
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
		if fault.CodeOf(err) != c.is && (c.is != "" || err != nil) {
			t.Errorf("%s: %v", name, err)
		}
		if strings.Contains(out.String(), "one more") || strings.Contains(out.String(), `"New"`) {
			t.Errorf("%s is in it", name)
		}
	}
}

// What a stale brief says may have been deleted.
func TestAStaleBriefIsNotExported(t *testing.T) {
	t.Parallel()
	p := newPort(t)
	chatID := p.newChat(3)
	change := p.claim(chatID, "fold")
	change.Summary = "They told the secret."
	p.mustCommit(change)
	if !strings.Contains(p.mustAccount(p.user), "the secret") {
		t.Fatal("the brief is not in the account")
	}
	p.exec("delete from messages where chat_id = $1 and seq = 1", chatID)
	if text := p.mustAccount(p.user); strings.Contains(text, "secret") || !strings.Contains(text, `"type":"revision"`) {
		t.Error(text)
	}
	if strings.Contains(p.mustExport(p.user, chatID, transfer.FormatLines), "secret") {
		t.Error("the chat's own export has it")
	}
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
