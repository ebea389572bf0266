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
	for n := range 2 * exportedMemories {
		r.exec("insert into memories (user_id, content, created_at) values ($1, $2, '2026-01-01')", r.user.UserID, fmt.Sprintf("Number %d.", n))
	}
	export := func(user auth.Principal) []bundle.Memory {
		var all []bundle.Memory
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
	exported := export(r.user)
	mustBe(t, len(exported), 2*exportedMemories+3, "were exported")
	other := r.newUser()
	for _, want := range []history.ImportedMemories{{Imported: len(exported)}, {Skipped: len(exported)}} {
		if done, err := r.memories.ImportMemories(t.Context(), other, exported); err != nil || done != want {
			t.Errorf("%+v, %v", done, err)
		}
	}
	is(t, must(r.memories.ImportMemories(t.Context(), r.user, exported))(t).Imported, 0, "one's own")
	ids := map[string]string{}
	imported := export(other)
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
	_, _, errAdd := r.memories.AddMemory(t.Context(), r.user, history.NewMemory{Content: "Prefers oat milk."})
	_, errChange := r.memories.ChangeMemory(t.Context(), r.user, kept.ID, history.MemoryChange{Pinned: new(true)})
	errDelete := r.memories.DeleteMemory(t.Context(), r.user, kept.ID, history.MemoryDeletion{})
	_, errAll := r.memories.DeleteMemories(t.Context(), r.user)
	_, errImport := r.memories.ImportMemories(t.Context(), r.user, []bundle.Memory{{Content: "x", MemoryType: "fact", Status: "active", Confidence: new(1.0)}})
	_, errSettings := r.memories.ChangeMemorySettings(t.Context(), r.user, history.MemorySettingsChange{Enabled: new(false)})
	for name, err := range map[string]error{"add": errAdd, "change": errChange, "delete": errDelete, "delete all": errAll, "import": errImport,
		"settings": errSettings} {
		is(t, fault.CodeOf(err), fault.ForbiddenByPolicy, "%s: %v", name, err)
	}
	is(t, r.list(history.MemoriesQuery{}), []string{"Plays the cello."}, "left")
}

// What was said in a chat goes along with it, and is erased with its messages there as well.
func TestMemoriesTravelWithTheirChat(t *testing.T) {
	t.Parallel()
	p := newPort(t)
	r := &remembering{bed: p.bed, memories: NewUserMemories(p.pool, UserMemoriesOptions{})}
	chat, other := p.newChat(2), p.newChat(1)
	p.exec("update chats set remember = false where id = $1", chat)
	asked := ask[[]uuid.UUID](p, "select array_agg(id order by seq) from messages where chat_id = $1 and role = 'user'", chat)
	elsewhere := ask[uuid.UUID](p, "select id from messages where chat_id = $1 and seq = 1", other)
	old, after := r.said("Lives in Lyon.", asked[0]), r.said("Lives in Porto.", append(asked, elsewhere)...)
	r.said("Plays the cello.", elsewhere)
	p.exec("update memories set status = 'superseded', superseded_by = $2, pinned = true where id = $1", old, after)
	r.add("Was never said.")
	receiver := p.newUser()
	for _, format := range []string{transfer.FormatLines, transfer.FormatObject} {
		user := receiver
		if format == transfer.FormatObject {
			user = p.newUser()
			stored, _, err := r.memories.AddMemory(t.Context(), user, history.NewMemory{Content: "lives in porto"})
			if err != nil || stored.Origin != "user" {
				t.Fatal(err)
			}
		}
		made := p.mustImport(user, p.mustExport(p.user, chat, format)).Chats[0].ChatID
		is(t, p.mustImport(user, p.mustExport(p.user, chat, format)).Skipped, 1, "%s: again", format)
		remember := ask[bool](p, "select remember from chats where id = $1", made)
		is(t, remember, false, "%s: the temporary chat is none any more", format)
		page, err := r.memories.ListMemories(t.Context(), user, history.MemoriesQuery{Status: "all", Limit: 10})
		mustBe(t, tuple(err, len(page.Memories)), tuple(nil, 2), "%s: %+v", format, page)
		byStatus := map[string]history.Memory{}
		for _, memory := range page.Memories {
			byStatus[memory.Status] = memory
		}
		lyon, porto := byStatus["superseded"], byStatus["active"]
		if !lyon.Pinned || lyon.SupersededBy == nil || *lyon.SupersededBy != porto.ID || len(lyon.Sources) != 1 || len(porto.Sources) != 2 ||
			porto.Sources[0].ChatID != made {
			t.Errorf("%s: %+v and %+v", format, lyon, porto)
		}
		p.exec("delete from messages where chat_id = $1", made)
		page, err = r.memories.ListMemories(t.Context(), user, history.MemoriesQuery{Status: "all", Limit: 10})
		if left := len(page.Memories); err != nil || (left == 1) != (format == transfer.FormatObject) || left > 1 {
			t.Errorf("%s: %d are left, %v", format, left, err) // what the user wrote stays
		}
	}
}

func TestMemoriesOutliveTheirChatWhenTheyAreKept(t *testing.T) {
	t.Parallel()
	r := newRemembering(t)
	store := NewHistory(r.pool, r.limits, Enqueue{}, nil)
	for _, keep := range []bool{true, false} {
		chat := r.newChat(1)
		id := r.said(fmt.Sprintf("Plays the cello: %v.", keep), ask[uuid.UUID](r, "select id from messages where chat_id = $1 and seq = 1", chat))
		noError(t, store.DeleteChat(t.Context(), r.user, chat, history.ChatDeletion{KeepMemories: keep}))
		kept, err := r.memories.FindMemory(t.Context(), r.user, id)
		switch {
		case keep && (err != nil || kept.Origin != "user" || len(kept.Sources) != 0 || kept.SourceSessionID != nil):
			t.Errorf("kept %+v, %v", kept, err)
		case !keep && fault.CodeOf(err) != fault.MemoryNotFound:
			t.Errorf("not kept: %+v, %v", kept, err)
		}
	}
}

func TestTemporaryChats(t *testing.T) {
	t.Parallel()
	r := newRemembering(t)
	store := NewHistory(r.pool, r.limits, Enqueue{}, nil)
	for _, remember := range []*bool{nil, new(true), new(false)} {
		made, err := store.CreateChat(t.Context(), r.user, history.NewChat{MemoryStrategy: "summary", Remember: remember, Tags: []string{}})
		if err != nil || made.Remember != (remember == nil || *remember) {
			t.Errorf("made %+v, %v", made, err)
		}
		changed, err := store.ChangeChat(t.Context(), r.user, made.ID, history.ChatChange{Remember: new(!made.Remember)})
		if err != nil || changed.Remember == made.Remember {
			t.Errorf("changed %+v, %v", changed, err)
		}
		is(t, must(store.ChangeChat(t.Context(), r.user, made.ID, history.ChatChange{Title: history.To("x")}))(t).Remember, changed.Remember, "then")
	}
	turn := firstTurn("Forget this.")
	turn.Temporary = true
	r.start(turn)
	found := must(store.FindChat(t.Context(), r.user, turn.ChatID))(t)
	is(t, found.Remember, false, "%+v", found)
}
