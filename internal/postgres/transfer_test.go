package postgres

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/arcoscribe/throughline/internal/transfer"
	"github.com/arcoscribe/throughline/internal/transfer/bundle"
)

// port is a bed with the service that exports and imports chats.
type port struct {
	*bed
	transfer *transfer.Service
}

func newPort(t *testing.T) *port {
	t.Helper()
	b := newBed(t)
	store := NewTransfer(b.server, b.limits, Enqueue{Fold: func(ctx context.Context, tx pgx.Tx, chatID uuid.UUID) error {
		if _, err := tx.Exec(ctx, "select 1 from river.river_job"); err != nil { // as the role that may insert jobs
			return err
		}
		b.folds <- chatID
		return nil
	}}, UserMemoriesOptions{})
	return &port{bed: b, transfer: transfer.New(transfer.Config{Store: store, Logger: slog.New(slog.DiscardHandler), TempDir: t.TempDir()})}
}

func unwatched(transfer.Progress) {}

func (p *port) importAs(user auth.Principal, file string) (transfer.Result, error) {
	return p.transfer.Import(p.t.Context(), user, strings.NewReader(file), unwatched)
}

// mustImport imports a file, which must succeed.
func (p *port) mustImport(user auth.Principal, file string) transfer.Result {
	return must(p.importAs(user, file))(p.t)
}

func (p *port) exportAs(user auth.Principal, chatID uuid.UUID, format string) (string, error) {
	export, err := p.transfer.Export(p.t.Context(), user, chatID)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	err = export.Write(p.t.Context(), &out, format)
	return out.String(), err
}

func (p *port) mustExport(user auth.Principal, chatID uuid.UUID, format string) string {
	return must(p.exportAs(user, chatID, format))(p.t)
}

// records reads a bundle.
func records(t reporter, text string) []bundle.Record {
	_, all, err := bundle.Open(strings.NewReader(text), int64(len(text)))
	if err != nil {
		t.Fatalf("%v", err)
	}
	var found []bundle.Record
	for record, err := range all {
		if err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		found = append(found, record)
	}
	return found
}

// reporter is what a test and a property have in common.
type reporter interface {
	Helper()
	Fatalf(format string, args ...any)
}

// A chat with everything is exported, imported for another user, and exported again as the same. A running reply and a file of
// no message stay behind.
func TestExportedChatComesInForAnotherUser(t *testing.T) {
	t.Parallel()
	p := newPort(t)
	chatID := p.chatWithEverything()
	other := p.newUser()
	for _, format := range []string{transfer.FormatLines, transfer.FormatObject} {
		text := p.mustExport(p.user, chatID, format)
		result := p.mustImport(other, text)
		if format == transfer.FormatObject {
			is(t, tuple(result.Skipped, result.Imported), tuple(1, 0), "the object is another chat than the lines: %+v", result)
		} else if result.Imported != 1 || result.Messages != 6 || result.Chats[0].ChatID == chatID || result.Chats[0].Title != "Everything" {
			t.Errorf("%+v", result)
		}
		again := p.mustExport(other, result.Chats[0].ChatID, format)
		is(t, alike(t, again), alike(t, text), "%s", format)
	}
	p.checkCounters()
	reply := rowsOf[struct {
		Content string
		Parts   []byte
		Tokens  int
	}](p, "select content, parts, token_count from messages where user_id = $1 and parts is not null", other.UserID)[0]
	is(t, reply.Tokens, text.Tokens(prompt.ReplyText(reply.Content, memory.ReadParts(reply.Parts))), "tokens of a reply with parts")
	is(t, ask[int](p, "select turn_count from chats where user_id = $1", other.UserID), 3, "turn_count")
	is(t, p.count("conversation_brief_revisions where user_id = $1", other.UserID), 0, "revisions were restored")
	seqs, files := []int64{}, 0
	for _, record := range records(t, p.mustExport(p.user, chatID, transfer.FormatLines)) {
		switch {
		case record.Message != nil:
			seqs = append(seqs, record.Message.Seq)
		case record.File != nil:
			files++
		}
	}
	is(t, tuple(seqs, files), tuple([]int64{1, 3, 4, 5, 6, 7}, 2), "messages, files")
	text := p.mustExport(p.user, chatID, transfer.FormatMarkdown)
	if strings.Count(text, "package main") != 1 || !strings.Contains(text, "File dir/3.go: the same as dir/1.go above.") ||
		!strings.Contains(text, "**Tool** (calculator)") || !strings.Contains(text, "Everything") || strings.Contains(text, "half") {
		t.Error(text)
	}
}

