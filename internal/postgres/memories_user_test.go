package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/transfer/bundle"
)

// remembering is a bed with the user's memories.
type remembering struct {
	*bed
	memories *UserMemories
	// embedded are the users whose vectors were asked for.
	embedded chan uuid.UUID
}

func newRemembering(t *testing.T) *remembering {
	t.Helper()
	return rememberingOf(newBed(t))
}

func rememberingOf(b *bed) *remembering {
	r := &remembering{bed: b, embedded: make(chan uuid.UUID, 10_000)}
	r.memories = &UserMemories{Pool: r.server, Options: UserMemoriesOptions{Embed: func(ctx context.Context, tx pgx.Tx, id uuid.UUID) error {
		r.embedded <- id
		_, err := tx.Exec(ctx, "select 1 from river.river_job limit 1") // what only the server itself may read
		return err
	}}}
	return r
}

func (r *remembering) add(content string) api.Memory {
	r.t.Helper()
	stored, added, err := r.memories.AddMemory(r.t.Context(), r.user, api.NewMemory{Content: content})
	mustBe(r.t, tuple(err, added), tuple(nil, true), "add")
	return stored
}

func (r *remembering) find(id uuid.UUID) api.Memory {
	return must(r.memories.FindMemory(r.t.Context(), r.user, id))(r.t)
}

func (r *remembering) change(id uuid.UUID, change api.MemoryChange) api.Memory {
	return must(r.memories.ChangeMemory(r.t.Context(), r.user, id, change))(r.t)
}

// said makes a memory that was extracted from messages.
func (r *remembering) said(content string, messages ...uuid.UUID) uuid.UUID {
	r.exec("insert into memory_users (user_id) values ($1) on conflict do nothing", r.user.UserID)
	id := ask[uuid.UUID](r, "insert into memories (user_id, content, confidence) values ($1, $2, 0.6) returning id", r.user.UserID, content)
	r.exec(`insert into memory_sources (memory_id, message_id, user_id, chat_id, seq, fact, quote, said_at)
		select $1, m.id, m.user_id, m.chat_id, m.seq, $2, left(m.content, 100), m.created_at from messages m where m.id = any ($3)`, id, content, messages)
	return id
}

func (r *remembering) list(query api.MemoriesQuery) []string {
	noError(r.t, api.Check(&query))
	page := must(r.memories.ListMemories(r.t.Context(), r.user, query))(r.t)
	contents := []string{}
	for _, memory := range page.Memories {
		contents = append(contents, memory.Content)
	}
	return contents
}

// actions are those of a memory's history: "1 ADD user: the user wrote it".
func (r *remembering) actions(id uuid.UUID) []string {
	made := must(r.memories.MemoryHistory(r.t.Context(), r.user, id))(r.t)
	lines := []string{}
	for _, revision := range made.Revisions {
		lines = append(lines, fmt.Sprintf("%d %s %s: %s", revision.Version, revision.Action, revision.Actor, revision.Reason))
	}
	return lines
}

func TestMemoryIsWrittenChangedAndDeleted(t *testing.T) {
	t.Parallel()
	r := newRemembering(t)
	made, added, err := r.memories.AddMemory(t.Context(), r.user, api.NewMemory{
		Content: "Prefers oat milk.", Type: new("preference"), Durable: new(true), Pinned: new(true),
	})
	if err != nil || !added || made.Content != "Prefers oat milk." || made.MemoryType != "preference" || !made.Durable || !made.Pinned ||
		made.Status != "active" ||
		made.Origin != "user" || made.Edited || made.Confidence != 1 || made.Version != 1 || len(made.Sources) != 0 || made.Sources == nil {
		t.Fatalf("made %+v, %v", made, err)
	}
	assert.True(t, len(r.embedded) == 1 && <-r.embedded == r.user.UserID, "no vector was asked for")
	changed := r.change(made.ID, api.MemoryChange{Content: new("Prefers oat milk in coffee."), Durable: new(false)})
	is(t, tuple(changed.Edited, changed.Content, changed.Durable, changed.Pinned, changed.Version),
		tuple(true, "Prefers oat milk in coffee.", false, true, 2), "changed %+v", changed)
	is(t, r.change(made.ID, api.MemoryChange{Content: &changed.Content, Pinned: new(true)}).Version, 2, "a change of nothing made version")
	r.change(made.ID, api.MemoryChange{Status: new("archived")})
	r.change(made.ID, api.MemoryChange{Status: new("active")})
	r.change(made.ID, api.MemoryChange{Pinned: new(false)})
	want := []string{
		"1 ADD user: the user wrote it", "2 EDIT user: the user changed the words", "3 ARCHIVE user: the user put it away",
		"4 RESTORE user: the user brought it back", "5 EDIT user: the user changed its settings",
	}
	is(t, r.actions(made.ID), want, "the result")
	noError(t, r.memories.DeleteMemory(t.Context(), r.user, made.ID, api.MemoryDeletion{}))
	is(t, ask[int](r, "select (select count(*) from memories) + (select count(*) from memory_revisions)"), 0, "rows are left")
	is(t, ask[int](r, "select version from memory_users"), 7, "the user's version is … after 7 requests that may change something")
}

