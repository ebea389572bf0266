package postgres

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/memory/recall"
)

// What is near to the vector of a text is found without a word of it, before what shares a common word alone; by words it is
// found as before.
func TestMemoriesAreSearchedByMeaning(t *testing.T) {
	t.Parallel()
	r := newRemembering(t)
	far := r.add("Rents an umbrella stand and an umbrella.")
	for n := range 4 {
		r.add(fmt.Sprintf("Has umbrella %d.", n))
	}
	near := r.add("Stays dry in the rain.")
	saved := must(NewMemoryVectors(r.pool).Save(t.Context(), r.user.UserID, "m", []recall.Made{
		{Bare: recall.Bare{ID: near.ID, Words: near.Content}, Vector: axis(3)}, {Bare: recall.Bare{ID: far.ID, Words: far.Content}, Vector: axis(4)},
	}))(t)
	is(t, saved, 2, "saved")
	query := history.MemoriesQuery{Text: "umbrella", Status: history.StatusCurrent, Limit: 10}
	found := func(vector recall.Vector) []string {
		t.Helper()
		query.Vector, query.LeastCosine = vector, .5
		all := []string{}
		for _, m := range must(r.memories.ListMemories(t.Context(), r.user, query))(t).Memories {
			all = append(all, m.Content)
		}
		return all
	}
	byMeaning := recall.Vector{Model: "m", Values: axis(3)}
	is(t, found(byMeaning)[0], near.Content, "the best")
	is(t, len(found(byMeaning)), 6, "all")
	for _, none := range []recall.Vector{{}, {Model: "another", Values: axis(3)}} {
		is(t, len(found(none)), 5, "by words alone: %q", found(none))
	}
	query.Type = "pattern"
	is(t, len(found(byMeaning)), 0, "of another type")
	query.Type = ""
	r.user = r.newUser()
	is(t, len(found(byMeaning)), 0, "of another user")
}

func TestMemoriesAreFiltered(t *testing.T) {
	t.Parallel()
	r := newRemembering(t)
	r.add("Lives in Porto since March.")
	old, shelf, unsure := r.add("Lives in Lyon."), r.add("Owned a kayak."), r.add("Likes marzipan.")
	day := func(n int) string { return fmt.Sprintf("2026-03-%02dT12:00:00Z", n) }
	r.exec("update memories set valid_from = $2 where content like '%Porto%' and $1::uuid is not null", old.ID, day(10))
	r.exec("update memories set status = 'superseded', valid_from = $2, valid_to = $3, memory_type = 'context' where id = $1", old.ID, day(1), day(10))
	r.change(shelf.ID, history.MemoryChange{Status: new("archived")})
	r.change(unsure.ID, history.MemoryChange{Status: new("inbox")})
	for _, c := range []struct {
		query history.MemoriesQuery
		want  string
	}{
		{history.MemoriesQuery{}, "Likes Lives"},
		{history.MemoriesQuery{Status: "active"}, "Lives"},
		{history.MemoriesQuery{Status: "inbox"}, "Likes"},
		{history.MemoriesQuery{Status: "superseded"}, "Lives"},
		{history.MemoriesQuery{Status: "archived"}, "Owned"},
		{history.MemoriesQuery{Status: "all"}, "Likes Lives Lives Owned"},
		{history.MemoriesQuery{Type: "context", Status: "all"}, "Lives"},
		{history.MemoriesQuery{Type: "pattern"}, ""},
		{history.MemoriesQuery{AsOf: day(5)}, "Lives"},
		{history.MemoriesQuery{AsOf: "2026-02-27"}, ""},
		{history.MemoriesQuery{AsOf: "2026-03-09", Text: "Lyon"}, "Lives"},
		{history.MemoriesQuery{AsOf: "2026-03-09", Text: "Porto"}, ""},
		{history.MemoriesQuery{Text: "Lyon"}, ""},
		{history.MemoriesQuery{Text: "lyon", Status: "all"}, "Lives"},
		{history.MemoriesQuery{Text: "kayaks marzipans", Status: "all"}, "Likes Owned"},
		{history.MemoriesQuery{Text: "'; drop table memories; -- & | ! <->", Status: "all"}, ""},
	} {
		words := []string{}
		for _, content := range r.list(c.query) {
			words = append(words, strings.Fields(content)[0])
		}
		slices.Sort(words)
		is(t, strings.Join(words, " "), c.want, "%+v", c.query)
	}
	is(t, r.list(history.MemoriesQuery{AsOf: "2026-03-12"}), []string{"Lives in Porto since March."}, "after the move")
	// Pages meet, also where memories are of the same moment and others come meanwhile.
	r.exec("update memories set created_at = now() - interval '1 day', status = 'active'")
	seen := []string{}
	query := history.MemoriesQuery{Limit: 3, Status: history.StatusCurrent}
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

func TestForgettingByWordsFindsWhatIsMeant(t *testing.T) {
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
		found, err := r.memories.FindForgettable(t.Context(), r.user, query)
		if err != nil || len(found) != want || found == nil {
			t.Errorf("%q: %+v, %v", query, found, err)
		}
	}
}

// Only what the user has seen is forgotten, as it was seen.
func TestWhatChangedIsNotForgottenUnseen(t *testing.T) {
	t.Parallel()
	r := newRemembering(t)
	r.add("Her knee hurts.")
	changed := r.add("Her other knee is fine.")
	candidates, token, err := history.ProposeForgetting(t.Context(), r.memories, r.user, "knee")
	if err != nil || len(candidates) != 2 {
		t.Fatalf("%+v, %v", candidates, err)
	}
	r.change(changed.ID, history.MemoryChange{Content: new("Her other knee hurts, too.")})
	r.add("The knee of her dog hurts.")
	wantFault(t, errOf(history.Forget(t.Context(), r.memories, r.newUser(), token)), fault.ValidationFailed, "another user's token")
	for _, want := range []int{1, 0} {
		is(t, must(history.Forget(t.Context(), r.memories, r.user, token))(t), want, "forgot")
	}
	is(t, len(r.list(history.MemoriesQuery{})), 2, "left")
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
	is(t, must(r.memories.DeleteMemories(t.Context(), r.user))(t), (history.DeletedMemories{}), "again")
}

func TestForgettingAMemoryRemakesTheBriefsThatMayHoldIt(t *testing.T) {
	t.Parallel()
	r := newRemembering(t)
	covered, uncovered := r.newChat(2), r.newChat(1)
	r.mustCommit(r.claim(covered, "fold"))
	said := ask[[]uuid.UUID](r, "select array_agg(id) from messages where role = 'user' and seq = 1")
	for _, also := range []string{"", history.AlsoSummaries} {
		id := r.said("Plays the cello.", said...)
		noError(t, r.memories.DeleteMemory(t.Context(), r.user, id, history.MemoryDeletion{Also: also}))
		if stale := r.brief(covered).Stale; stale != (also != "") || r.brief(uncovered).Stale || len(r.rebuilt) != len(also)/len(history.AlsoSummaries) {
			t.Errorf("also %q: stale is %v, %d were rebuilt", also, stale, len(r.rebuilt))
		}
	}
	is(t, <-r.rebuilt, covered, "was rebuilt")
}