// chatWithEverything has files, a superseded reply, a gap in its seqs, a running reply, a revision of its
// brief, and a time to live.
func (p *port) chatWithEverything() uuid.UUID {
	p.t.Helper()
	chatID := p.newChat(2)
	p.exec(`update chats set title = 'Everything', system_prompt = 'Be kind.', metadata = '{"a": {"b": [1.50, null]}}', tags = '{x,"y, z"}',
		memory_strategy = 'hybrid', ttl_hours = 5, max_turns = 7, tool_name = 'debug' where id = $1`, chatID)
	p.mustCommit(p.claim(chatID))
	p.exec("delete from messages where chat_id = $1 and seq = 2", chatID)
	p.exec(`update messages set parts = '[{"type": "tool_call", "at": 1, "call_id": "a", "name": "f", "arguments": {}, "run": "client", "approval": false},
		{"type": "tool_result", "at": 1, "call_id": "a", "status": "done", "output": {"n": 1.50}}]' where chat_id = $1 and seq = 4`, chatID)
	p.exec(`insert into messages (id, chat_id, role, content, status, tool_calls, superseded_by, token_count, reply_to) values
		('11111111-1111-4111-8111-111111111111', $1, 'assistant', 'half', 'interrupted', '[{"id": "c"}]', '22222222-2222-4222-8222-222222222222', 0,
		  gen_random_uuid())`, chatID)
	p.exec(`insert into messages (id, chat_id, role, content, tool_call_id, name, pinned, importance, token_count, metadata) values
		('22222222-2222-4222-8222-222222222222', $1, 'tool', E'42\n', 'c', 'calculator', true, 0.25, $2, '{"x": "<&>"}')`, chatID, text.Tokens("[calculator] 42\n"))
	p.exec(`insert into chat_files (chat_id, user_id, sha256, content, token_count)
		select $1, $2, sha256(convert_to(c, 'UTF8')), c, 1 from unnest(array['package main', 'unused', '']) c`, chatID, p.user.UserID)
	p.exec(`insert into message_files (message_id, place, chat_id, user_id, path, sha256)
		select m.id, f.place, $1, $2, 'dir/' || f.place || '.go', sha256(convert_to(f.c, 'UTF8'))
		  from messages m, unnest(array['package main', '', 'package main']) with ordinality f (c, place) where m.chat_id = $1 and m.seq = 1`, chatID, p.user.UserID)
	running := turnIn(chatID, "and then?")
	p.start(running)
	return chatID
}

func TestExportOfWhatIsNotThere(t *testing.T) {
	t.Parallel()
	p := newPort(t)
	chatID := p.newChat(1)
	wantFault(t, errOf(p.exportAs(p.newUser(), chatID, transfer.FormatLines)), fault.ChatNotFound, "another user's")
	wantFault(t, errOf(p.exportAs(p.user, uuid.New(), transfer.FormatLines)), fault.ChatNotFound, "an unknown chat")
	p.exec("update chats set ttl_hours = 1, created_at = now() - interval '1 day', last_message_at = now() - interval '2 hours' where id = $1", chatID)
	_, err := p.exportAs(p.user, chatID, transfer.FormatLines)
	known, _ := errors.AsType[*fault.Error](err)
	assert.Truef(t, fault.CodeOf(err) == fault.ChatExpired && known.Details["chat_id"] == chatID && known.Details["expired_at"] != nil,
		"expired: %v", err)
}

// Pages end by rows and by bytes, and every message is on exactly one of them.
func TestLongChatsAreExportedWhole(t *testing.T) {
	t.Parallel()
	p := newPort(t)
	chatID := p.newChat(1)
	p.exec(`insert into messages (chat_id, role, content) select $1, 'user', 'number ' || n || repeat('x', case when n % 200 = 0 then 3000000 else 0 end)
		from generate_series(3, 1203) n`, chatID)
	next, long := int64(1), strings.Repeat("x", 3_000_000) // longer than an import takes
	for _, record := range records(t, strings.ReplaceAll(p.mustExport(p.user, chatID, transfer.FormatLines), long, "")) {
		if record.Message != nil {
			mustBe(t, record.Message.Seq, next, "seq … where … should be")
			next++
		}
	}
	is(t, next, 1204, "%d messages", next-1)
	params := dbsqlc.ExportMessagesParams{ChatID: chatID, AfterSeq: 300, LastSeq: 1203, MaxRows: exportRows, MaxBytes: exportBytes}
	var page []bundle.Message
	err := exportOf(p.pool, p.user)(t.Context(), func(batch *pgx.Batch) { dbsqlc.ExportMessages.Read(batch, params, all(&page)) })
	assert.Truef(t, err == nil && len(page) < exportRows && len(page[len(page)-1].Content) >= 3_000_000,
		"a page of %d messages, %v", len(page), err)
}