func TestWhatIsNotThereIsNoMemory(t *testing.T) {
	t.Parallel()
	r := newRemembering(t)
	mine := r.add("Plays the cello.").ID
	stranger, gone := r.newUser(), principalOf(t, uuid.New())
	for name, as := range map[string]struct {
		user auth.Principal
		id   uuid.UUID
	}{"unknown": {r.user, uuid.New()}, "another user's": {stranger, mine}, "the nil id": {r.user, uuid.Nil}} {
		for _, err := range []error{
			errOf(r.memories.FindMemory(t.Context(), as.user, as.id)),
			errOf(r.memories.ChangeMemory(t.Context(), as.user, as.id, api.MemoryChange{Pinned: new(true)})),
			errOf(r.memories.MemoryHistory(t.Context(), as.user, as.id)),
			r.memories.DeleteMemory(t.Context(), as.user, as.id, api.MemoryDeletion{Also: api.AlsoSummaries}),
		} {
			wantFault(t, err, fault.MemoryNotFound, "%s", name)
		}
	}
	forgotten, err := r.memories.ForgetMemories(t.Context(), stranger, []api.MemoryVersion{{ID: mine, Version: 1}})
	deleted, errAll := r.memories.DeleteMemories(t.Context(), stranger)
	page, errList := r.memories.ListMemories(t.Context(), stranger, api.MemoriesQuery{Status: api.StatusAll, Limit: 10})
	var export []bundle.Memory
	errExport := r.memories.ExportMemories(t.Context(), stranger, func(memory bundle.Memory) error {
		export = append(export, memory)
		return nil
	})
	if err := errors.Join(err, errAll, errList, errExport); err != nil || forgotten+int(deleted.Memories)+len(page.Memories)+len(export) != 0 {
		t.Errorf("a stranger: %d %+v %+v %v, %v", forgotten, deleted, page, export, err)
	}
	is(t, r.list(api.MemoriesQuery{}), []string{"Plays the cello."}, "left")
	for _, err := range []error{
		errOf2(r.memories.AddMemory(t.Context(), gone, api.NewMemory{Content: "x"})),
		errOf(r.memories.ChangeMemorySettings(t.Context(), gone, api.MemorySettingsChange{Enabled: new(false)})),
		errOf(r.memories.DeleteMemories(t.Context(), gone)),
	} {
		wantFault(t, err, fault.UserNotFound, "an account that is gone")
	}
	// Where long-term memory is off there is nothing new.
	r.memories = &UserMemories{Pool: r.server, Options: UserMemoriesOptions{Off: true}}
	wantFault(t, errOf2(r.memories.AddMemory(t.Context(), r.user, api.NewMemory{Content: "x"})), fault.MemoryOff, "add")
	wantFault(t, errOf(r.memories.ImportMemories(t.Context(), r.user, []bundle.Memory{{Content: "x"}})), fault.MemoryOff, "import")
	is(t, r.list(api.MemoriesQuery{Status: "all"}), []string{"Plays the cello."}, "listed")
	fine(t, r.memories.DeleteMemory(t.Context(), r.user, mine, api.MemoryDeletion{}), "an error")
}

