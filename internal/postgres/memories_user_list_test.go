package postgres

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/recall"
)

// A memory near to the vector of a text is found without a word of it, before one that shares a common word alone; by words it is
// found as before.
func TestMemoriesAreSearchedByMeaning(t *testing.T) {
	t.Parallel()
	r := newRemembering(t)
	far := r.add("Rents an umbrella stand and an umbrella.")
	for n := range 4 {
		r.add(fmt.Sprintf("Has umbrella %d.", n))
	}
	near := r.add("Stays dry in the rain.")
	saved := must((&MemoryVectors{Pool: r.pool}).Save(t.Context(), r.user.UserID, "m", []recall.Made{
		{Bare: recall.Bare{ID: near.ID, Words: near.Content}, Vector: axis(3)}, {Bare: recall.Bare{ID: far.ID, Words: far.Content}, Vector: axis(4)},
	}))(t)
	is(t, saved, 2, "saved")
	found := func(user auth.Principal, vector recall.Vector, kind string) []api.Memory {
		query := api.MemoriesQuery{Text: "umbrella", Status: api.StatusCurrent, Limit: 10, Type: kind, Vector: vector, LeastCosine: .5}
		return must(r.memories.ListMemories(t.Context(), user, query))(t).Memories
	}
	byMeaning := recall.Vector{Model: "m", Values: axis(3)}
	is(t, found(r.user, byMeaning, "")[0].Content, near.Content, "the best")
	is(t, len(found(r.user, byMeaning, "")), 6, "all")
	is(t, len(found(r.user, recall.Vector{}, "")), 5, "by words alone")
	is(t, len(found(r.user, recall.Vector{Model: "another", Values: axis(3)}, "")), 5, "by words alone")
	is(t, len(found(r.user, byMeaning, "pattern")), 0, "of another type")
	is(t, len(found(r.newUser(), byMeaning, "")), 0, "of another user")
}

func TestMemoriesOfAChat(t *testing.T) {
	t.Parallel()
	r := newRemembering(t)
	chat, other := r.newChat(1), r.newChat(1)
	first := func(chat uuid.UUID) uuid.UUID {
		return ask[uuid.UUID](r, "select id from messages where chat_id = $1 and seq = 1", chat)
	}
	r.said("Plays the cello.", first(chat))
	r.said("Plays chess.", first(other))
	r.add("Plays with fire.")
	is(t, r.list(api.MemoriesQuery{ChatID: chat}), []string{"Plays the cello."}, "listed")
	is(t, r.list(api.MemoriesQuery{ChatID: other, Text: "plays"}), []string{"Plays chess."}, "searched")
}

func TestMemoriesAreFiltered(t *testing.T) {
	t.Parallel()
	r := newRemembering(t)
	r.add("Lives in Porto since March.")
	old, shelf, unsure := r.add("Lives in Lyon."), r.add("Owned a kayak."), r.add("Likes marzipan.")
	day := func(n int) string { return fmt.Sprintf("2026-03-%02dT12:00:00Z", n) }
	r.exec("update memories set valid_from = $2 where content like '%Porto%' and $1::uuid is not null", old.ID, day(10))
	r.exec("update memories set status = 'superseded', valid_from = $2, valid_to = $3, memory_type = 'context' where id = $1", old.ID, day(1), day(10))
	r.change(shelf.ID, api.MemoryChange{Status: new("archived")})
	r.change(unsure.ID, api.MemoryChange{Status: new("inbox")})
	for _, c := range []struct {
		query api.MemoriesQuery
		want  string
	}{
		{api.MemoriesQuery{}, "Likes Lives"},
		{api.MemoriesQuery{Status: "active"}, "Lives"},
		{api.MemoriesQuery{Status: "inbox"}, "Likes"},
		{api.MemoriesQuery{Status: "superseded"}, "Lives"},
		{api.MemoriesQuery{Status: "archived"}, "Owned"},
		{api.MemoriesQuery{Status: "all"}, "Likes Lives Lives Owned"},
		{api.MemoriesQuery{Type: "context", Status: "all"}, "Lives"},
		{api.MemoriesQuery{Type: "pattern"}, ""},
		{api.MemoriesQuery{AsOf: day(5)}, "Lives"},
		{api.MemoriesQuery{AsOf: "2026-02-27"}, ""},
		{api.MemoriesQuery{AsOf: "2026-03-09", Text: "Lyon"}, "Lives"},
		{api.MemoriesQuery{AsOf: "2026-03-09", Text: "Porto"}, ""},
		{api.MemoriesQuery{Text: "Lyon"}, ""},
		{api.MemoriesQuery{Text: "lyon", Status: "all"}, "Lives"},
		{api.MemoriesQuery{Text: "kayaks marzipans", Status: "all"}, "Likes Owned"},
		{api.MemoriesQuery{Text: "'; drop table memories; -- & | ! <->", Status: "all"}, ""},
	} {
		words := []string{}
		for _, content := range r.list(c.query) {
			words = append(words, strings.Fields(content)[0])
		}
		slices.Sort(words)
		is(t, strings.Join(words, " "), c.want, "%+v", c.query)
	}
	is(t, r.list(api.MemoriesQuery{AsOf: "2026-03-12"}), []string{"Lives in Porto since March."}, "after the move")
	// Pages meet, also where memories are of the same moment and others come meanwhile.
	r.exec("update memories set created_at = now() - interval '1 day', status = 'active'")
	seen := []string{}
	query := api.MemoriesQuery{Limit: 3, Status: api.StatusCurrent}
	for more := true; more; more = query.After != nil {
		page := must(r.memories.ListMemories(t.Context(), r.user, query))(t)
		for _, memory := range page.Memories {
			seen = append(seen, strings.Fields(memory.Content)[0])
		}
		query.After = page.Next
		r.add(fmt.Sprintf("Came after %d.", len(seen)))
	}
	slices.Sort(seen)
	is(t, seen, []string{"Likes", "Lives", "Lives", "Owned"}, "seen")
}

