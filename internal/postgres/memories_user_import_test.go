package postgres

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/bundle"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/transfer"
)

func TestExportedMemoriesComeBack(t *testing.T) {
	t.Parallel()
	r := newRemembering(t)
	old, after := r.add("Lives in Lyon."), r.add("Lives in Porto.")
	r.change(r.add("Owned a kayak.").ID, history.MemoryChange{Status: new("archived")})
	r.exec(`update memories set status = 'superseded', valid_from = '2025-03-01', valid_to = '2026-03-01', valid_precision = 'month',
		retracted_at = now(), superseded_by = $2,
		lang = 'en', confidence = 0.5 where id = $1`, old.ID, after.ID)
	r.exec("insert into memories (user_id, content, created_at) select $1, 'Number ' || n || '.', '2026-01-01' from generate_series(1, $2) n",
		r.user.UserID, 2*exportedMemories)
	export := func(user auth.Principal) (all []bundle.Memory) {
		var after *history.MemoryCursor
		for {
			page := must(r.memories.ExportMemories(t.Context(), user, after))(t)
			if len(page) == 0 {
				return all
			}
			all = append(all, page...)
			last := page[len(page)-1]
			after = &history.MemoryCursor{At: last.CreatedAt, ID: uuid.MustParse(last.ID)}
		}
	}
	exported, other := export(r.user), r.newUser()
	mustBe(t, len(exported), 2*exportedMemories+3, "were exported")
	for _, want := range []history.ImportedMemories{{Imported: len(exported)}, {Skipped: len(exported)}} {
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
	is(t, anonymous(imported), anonymous(exported), "what is found")
	for _, memory := range imported {
		is(t, tuple(memory.Origin, memory.Version), tuple("import", 1), "%+v", memory)
	}
}

func TestImportTakesTheSameWordsOnce(t *testing.T) {
	t.Parallel()
	r := newRemembering(t)
	r.add("Plays the cello.")
	file := `{"content":"plays the CELLO"}
{"content":"Prefers oat milk.","type":"preference","id":"0198a1f2-7c11-7d3e-9a44-5b0e6f1c2d31"}

{"content":"Prefers oat milk","confidence":0.2}
{"content":"Preferred soy milk.","status":"superseded","superseded_by":"0198A1F2-7c11-7d3e-9a44-5b0e6f1c2d31"}
{"content":"Prefers oat milk.","status":"superseded","superseded_by":"0198a1f2-7c11-7d3e-9a44-5b0e6f1c2d99"}
`
	if done, err := r.memories.ImportMemories(t.Context(), r.user, readMemories(t, file)); err != nil ||
		done != (history.ImportedMemories{Imported: 3, Skipped: 2}) {
		t.Errorf("%+v, %v", done, err)
	}
	is(t, ask[string](r, "select n.memory_type from memories o join memories n on n.id = o.superseded_by where o.content like '%soy%'"), "preference",
		"what took its place is a")
	is(t, r.count("memories where status = 'superseded' and superseded_by is null"), 1, "have no successor")
}

func readMemories(t *testing.T, text string) []bundle.Memory {
	t.Helper()
	file := must(bundle.ReadMemories(strings.NewReader(text), int64(len(text)), time.Now()))(t)
	return file.Records
}

// Memories of another program keep their identity: what the user changed since is not brought back.
func TestMemoriesOfAnotherProgramComeOnce(t *testing.T) {
	t.Parallel()
	r := newRemembering(t)
	records := readMemories(t, `{"edges": [
		{"uuid": "e1", "fact": "Lives in Lyon.", "valid_at": "2024-05-01T00:00:00Z", "invalid_at": "2025-03-01T00:00:00Z", "created_at": "2025-01-10T12:00:00Z"},
		{"uuid": "e2", "fact": "Lives in Porto.", "valid_at": "2025-03-01T00:00:00Z", "created_at": "2025-03-02T09:00:00Z"}]}`)
	done := must(r.memories.ImportMemories(t.Context(), r.user, records))(t)
	mustBe(t, done.Imported, 2, "%+v", done)
	if past := ask[string](r, `select concat_ws(' ', status, origin, valid_from::date, valid_to::date, retracted_at::date, created_at::date)
		from memories where content = 'Lives in Lyon.'`); past != "superseded import 2024-05-01 2025-03-01 2025-03-01 2025-01-10" {
		t.Errorf("what was true: %s", past)
	}
	r.exec("update memories set content = 'Lives in Braga.' where content = 'Lives in Porto.'")
	is(t, must(r.memories.ImportMemories(t.Context(), r.user, records))(t), (history.ImportedMemories{Skipped: 2}), "again")
	other := r.newUser()
	is(t, must(r.memories.ImportMemories(t.Context(), other, records))(t).Imported, 2, "another user")
}

// A rule of the app's owner binds whatever a user does with memories, and says so.
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
		"add":        errOf2(r.memories.AddMemory(ctx, r.user, history.NewMemory{Content: "Prefers oat milk."})),
		"change":     errOf(r.memories.ChangeMemory(ctx, r.user, kept.ID, history.MemoryChange{Pinned: new(true)})),
		"delete":     r.memories.DeleteMemory(ctx, r.user, kept.ID, history.MemoryDeletion{}),
		"delete all": errOf(r.memories.DeleteMemories(ctx, r.user)),
		"import":     errOf(r.memories.ImportMemories(ctx, r.user, imported)),
		"settings":   errOf(r.memories.ChangeMemorySettings(ctx, r.user, history.MemorySettingsChange{Enabled: new(false)})),
	} {
		wantFault(t, err, fault.ForbiddenByPolicy, "%s", name)
	}
	is(t, r.list(history.MemoriesQuery{}), []string{"Plays the cello."}, "left")
}