// The same words, however they are spelt, are one memory: a request that is sent again makes no second one.
func TestTheSameWordsAreOneMemory(t *testing.T) {
	t.Parallel()
	r := newRemembering(t)
	first := r.add("Prefers oat milk.")
	again, added, err := r.memories.AddMemory(t.Context(), r.user, api.NewMemory{Content: "prefers  OAT milk"})
	is(t, tuple(err, added, again.ID, again.Version, again.Content), tuple(nil, false, first.ID, 1, "Prefers oat milk."), "again: %+v", again)
	pinned, added, err := r.memories.AddMemory(t.Context(), r.user, api.NewMemory{Content: "Prefers oat milk.", Pinned: new(true), Type: new("preference")})
	is(t, tuple(err, added, pinned.ID, pinned.Pinned, pinned.MemoryType, pinned.Version), tuple(nil, false, first.ID, true, "preference", 2),
		"pinned: %+v", pinned)
	for _, status := range []string{"archived", "inbox"} {
		r.change(first.ID, api.MemoryChange{Status: &status})
		back, added, err := r.memories.AddMemory(t.Context(), r.user, api.NewMemory{Content: "Prefers oat milk."})
		is(t, tuple(err, added, back.ID, back.Status), tuple(nil, false, first.ID, "active"), "%s: %+v", status, back)
	}
	// A superseded memory may be true again, beside it or instead.
	r.exec("update memories set status = 'superseded', valid_to = now(), retracted_at = now()")
	other := r.add("Prefers oat milk.")
	is(t, other.ID == first.ID, false, "true again: %+v", other)
	r.exec("update memories set superseded_by = $2 where id = $1", first.ID, other.ID)
	noError(t, r.memories.DeleteMemory(t.Context(), r.user, other.ID, api.MemoryDeletion{}))
	back := r.change(first.ID, api.MemoryChange{Status: new("active")})
	is(t, tuple(back.Status, back.ValidTo == nil, back.RetractedAt == nil, back.SupersededBy == nil), tuple("active", true, true, true), "%+v", back)
	// No change makes two memories of the same words.
	one, two := r.add("Plays the cello."), r.add("Plays the viola.")
	twin := errOf(r.memories.ChangeMemory(t.Context(), r.user, two.ID, api.MemoryChange{Content: new("plays the cello")}))
	is(t, faultOf(t, twin, fault.MemoryExists)["memory_id"], any(one.ID), "the twin")
	is(t, r.change(one.ID, api.MemoryChange{Content: new("PLAYS the cello!")}).Content, "PLAYS the cello!", "its own words in another spelling")
	r.change(two.ID, api.MemoryChange{Status: new("archived")})
	is(t, r.change(two.ID, api.MemoryChange{Content: new("plays the cello")}).Status, "archived", "a twin that is archived")
	wantFault(t, errOf(r.memories.ChangeMemory(t.Context(), r.user, two.ID, api.MemoryChange{Status: new("active")})), fault.MemoryExists, "a twin comes back")
	is(t, len(r.list(api.MemoriesQuery{})), 2, "listed")
}

func TestTheInboxIsConfirmed(t *testing.T) {
	t.Parallel()
	r := newRemembering(t)
	chat := r.newChat(2)
	id := r.said("Is called Ilse.", r.message(chat, 1), r.message(chat, 3))
	r.exec("update memories set status = 'inbox', confidence = 0.3 where id = $1", id)
	confirmed := r.change(id, api.MemoryChange{Status: new("active")})
	is(t, tuple(confirmed.Status, confirmed.Confidence, confirmed.Edited, confirmed.Origin), tuple("active", 1, false, "extracted"), "%+v", confirmed)
	if len(confirmed.Sources) != 2 || confirmed.Sources[0].ChatID != chat || confirmed.Sources[0].Seq != 1 || confirmed.Sources[0].Quote == "" ||
		confirmed.Sources[0].SaidAt.IsZero() {
		t.Errorf("its sources are %+v", confirmed.Sources)
	}
	made := r.actions(id)
	last := made[len(made)-1]
	assert.Truef(t, strings.HasSuffix(last, "EDIT user: the user confirmed it"), "%q", last)
	// What a user wrote over stays away when a source of the memory is deleted.
	r.change(id, api.MemoryChange{Content: new("Is called Else.")})
	r.exec("delete from messages where chat_id = $1 and seq = 3", chat)
	is(t, r.list(api.MemoriesQuery{}), []string{"Is called Else."}, "listed")
}