// An import does not overwrite what a user has chosen. Where long-term memory is off, chats come without memories.
func TestAnAccountComesToAnotherSetting(t *testing.T) {
	t.Parallel()
	p := newPort(t)
	p.fullAccount()
	text := p.mustAccount(p.user)
	other := p.newUser()
	p.exec("insert into memory_users (user_id, time_zone) values ($1, 'Asia/Tokyo')", other.UserID)
	p.mustImport(other, text)
	is(t, ask[string](p, "select concat_ws(' ', enabled, time_zone, language, excluded) from memory_users where user_id = $1", other.UserID),
		"t Asia/Tokyo de {health}", "settings")
	p.transfer.Store = NewTransfer(p.server, p.limits, Enqueue{
		Fold: func(context.Context, pgx.Tx, uuid.UUID) error { return nil }}, UserMemoriesOptions{Off: true})
	other = p.newUser()
	result := p.mustImport(other, text)
	is(t, tuple(result.Imported, result.Memories, result.SkippedMemories), tuple(2, 0, 3), "%+v", result)
	is(t, p.count("memories where user_id = $1", other.UserID), 0, "memories")
}

func hashOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

// encoded writes a bundle of lines, with the files in the order of an export.
func encoded(t reporter, chat bundle.Chat, files []bundle.File, messages []bundle.Message) string {
	var out bytes.Buffer
	lines := bundle.NewLines(&out)
	err := lines.Begin(time.Now(), chat)
	slices.SortFunc(files, func(a, b bundle.File) int { return strings.Compare(a.SHA256, b.SHA256) })
	for _, file := range files {
		if len(messages) > 0 {
			err = errors.Join(err, lines.Write(bundle.Record{File: &file}))
		}
	}
	for _, message := range messages {
		err = errors.Join(err, lines.Write(bundle.Record{Message: &message}))
	}
	if err := errors.Join(err, lines.End()); err != nil {
		t.Fatalf("%v", err)
	}
	return out.String()
}

// If a chat is deleted or edited during its export, the file does not end as if it were complete. A message stored after its
// beginning is not in it.
func TestExportOfAChatThatChanges(t *testing.T) {
	t.Parallel()
	p := newPort(t)
	for sql, want := range map[string]fault.Code{
		"delete from chats where id = $1":                                               fault.ChatNotFound,
		"delete from messages where chat_id = $1 and seq = 4":                           fault.NotReady,
		"update messages set superseded_by = id where chat_id = $1 and seq = 4":         fault.NotReady,
		"insert into messages (chat_id, role, content) values ($1, 'user', 'one more')": "",
	} {
		chatID := p.newChat(2)
		export := must(p.transfer.Export(t.Context(), p.user, chatID))(t)
		out := &during{now: func() { p.exec(sql, chatID) }}
		err := export.Write(t.Context(), out, transfer.FormatLines)
		is(t, tuple(fault.CodeOf(err), strings.Contains(out.String(), "one more")), tuple(want, false), "%s: %v", sql, err)
	}
}

func TestExportedMemoriesComeBack(t *testing.T) {
	t.Parallel()
	r := newRemembering(t)
	old, after := r.add("Lives in Lyon."), r.add("Lives in Porto.")
	r.change(r.add("Owned a kayak.").ID, api.MemoryChange{Status: new("archived")})
	r.exec(`update memories set status = 'superseded', valid_from = '2025-03-01', valid_to = '2026-03-01', valid_precision = 'month',
		retracted_at = now(), superseded_by = $2,
		lang = 'en', confidence = 0.5 where id = $1`, old.ID, after.ID)
	r.exec("insert into memories (user_id, content, created_at) select $1, 'Number ' || n || '.', '2026-01-01' from generate_series(1, $2) n",
		r.user.UserID, 2*exportedMemories)
	export := func(user auth.Principal) (all []bundle.Memory) {
		noError(t, r.memories.ExportMemories(t.Context(), user, func(memory bundle.Memory) error {
			all = append(all, memory)
			return nil
		}))
		return all
	}
	exported, other := export(r.user), r.newUser()
	mustBe(t, len(exported), 2*exportedMemories+3, "were exported")
	for _, want := range []api.ImportedMemories{{Imported: len(exported)}, {Skipped: len(exported)}} {
		is(t, must(r.memories.ImportMemories(t.Context(), other, exported))(t), want, "imported")
	}
	is(t, must(r.memories.ImportMemories(t.Context(), r.user, exported))(t).Imported, 0, "one's own")
	ids, imported := map[string]string{}, export(other)
	for _, memory := range slices.Concat(exported, imported) {
		ids[memory.ID] = memory.Content
	}
	anonymous := func(all []bundle.Memory) map[string]bundle.Memory {
		found := map[string]bundle.Memory{}
		for _, memory := range all {
			if memory.SupersededBy != nil {
				memory.SupersededBy = new(ids[*memory.SupersededBy])
			}
			memory.ID, memory.Origin, memory.Version, memory.UpdatedAt = "", "", 0, time.Time{}
			found[memory.Content] = memory
		}
		return found
	}
	is(t, anonymous(imported), anonymous(exported), "the result")
	for _, memory := range imported {
		is(t, tuple(memory.Origin, memory.Version), tuple("import", 1), "%+v", memory)
	}
}