// What was said in a chat goes along with it, and is erased with its messages there as well.
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
		found := func() []history.Memory {
			return must(r.memories.ListMemories(t.Context(), r.user, history.MemoriesQuery{Status: "all", Limit: 10}))(t).Memories
		}
		exported := p.mustExport(principalOf(t, ask[uuid.UUID](p, "select user_id from chats where id = $1", chat)), chat, format)
		made := p.mustImport(r.user, exported).Chats[0].ChatID
		is(t, p.mustImport(r.user, exported).Skipped, 1, "%s: again", format)
		is(t, ask[bool](p, "select remember from chats where id = $1", made), false, "%s: the temporary chat is none any more", format)
		byStatus := map[string]history.Memory{}
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
		made := s.create(history.NewChat{Remember: remember})
		is(t, made.Remember, remember == nil || *remember, "made %+v", made)
		changed := must(s.ChangeChat(t.Context(), s.user, made.ID, history.ChatChange{Remember: new(!made.Remember)}))(t)
		is(t, changed.Remember, !made.Remember, "changed %+v", changed)
		is(t, must(s.ChangeChat(t.Context(), s.user, made.ID, history.ChatChange{Title: history.To("x")}))(t).Remember, changed.Remember, "then")
	}
	turn := firstTurn("Forget this.")
	turn.Temporary = true
	s.start(turn)
	is(t, must(s.FindChat(t.Context(), s.user, turn.ChatID))(t).Remember, false, "a temporary chat")
	for _, keep := range []bool{true, false} {
		chat := s.newChat(1)
		id := r.said(fmt.Sprintf("Plays the cello: %v.", keep), s.message(chat, 1))
		noError(t, s.DeleteChat(t.Context(), s.user, chat, history.ChatDeletion{KeepMemories: keep}))
		kept, err := r.memories.FindMemory(t.Context(), s.user, id)
		if keep {
			is(t, tuple(err, kept.Origin, len(kept.Sources), kept.SourceSessionID == nil), tuple(nil, "user", 0, true), "kept")
			continue
		}
		wantFault(t, err, fault.MemoryNotFound, "not kept: %+v", kept)
	}
}
