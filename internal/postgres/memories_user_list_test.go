package postgres

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
)

func TestMemoriesAreListedInPages(t *testing.T) {
	t.Parallel()
	r := newRemembering(t)
	for n := range 7 {
		r.add(fmt.Sprintf("Owns boat number %d.", n))
	}
	r.exec("update memories set created_at = now() - interval '1 day' where content like '%3.' or content like '%4.'") // the same moment
	var seen []string
	query := history.MemoriesQuery{Limit: 2, Status: history.StatusCurrent}
	for pages := 1; ; pages++ {
		page, err := r.memories.ListMemories(t.Context(), r.user, query)
		if err != nil {
			t.Fatal(err)
		}
		for _, memory := range page.Memories {
			seen = append(seen, memory.Content[17:18])
		}
		if query.After = page.Next; page.Next == nil {
			if pages != 4 {
				t.Errorf("%d pages", pages)
			}
			break
		}
		r.add(fmt.Sprintf("Came between pages, %d.", pages))
	}
	slices.Sort(seen[5:])
	if got := strings.Join(seen, ""); got != "6521034" {
		t.Errorf("seen %s", got)
	}
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
		if got := strings.Join(words, " "); got != c.want {
			t.Errorf("%+v: %q, not %q", c.query, got, c.want)
		}
	}
	if got := r.list(history.MemoriesQuery{AsOf: "2026-03-12"}); !slices.Equal(got, []string{"Lives in Porto since March."}) {
		t.Errorf("after the move: %v", got)
	}
}

func TestForgettingByWordsFindsWhatIsMeant(t *testing.T) {
	t.Parallel()
	r := newRemembering(t)
	for _, content := range []string{
		"The user's knee hurts since the marathon.", "The user runs with a sore knee.", "The user has a dog.", "The user's sister has a cat.", "Die Schwester heißt Ilse.", "彼女は東京に住んでいる。",
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
	if _, err := history.Forget(t.Context(), r.memories, r.newUser(), token); fault.CodeOf(err) != fault.ValidationFailed {
		t.Errorf("another user's token: %v", err)
	}
	for _, want := range []int{1, 0} {
		if forgotten, err := history.Forget(t.Context(), r.memories, r.user, token); err != nil || forgotten != want {
			t.Errorf("forgot %d, not %d: %v", forgotten, want, err)
		}
	}
	if got := r.list(history.MemoriesQuery{}); len(got) != 2 {
		t.Errorf("left are %v", got)
	}
}

func TestForgettingEverythingSkipsWhatIsUnread(t *testing.T) {
	t.Parallel()
	r := newRemembering(t)
	chat, other := r.newChat(2), r.newChat(1)
	asked := ask[uuid.UUID](r.bed, "select id from messages where chat_id = $1 and seq = 1", chat)
	r.said("Plays the cello.", asked)
	r.add("Prefers oat milk.")
	r.exec("update conversation_briefs set extracted_seq = 2, extract_due_at = now() where chat_id = $1", chat)
	deleted, err := r.memories.DeleteMemories(t.Context(), r.user)
	if err != nil || deleted.Memories != 2 || deleted.Sources != 1 || deleted.Revisions != 2 {
		t.Errorf("%+v, %v", deleted, err)
	}
	if left := ask[int](r.bed, "select (select count(*) from memories) + (select count(*) from memory_sources) + (select count(*) from memory_revisions)"); left != 0 {
		t.Errorf("%d rows are left", left)
	}
	for id, want := range map[uuid.UUID]int64{chat: 4, other: 2} {
		if got := ask[int64](r.bed, "select extracted_seq from conversation_briefs where chat_id = $1 and extract_due_at is null", id); got != want {
			t.Errorf("looked at up to %d, not %d", got, want)
		}
	}
	if again, err := r.memories.DeleteMemories(t.Context(), r.user); err != nil || again != (history.DeletedMemories{}) {
		t.Errorf("again: %+v, %v", again, err)
	}
}

func TestForgettingAMemoryRemakesTheBriefsThatMayHoldIt(t *testing.T) {
	t.Parallel()
	r := newRemembering(t)
	covered, uncovered := r.newChat(2), r.newChat(1)
	r.mustCommit(r.claim(covered, "fold"))
	said := ask[[]uuid.UUID](r.bed, "select array_agg(id) from messages where role = 'user' and seq = 1")
	for _, also := range []string{"", history.AlsoSummaries} {
		id := r.said("Plays the cello.", said...)
		if err := r.memories.DeleteMemory(t.Context(), r.user, id, history.MemoryDeletion{Also: also}); err != nil {
			t.Fatal(err)
		}
		if stale := r.brief(covered).Stale; stale != (also != "") || r.brief(uncovered).Stale || len(r.rebuilt) != len(also)/len(history.AlsoSummaries) {
			t.Errorf("also %q: stale is %v, %d were rebuilt", also, stale, len(r.rebuilt))
		}
	}
	if rebuilt := <-r.rebuilt; rebuilt != covered {
		t.Errorf("%s was rebuilt", rebuilt)
	}
}