// The same words are taken once. Memories of another program keep their identity: what the user changed since is not brought
// back.
func TestImportTakesTheSameWordsOnce(t *testing.T) {
	t.Parallel()
	r := newRemembering(t)
	r.add("Plays the cello.")
	imports := func(user auth.Principal, file string, want api.ImportedMemories) {
		t.Helper()
		found := must(bundle.ReadMemories(strings.NewReader(file), int64(len(file)), time.Now()))(t)
		is(t, must(r.memories.ImportMemories(t.Context(), user, found.Records))(t), want, "imported")
	}
	imports(r.user, `{"content":"plays the CELLO"}
{"content":"Prefers oat milk.","type":"preference","id":"0198a1f2-7c11-7d3e-9a44-5b0e6f1c2d31"}

{"content":"Prefers oat milk","confidence":0.2}
{"content":"Preferred soy milk.","status":"superseded","superseded_by":"0198A1F2-7c11-7d3e-9a44-5b0e6f1c2d31"}
{"content":"Prefers oat milk.","status":"superseded","superseded_by":"0198a1f2-7c11-7d3e-9a44-5b0e6f1c2d99"}
`, api.ImportedMemories{Imported: 3, Skipped: 2})
	is(t, ask[string](r, "select n.memory_type from memories o join memories n on n.id = o.superseded_by where o.content like '%soy%'"), "preference",
		"what took its place is a")
	is(t, r.count("memories where status = 'superseded' and superseded_by is null"), 1, "have no successor")
	others := `{"edges": [
		{"uuid": "e1", "fact": "Lives in Lyon.", "valid_at": "2024-05-01T00:00:00Z", "invalid_at": "2025-03-01T00:00:00Z", "created_at": "2025-01-10T12:00:00Z"},
		{"uuid": "e2", "fact": "Lives in Porto.", "valid_at": "2025-03-01T00:00:00Z", "created_at": "2025-03-02T09:00:00Z"}]}`
	imports(r.user, others, api.ImportedMemories{Imported: 2})
	is(t, ask[string](r, `select concat_ws(' ', status, origin, valid_from::date, valid_to::date, retracted_at::date, created_at::date)
		from memories where content = 'Lives in Lyon.'`), "superseded import 2024-05-01 2025-03-01 2025-03-01 2025-01-10", "the old fact")
	r.exec("update memories set content = 'Lives in Braga.' where content = 'Lives in Porto.'")
	imports(r.user, others, api.ImportedMemories{Skipped: 2})
	imports(r.newUser(), others, api.ImportedMemories{Imported: 2})
}

// A rule of the app's owner binds all that a user does with memories, and says so.
func TestOwnersRulesBindMemories(t *testing.T) {
	t.Parallel()
	r := rememberingOf(newOwnBed(t))
	kept := r.add("Plays the cello.")
	r.exec(`create policy paid on memories as restrictive for insert to throughline_app with check (false);
		create policy sealed on memories as restrictive for update to throughline_app using (false);
		create policy kept on memories as restrictive for delete to throughline_app using (false);
		create policy fixed on memory_users as restrictive for update to throughline_app using (enabled is null);`)
	ctx, imported := t.Context(), []bundle.Memory{{Content: "x", MemoryType: "fact", Status: "active", Confidence: new(1.0)}}
	for name, err := range map[string]error{
		"add":        errOf2(r.memories.AddMemory(ctx, r.user, api.NewMemory{Content: "Prefers oat milk."})),
		"change":     errOf(r.memories.ChangeMemory(ctx, r.user, kept.ID, api.MemoryChange{Pinned: new(true)})),
		"delete":     r.memories.DeleteMemory(ctx, r.user, kept.ID, api.MemoryDeletion{}),
		"delete all": errOf(r.memories.DeleteMemories(ctx, r.user)),
		"import":     errOf(r.memories.ImportMemories(ctx, r.user, imported)),
		"settings":   errOf(r.memories.ChangeMemorySettings(ctx, r.user, api.MemorySettingsChange{Enabled: new(false)})),
	} {
		wantFault(t, err, fault.ForbiddenByPolicy, "%s", name)
	}
	is(t, r.list(api.MemoriesQuery{}), []string{"Plays the cello."}, "left")
}