// What contradicts a memory that a model may not change takes its place once the user says so, also where that is pinned.
func TestAnAcceptedConflictTakesThePlaceOfWhatItContradicts(t *testing.T) {
	t.Parallel()
	r := newRemembering(t)
	lyon := r.add("The user lives in Lyon.")
	r.change(lyon.ID, api.MemoryChange{Pinned: new(true)})
	conflict := func(content string) uuid.UUID {
		return ask[uuid.UUID](r, "insert into memories (user_id, content, status, conflicts_with) values ($1, $2, 'inbox', $3) returning id",
			r.user.UserID, content, lyon.ID)
	}
	porto, rejected := conflict("The user lives in Porto."), conflict("The user lives in Rome.")
	noError(t, r.memories.DeleteMemory(t.Context(), r.user, rejected, api.MemoryDeletion{}))
	is(t, r.find(lyon.ID).Status, "active", "after a rejection, Lyon")
	is(t, *r.find(porto).ConflictsWith, lyon.ID, "what it contradicts")

	r.change(porto, api.MemoryChange{Status: new("active")})
	before, now := r.find(lyon.ID), r.find(porto)
	is(t, tuple(before.Status, *before.SupersededBy, before.ValidTo != nil, now.Status, now.ConflictsWith == nil),
		tuple("superseded", porto, true, "active", true), "accepted")
	actions := r.actions(lyon.ID)
	is(t, actions[len(actions)-1], "3 DELETE user: the user confirmed what contradicts it", "Lyon's history")

	another := conflict("The user lives in Turin.")
	noError(t, r.memories.DeleteMemory(t.Context(), r.user, lyon.ID, api.MemoryDeletion{}))
	is(t, r.find(another).ConflictsWith == nil, true, "nothing names the gone one")
}

func TestMemorySettings(t *testing.T) {
	t.Parallel()
	r := newRemembering(t)
	read := func(user auth.Principal) api.MemorySettings {
		return must(r.memories.MemorySettings(t.Context(), user))(t)
	}
	for i, c := range []struct {
		change api.MemorySettingsChange
		want   api.MemorySettings
	}{
		{api.MemorySettingsChange{}, api.MemorySettings{Enabled: true}},
		{api.MemorySettingsChange{TimeZone: api.To("Europe/Berlin"), Excluded: api.To([]string{"my divorce"})},
			api.MemorySettings{Enabled: true, TimeZone: new("Europe/Berlin"), Excluded: []string{"my divorce"}}},
		{api.MemorySettingsChange{Enabled: new(false), Language: api.To("de")},
			api.MemorySettings{TimeZone: new("Europe/Berlin"), Language: new("de"), Excluded: []string{"my divorce"}}},
		{api.MemorySettingsChange{TimeZone: api.None[string](), Excluded: api.None[[]string]()},
			api.MemorySettings{Language: new("de")}},
	} {
		noError(t, api.Check(&c.change))
		r.newChat(2) // talk in a pause: its chat is locked, after the account
		is(t, must(r.memories.ChangeMemorySettings(t.Context(), r.user, c.change))(t), c.want, "change %d", i)
		is(t, read(r.user), c.want, "read after %d", i)
		is(t, read(r.user).Excluded != nil, true, "an empty list after %d", i)
	}
	is(t, read(r.newUser()), api.MemorySettings{Enabled: true}, "another user's")
}

// The last of two changes wins, each is in the history, and a memory that is written many times at once is written once.
func TestChangesAtOnce(t *testing.T) {
	t.Parallel()
	r := newRemembering(t)
	const writers = 8
	ids := make([]string, writers)
	together(t, writers, func(n int) error {
		stored, _, err := r.memories.AddMemory(t.Context(), r.user, api.NewMemory{Content: "Plays the cello."})
		if err == nil {
			_, err = r.memories.ChangeMemory(t.Context(), r.user, stored.ID, api.MemoryChange{Content: new(fmt.Sprintf("Plays cello number %d.", n))})
		}
		ids[n] = stored.ID.String()
		return err
	})
	slices.Sort(ids)
	edits := 0
	for _, id := range slices.Compact(ids) {
		for version, line := range r.actions(uuid.MustParse(id)) {
			is(t, strings.HasPrefix(line, fmt.Sprintf("%d ", version+1)), true, "the history has no gap: %q at %d", line, version)
			edits += strings.Count(line, "EDIT")
		}
	}
	is(t, edits, writers, "of … edits are in the history")
}
