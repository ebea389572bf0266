package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
)

// remembering is a bed with the user's memories.
type remembering struct {
	*bed
	memories *UserMemories
	// rebuilt are the chats whose rebuild was enqueued, embedded the users whose vectors were asked for.
	rebuilt, embedded chan uuid.UUID
}

func newRemembering(t *testing.T) *remembering {
	t.Helper()
	r := &remembering{bed: newBed(t), rebuilt: make(chan uuid.UUID, 1000), embedded: make(chan uuid.UUID, 10_000)}
	into := func(enqueued chan uuid.UUID) func(context.Context, pgx.Tx, uuid.UUID) error {
		return func(ctx context.Context, tx pgx.Tx, id uuid.UUID) error {
			enqueued <- id
			_, err := tx.Exec(ctx, "select 1 from river.river_job limit 1") // what only the server itself may read
			return err
		}
	}
	r.memories = NewUserMemories(r.pool, UserMemoriesOptions{Rebuild: into(r.rebuilt), Embed: into(r.embedded)})
	return r
}

func (r *remembering) add(content string) history.Memory {
	r.t.Helper()
	stored, added, err := r.memories.AddMemory(r.t.Context(), r.user, history.NewMemory{Content: content})
	if err != nil || !added {
		r.t.Fatalf("add: %v, %v", added, err)
	}
	return stored
}

func (r *remembering) change(id uuid.UUID, change history.MemoryChange) history.Memory {
	r.t.Helper()
	changed, err := r.memories.ChangeMemory(r.t.Context(), r.user, id, change)
	if err != nil {
		r.t.Fatal(err)
	}
	return changed
}

// said makes a memory that was extracted from messages.
func (r *remembering) said(content string, messages ...uuid.UUID) uuid.UUID {
	r.t.Helper()
	r.exec("insert into memory_users (user_id) values ($1) on conflict do nothing", r.user.UserID)
	id := ask[uuid.UUID](r.bed, "insert into memories (user_id, content, confidence) values ($1, $2, 0.6) returning id", r.user.UserID, content)
	r.exec(`insert into memory_sources (memory_id, message_id, user_id, chat_id, seq, fact, quote, said_at)
		select $1, m.id, m.user_id, m.chat_id, m.seq, $2, left(m.content, 100), m.created_at from messages m where m.id = any ($3)`, id, content, messages)
	return id
}

func (r *remembering) list(query history.MemoriesQuery) []string {
	r.t.Helper()
	if err := query.Check(); err != nil {
		r.t.Fatal(err)
	}
	page, err := r.memories.ListMemories(r.t.Context(), r.user, query)
	if err != nil {
		r.t.Fatal(err)
	}
	contents := []string{}
	for _, memory := range page.Memories {
		contents = append(contents, memory.Content)
	}
	return contents
}

// actions are those of a memory's history: "1 ADD user: the user wrote it".
func (r *remembering) actions(id uuid.UUID) []string {
	r.t.Helper()
	made, err := r.memories.MemoryHistory(r.t.Context(), r.user, id)
	if err != nil {
		r.t.Fatal(err)
	}
	lines := []string{}
	for _, revision := range made.Revisions {
		lines = append(lines, fmt.Sprintf("%d %s %s: %s", revision.Version, revision.Action, revision.Actor, revision.Reason))
	}
	return lines
}

func TestMemoryIsWrittenChangedAndDeleted(t *testing.T) {
	t.Parallel()
	r := newRemembering(t)
	made, added, err := r.memories.AddMemory(t.Context(), r.user, history.NewMemory{
		Content: "Prefers oat milk.", Type: new("preference"), Durable: new(true), Pinned: new(true),
	})
	if err != nil || !added || made.Content != "Prefers oat milk." || made.MemoryType != "preference" || !made.Durable || !made.Pinned || made.Status != "active" ||
		made.Origin != "user" || made.Edited || made.Confidence != 1 || made.Version != 1 || len(made.Sources) != 0 || made.Sources == nil {
		t.Fatalf("made %+v, %v", made, err)
	}
	if len(r.embedded) != 1 || <-r.embedded != r.user.UserID {
		t.Error("no vector was asked for")
	}
	changed := r.change(made.ID, history.MemoryChange{Content: new("Prefers oat milk in coffee."), Durable: new(false)})
	if !changed.Edited || changed.Content != "Prefers oat milk in coffee." || changed.Durable || !changed.Pinned || changed.Version != 2 {
		t.Errorf("changed %+v", changed)
	}
	if same := r.change(made.ID, history.MemoryChange{Content: &changed.Content, Pinned: new(true)}); same.Version != 2 {
		t.Errorf("a change of nothing made version %d", same.Version)
	}
	r.change(made.ID, history.MemoryChange{Status: new("archived")})
	r.change(made.ID, history.MemoryChange{Status: new("active")})
	r.change(made.ID, history.MemoryChange{Pinned: new(false)})
	want := []string{
		"1 ADD user: the user wrote it", "2 EDIT user: the user changed the words", "3 ARCHIVE user: the user put it away",
		"4 RESTORE user: the user brought it back", "5 EDIT user: the user changed its settings",
	}
	if diff := cmp.Diff(want, r.actions(made.ID)); diff != "" {
		t.Error(diff)
	}
	if err := r.memories.DeleteMemory(t.Context(), r.user, made.ID, history.MemoryDeletion{}); err != nil {
		t.Fatal(err)
	}
	if left := ask[int](r.bed, "select (select count(*) from memories) + (select count(*) from memory_revisions)"); left != 0 {
		t.Errorf("%d rows are left", left)
	}
	if version := ask[int](r.bed, "select version from memory_users"); version != 7 {
		t.Errorf("the user's version is %d after 7 requests that may change something", version)
	}
}