// A chat's memories go along with it, and are erased with its messages there as well.
func TestMemoriesTravelWithTheirChat(t *testing.T) {
	t.Parallel()
	p := newPort(t)
	r := rememberingOf(p.bed)
	chat, other := p.newChat(2), p.newChat(1)
	p.exec("update chats set remember = false where id = $1", chat)
	first, second, elsewhere := p.message(chat, 1), p.message(chat, 3), p.message(other, 1)
	old, after := r.said("Lives in Lyon.", first), r.said("Lives in Porto.", first, second, elsewhere)
	r.said("Plays the cello.", elsewhere)
	p.exec("update memories set status = 'superseded', superseded_by = $2, pinned = true where id = $1", old, after)
	r.add("Was never said.")
	for _, format := range []string{transfer.FormatLines, transfer.FormatObject} {
		r.user = p.newUser()
		if format == transfer.FormatObject {
			r.add("lives in porto")
		}
		found := func() []api.Memory {
			return must(r.memories.ListMemories(t.Context(), r.user, api.MemoriesQuery{Status: "all", Limit: 10}))(t).Memories
		}
		exported := p.mustExport(principalOf(t, ask[uuid.UUID](p, "select user_id from chats where id = $1", chat)), chat, format)
		made := p.mustImport(r.user, exported).Chats[0].ChatID
		is(t, p.mustImport(r.user, exported).Skipped, 1, "%s: again", format)
		is(t, ask[bool](p, "select remember from chats where id = $1", made), false, "%s: the temporary chat is none any more", format)
		byStatus := map[string]api.Memory{}
		for _, memory := range found() {
			byStatus[memory.Status] = memory
		}
		lyon, porto := byStatus["superseded"], byStatus["active"]
		mustBe(t, tuple(len(found()), len(lyon.Sources), len(porto.Sources)), tuple(2, 1, 2), "%s: memories, and their sources: %+v", format, byStatus)
		is(t, tuple(lyon.Pinned, *lyon.SupersededBy, porto.Sources[0].ChatID), tuple(true, porto.ID, made), "%s: %+v", format, byStatus)
		p.exec("delete from messages where chat_id = $1", made)
		is(t, len(found()) == 1, format == transfer.FormatObject, "%s: left is what the user wrote", format)
	}
}

// Which chats are remembered, and what becomes of memories when their chat is deleted.
func TestTemporaryChats(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	r := rememberingOf(s.bed)
	for _, remember := range []*bool{nil, new(true), new(false)} {
		made := s.create(api.NewChat{Remember: remember})
		is(t, made.Remember, remember == nil || *remember, "made %+v", made)
		changed := must(s.ChangeChat(t.Context(), s.user, made.ID, api.ChatChange{Remember: new(!made.Remember)}))(t)
		is(t, changed.Remember, !made.Remember, "changed %+v", changed)
		is(t, must(s.ChangeChat(t.Context(), s.user, made.ID, api.ChatChange{Title: api.To("x")}))(t).Remember, changed.Remember, "then")
	}
	turn := firstTurn("Forget this.")
	turn.Temporary = true
	s.start(turn)
	is(t, must(s.FindChat(t.Context(), s.user, turn.ChatID))(t).Remember, false, "a temporary chat")
	for _, keep := range []bool{true, false} {
		chat := s.newChat(1)
		id := r.said(fmt.Sprintf("Plays the cello: %v.", keep), s.message(chat, 1))
		noError(t, s.DeleteChat(t.Context(), s.user, chat, api.ChatDeletion{KeepMemories: keep}))
		kept, err := r.memories.FindMemory(t.Context(), s.user, id)
		if keep {
			is(t, tuple(err, kept.Origin, len(kept.Sources), kept.SourceSessionID == nil), tuple(nil, "user", 0, true), "kept")
			continue
		}
		wantFault(t, err, fault.MemoryNotFound, "not kept: %+v", kept)
	}
}