// Only what the user has seen is forgotten, as it was seen.
func TestWhatChangedIsNotForgottenUnseen(t *testing.T) {
	t.Parallel()
	r := newRemembering(t)
	for _, content := range []string{
		"The user's knee hurts since the marathon.", "The user runs with a sore knee.", "The user has a dog.", "The user's sister has a cat.",
		"Die Schwester heißt Ilse.", "彼女は東京に住んでいる。",
	} {
		r.add(content)
	}
	for query, want := range map[string]int{
		"my knee": 2, "the user's knees": 2, "everything about the marathon": 1, "Schwester": 1, "東京": 1, "unicorn": 0, "!!": 0, "the unknown thing": 0,
	} {
		found := must(r.memories.FindForgettable(t.Context(), r.user, query))(t)
		is(t, tuple(len(found), found != nil), tuple(want, true), "%q: %+v", query, found)
	}
	proposed, err := api.Forget(t.Context(), r.memories, r.user, api.ForgetRequest{Query: new("knee")})
	mustBe(t, tuple(err, len(proposed.Candidates)), tuple(nil, 2), "%+v", proposed)
	r.change(proposed.Candidates[0].ID, api.MemoryChange{Content: new("Her other knee hurts, too.")})
	r.add("The knee of her dog hurts.")
	request := api.ForgetRequest{Token: &proposed.Token}
	wantFault(t, errOf(api.Forget(t.Context(), r.memories, r.newUser(), request)), fault.ValidationFailed, "another user's token")
	for _, want := range []int{1, 0} {
		is(t, *must(api.Forget(t.Context(), r.memories, r.user, request))(t).Forgotten, want, "forgot")
	}
	is(t, len(r.list(api.MemoriesQuery{})), 6, "left")
}

func TestForgettingEverythingSkipsWhatIsUnread(t *testing.T) {
	t.Parallel()
	r := newRemembering(t)
	chat, other := r.newChat(2), r.newChat(1)
	asked := ask[uuid.UUID](r, "select id from messages where chat_id = $1 and seq = 1", chat)
	r.said("Plays the cello.", asked)
	r.add("Prefers oat milk.")
	r.exec("update conversation_briefs set extracted_seq = 2, extract_due_at = now() where chat_id = $1", chat)
	deleted, err := r.memories.DeleteMemories(t.Context(), r.user)
	is(t, tuple(err, deleted.Memories, deleted.Sources, deleted.Revisions), tuple(nil, 2, 1, 2), "%+v", deleted)
	is(t, ask[int](r, "select (select count(*) from memories) + (select count(*) from memory_sources) + (select count(*) from memory_revisions)"), 0,
		"rows are left")
	for id, want := range map[uuid.UUID]int64{chat: 4, other: 2} {
		is(t, ask[int64](r, "select extracted_seq from conversation_briefs where chat_id = $1 and extract_due_at is null", id), want, "looked at up to")
	}
	is(t, must(r.memories.DeleteMemories(t.Context(), r.user))(t), (api.DeletedMemories{}), "again")
}