func TestWhatIsNotThereIsNoMemory(t *testing.T) {
	t.Parallel()
	r := newRemembering(t)
	mine := r.add("Plays the cello.").ID
	stranger := r.newUser()
	for name, as := range map[string]struct {
		user auth.Principal
		id   uuid.UUID
	}{"unknown": {r.user, uuid.New()}, "another user's": {stranger, mine}, "the nil id": {r.user, uuid.Nil}} {
		_, errFind := r.memories.FindMemory(t.Context(), as.user, as.id)
		_, errChange := r.memories.ChangeMemory(t.Context(), as.user, as.id, history.MemoryChange{Pinned: new(true)})
		_, errHistory := r.memories.MemoryHistory(t.Context(), as.user, as.id)
		errDelete := r.memories.DeleteMemory(t.Context(), as.user, as.id, history.MemoryDeletion{Also: history.AlsoSummaries})
		for _, err := range []error{errFind, errChange, errHistory, errDelete} {
			if fault.CodeOf(err) != fault.MemoryNotFound {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	forgotten, err := r.memories.ForgetMemories(t.Context(), stranger, []history.MemoryVersion{{ID: mine, Version: 1}})
	deleted, errAll := r.memories.DeleteMemories(t.Context(), stranger)
	page, errList := r.memories.ListMemories(t.Context(), stranger, history.MemoriesQuery{Status: history.StatusAll, Limit: 10})
	export, errExport := r.memories.ExportMemories(t.Context(), stranger, nil)
	if err := errors.Join(err, errAll, errList, errExport); err != nil || forgotten+int(deleted.Memories)+len(page.Memories)+len(export) != 0 {
		t.Errorf("a stranger: %d %+v %+v %v, %v", forgotten, deleted, page, export, err)
	}
	if got := r.list(history.MemoriesQuery{}); !slices.Equal(got, []string{"Plays the cello."}) {
		t.Errorf("left are %v", got)
	}
}

func TestAnAccountThatIsGoneRemembersNothing(t *testing.T) {
	t.Parallel()
	r := newRemembering(t)
	gone := principalOf(t, uuid.New())
	_, _, err := r.memories.AddMemory(t.Context(), gone, history.NewMemory{Content: "x"})
	_, errSettings := r.memories.ChangeMemorySettings(t.Context(), gone, history.MemorySettingsChange{Enabled: new(false)})
	_, errAll := r.memories.DeleteMemories(t.Context(), gone)
	for _, err := range []error{err, errSettings, errAll} {
		if fault.CodeOf(err) != fault.UserNotFound {
			t.Errorf("%v", err)
		}
	}
}

// The same words, however they are spelt, are one memory: a request that is sent again makes no second one.
func TestTheSameWordsAreOneMemory(t *testing.T) {
	t.Parallel()
	r := newRemembering(t)
	first := r.add("Prefers oat milk.")
	again, added, err := r.memories.AddMemory(t.Context(), r.user, history.NewMemory{Content: "prefers  OAT milk"})
	if err != nil || added || again.ID != first.ID || again.Version != 1 || again.Content != "Prefers oat milk." {
		t.Errorf("again: %+v, %v, %v", again, added, err)
	}
	pinned, added, err := r.memories.AddMemory(t.Context(), r.user, history.NewMemory{Content: "Prefers oat milk.", Pinned: new(true), Type: new("preference")})
	if err != nil || added || pinned.ID != first.ID || !pinned.Pinned || pinned.MemoryType != "preference" || pinned.Version != 2 {
		t.Errorf("pinned: %+v, %v, %v", pinned, added, err)
	}
	for _, status := range []string{"archived", "inbox"} {
		r.change(first.ID, history.MemoryChange{Status: &status})
		back, added, err := r.memories.AddMemory(t.Context(), r.user, history.NewMemory{Content: "Prefers oat milk."})
		if err != nil || added || back.ID != first.ID || back.Status != "active" {
			t.Errorf("%s: %+v, %v, %v", status, back, added, err)
		}
	}
	r.exec("update memories set status = 'superseded'")
	anew, added, err := r.memories.AddMemory(t.Context(), r.user, history.NewMemory{Content: "Prefers oat milk."})
	if err != nil || !added || anew.ID == first.ID {
		t.Errorf("true again: %+v, %v, %v", anew, added, err)
	}
}

func TestNoChangeMakesTwoMemoriesOfTheSameWords(t *testing.T) {
	t.Parallel()
	r := newRemembering(t)
	one, two := r.add("Plays the cello."), r.add("Plays the viola.")
	_, err := r.memories.ChangeMemory(t.Context(), r.user, two.ID, history.MemoryChange{Content: new("plays the cello")})
	if known, ok := errors.AsType[*fault.Error](err); !ok || known.Code != fault.MemoryExists || known.Details["memory_id"] != one.ID {
		t.Errorf("a twin: %v", err)
	}
	if spelt := r.change(one.ID, history.MemoryChange{Content: new("PLAYS the cello!")}); spelt.Content != "PLAYS the cello!" {
		t.Errorf("its own words in another spelling: %+v", spelt)
	}
	put := r.change(two.ID, history.MemoryChange{Status: new("archived")})
	if put = r.change(put.ID, history.MemoryChange{Content: new("plays the cello")}); put.Status != "archived" {
		t.Errorf("archived: %+v", put)
	}
	if _, err := r.memories.ChangeMemory(t.Context(), r.user, two.ID, history.MemoryChange{Status: new("active")}); fault.CodeOf(err) != fault.MemoryExists {
		t.Errorf("a twin comes back: %v", err)
	}
	if got := r.list(history.MemoriesQuery{}); len(got) != 1 {
		t.Errorf("listed %v", got)
	}
}

func TestTheInboxIsConfirmed(t *testing.T) {
	t.Parallel()
	r := newRemembering(t)
	chat := r.newChat(1)
	id := r.said("Is called Ilse.", ask[uuid.UUID](r.bed, "select id from messages where chat_id = $1 and seq = 1", chat))
	r.exec("update memories set status = 'inbox', confidence = 0.3 where id = $1", id)
	confirmed := r.change(id, history.MemoryChange{Status: new("active")})
	if confirmed.Status != "active" || confirmed.Confidence != 1 || confirmed.Edited || confirmed.Origin != "extracted" {
		t.Errorf("%+v", confirmed)
	}
	if len(confirmed.Sources) != 1 || confirmed.Sources[0].ChatID != chat || confirmed.Sources[0].Seq != 1 || confirmed.Sources[0].Quote == "" || confirmed.Sources[0].SaidAt.IsZero() {
		t.Errorf("its sources are %+v", confirmed.Sources)
	}
	made := r.actions(id)
	if last := made[len(made)-1]; !strings.HasSuffix(last, "EDIT user: the user confirmed it") {
		t.Errorf("%q", last)
	}
}

func TestWhatWasSupersededIsTrueAgain(t *testing.T) {
	t.Parallel()
	r := newRemembering(t)
	old, after := r.add("Lives in Lyon."), r.add("Lives in Porto.")
	r.exec("update memories set status = 'superseded', valid_to = now(), retracted_at = now(), superseded_by = $2 where id = $1", old.ID, after.ID)
	back := r.change(old.ID, history.MemoryChange{Status: new("active")})
	if back.Status != "active" || back.ValidTo != nil || back.RetractedAt != nil || back.SupersededBy != nil {
		t.Errorf("%+v", back)
	}
}

// What a user wrote over stays away when a source of the memory is deleted.
func TestEditedWordsStayAway(t *testing.T) {
	t.Parallel()
	r := newRemembering(t)
	chat := r.newChat(2)
	said := ask[[]uuid.UUID](r.bed, "select array_agg(id order by seq) from messages where chat_id = $1 and role = 'user'", chat)
	id := r.said("Is allergic to walnuts.", said...)
	r.change(id, history.MemoryChange{Content: new("Is allergic to hazelnuts.")})
	r.exec("delete from messages where id = $1", said[1])
	if got := r.list(history.MemoriesQuery{}); !slices.Equal(got, []string{"Is allergic to hazelnuts."}) {
		t.Errorf("listed %v", got)
	}
}