func TestForgettingAMemoryTakesBackTheBriefsThatMayHoldIt(t *testing.T) {
	t.Parallel()
	r := newRemembering(t)
	covered, uncovered := r.newChat(2), r.newChat(1)
	r.mustCommit(r.claim(covered))
	said := ask[[]uuid.UUID](r, "select array_agg(id) from messages where role = 'user' and seq = 1")
	for _, also := range []string{"", api.AlsoSummaries} {
		id := r.said("Plays the cello.", said...)
		noError(t, r.memories.DeleteMemory(t.Context(), r.user, id, api.MemoryDeletion{Also: also}))
		got, want := r.brief(covered), briefRow{Version: 1, CoveredSeq: 4, Summary: "They talked."}
		if also != "" {
			want = briefRow{Version: 2, PendingTokens: got.PendingTokens, PendingTurns: 2}
		}
		is(t, tuple(got, r.brief(uncovered).Version), tuple(want, 0), "also %q: the briefs", also)
	}
	r.checkCounters()
}

// decay runs the job for a day; it returns how many memories have decayed, were archived and deleted.
func (b *bed) decay(day time.Time, deleteDays int) [3]int {
	decayed, archived, deleted, err := NewMaintenance(b.pool, memory.DefaultLimits()).Decay(b.t.Context(), day, deleteDays)
	require.NoError(b.t, err)
	return [3]int{decayed, archived, deleted}
}

// state returns "0.9500 active 2": confidence, status and version.
func (b *bed) state(memory uuid.UUID) string {
	return ask[string](b, "select to_char(confidence, 'FM0.0000') || ' ' || status || ' ' || version from memories where id = $1", memory)
}

// unused makes a memory one that was used so many days ago for the last time.
func (b *bed) unused(memory uuid.UUID, days int) {
	b.exec("update memories set last_accessed = now() - make_interval(days => $2) where id = $1", memory, days)
}

var today = time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)

func TestUnusedMemoriesDecay(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	cases := []struct {
		content      string
		days         int
		change, want string
	}{
		{"used a month ago", 29, "", "1.0000 active 1"},
		{"not used for a month", 31, "", "0.9500 active 2"},
		{"durable", 300, "durable = true", "1.0000 active 2"},
		{"pinned", 300, "pinned = true", "1.0000 active 2"},
		{"in the inbox", 300, "status = 'inbox'", "1.0000 inbox 2"},
		{"superseded", 300, "status = 'superseded'", "1.0000 superseded 2"},
		{"at the end, but used lately", 80, "confidence = 0.099", "0.0990 active 2"},
		{"at the end, not used for 90 days", 91, "confidence = 0.099", "0.0990 archived 3"},
		{"falls below and is old", 91, "confidence = 0.104", "0.0988 archived 4"},
		{"exactly at the end", 91, "confidence = 0.1", "0.1000 archived 3"},
		{"durable at the end", 300, "confidence = 0.05, durable = true", "0.0500 active 2"},
		{"never used, learnt a year ago", 0, "last_accessed = null, recorded_at = now() - interval '1 year', created_at = now() - interval '1 year'",
			"0.9500 active 2"},
		{"never used, imported today", 0, "last_accessed = null, recorded_at = now() - interval '1 year'", "1.0000 active 1"},
	}
	made := make([]uuid.UUID, len(cases))
	for i, c := range cases {
		made[i] = b.wrote(b.user, c.content)
		b.unused(made[i], c.days)
		if c.change != "" {
			b.exec("update memories set "+c.change+" where id = $1", made[i])
		}
	}
	off := b.newUser()
	paused := b.wrote(off, "Of one who has switched memories off.")
	b.unused(paused, 300)
	b.exec("update memory_users set enabled = false where user_id = $1", off.UserID)
	version := ask[int](b, "select version from memory_users where user_id = $1", b.user.UserID)
	for run, want := range [][3]int{{3, 3, 0}, {}, {}} {
		is(t, b.decay(today, 0), want, "run %d", run)
	}
	for i, c := range cases {
		is(t, b.state(made[i]), c.want, "%s", c.content)
	}
	is(t, b.state(paused), "1.0000 active 1", "memories that are switched off")
	is(t, ask[int](b, "select version from memory_users where user_id = $1", b.user.UserID), version+1, "the user's version went from %d to", version)
	is(t, ask[[]string](b, "select array_agg(distinct action || ' by ' || actor || ': ' || reason) from memory_revisions where actor = 'decay'"),
		[]string{"ARCHIVE by decay: not used for 90 days", "DECAY by decay: not used for 30 days"}, "revisions")
}

// The curve of one memory that is never used, day after day: testdata/decay.golden has the days on which something changes
// for a reader. A job that comes late catches up on nothing.
func TestDecayCurve(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	memory := b.wrote(b.user, "Plays the cello.")
	var curve strings.Builder
	archived := 0
	for day := 1; archived == 0 && day < 400; day++ {
		b.exec("update memories set last_accessed = now() - make_interval(days => $1, secs => 1)", day)
		before := b.state(memory)
		b.decay(today.AddDate(0, 0, day), 0)
		after := b.state(memory)
		fields := strings.Fields(after)
		if fields[1] == "archived" {
			archived = day
		}
		if before != after && (day%15 == 0 || strings.Fields(before)[0] == "1.0000" || archived > 0) || day == 29 || day == 75 {
			fmt.Fprintf(&curve, "day %2d  %s  %s\n", day, fields[0], fields[1])
		}
	}
	if want := int(math.Ceil(math.Log(0.1) / math.Log(0.95))); want != 45 { // days of fading from 1 to 0.1
		t.Errorf("%d days", want)
	}
	golden, err := os.ReadFile("testdata/decay.golden")
	is(t, tuple(err, curve.String()), tuple(nil, string(golden)), "…; the curve is")
}

// Ten workers at once, and a user who is deleted meanwhile: each memory decays once.
func TestDecayRunsOnceADay(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	const users = 50 // more than one transaction takes
	for n := range users {
		b.unused(b.wrote(b.newUser(), fmt.Sprintf("Memory %d.", n)), 40)
	}
	leaving := b.newUser()
	b.unused(b.wrote(leaving, "Of one who leaves."), 40)
	together(t, 11, func(n int) error {
		if n == 0 {
			return errOf(b.pool.Exec(t.Context(), "delete from auth.users where id = $1", leaving.UserID))
		}
		_, _, _, err := NewMaintenance(b.pool, memory.DefaultLimits()).Decay(t.Context(), today, 0)
		return err
	})
	is(t, ask[string](b, "select count(*) || ' ' || min(confidence) || ' ' || max(confidence) from memories"), "50 0.95 0.95", "memories")
	is(t, b.decay(today.AddDate(0, 0, 40), 0), [3]int{users, 0, 0}, "a job that comes 40 days late")
}

// An edited or restored memory has been used. Archived memories are deleted where that is asked for.
func TestArchivedMemoriesAreDeletedWhereThatIsAskedFor(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	edited, restored := b.wrote(b.user, "To be edited."), b.wrote(b.user, "To be restored.")
	b.exec("update memories set confidence = 0.09, status = 'archived' where id = $1", restored)
	b.unused(edited, 100)
	b.unused(restored, 100)
	b.exec("update memories set content = 'Edited.' where id = $1", edited)
	b.exec("update memories set status = 'active' where id = $1", restored)
	is(t, b.decay(today, 0), [3]int{}, "decay after that")
	old, pinned := b.wrote(b.user, "Archived long ago."), b.wrote(b.user, "Archived and pinned.")
	b.exec("update memories set status = 'archived' where id <> $1", edited)
	b.exec("update memories set pinned = true where id = $1", pinned)
	b.exec("update memories set updated_at = now() - interval '61 days' where id <> $1", restored)
	is(t, b.decay(today, 0), [3]int{}, "without being asked")
	is(t, b.decay(today, 60), [3]int{0, 0, 1}, "after 60 days")
	is(t, b.count("memories where id <> $1", old), 3, "memories are left")
	is(t, b.count("memory_revisions where memory_id = $1", old), 0, "revisions are left")
}

func TestMemoriesAreCounted(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.wrote(b.user, "One.")
	b.wrote(b.user, "Two.")
	b.exec("update memories set status = 'inbox' where content = 'Two.'")
	maintenance := NewMaintenance(b.pool, memory.DefaultLimits())
	is(t, must(maintenance.CountMemories(t.Context()))(t), map[string]int{"active": 1, "inbox": 1, "superseded": 0, "archived": 0}, "memories")
	is(t, must(maintenance.OldestUnextracted(t.Context()))(t), 0, "without a chat")
	chatID := b.newChat(1)
	for due, want := range map[string]float64{"now() + interval '1 minute'": 0, "now() - interval '1 hour'": 3600, "'-infinity'": 0} {
		b.exec("update conversation_briefs set extract_due_at = "+due+" where chat_id = $1", chatID)
		age := must(maintenance.OldestUnextracted(t.Context()))(t)
		is(t, age >= want && age < want+600, true, "%s: %v", due, age)
	}
}
