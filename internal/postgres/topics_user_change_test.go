package postgres

import (
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
)

func TestChangeTopicChangesNamedFieldsAlone(t *testing.T) {
	t.Parallel()
	p := newTopical(t)
	change := func(ref history.TopicRef, change history.TopicChange) history.OneTopic {
		t.Helper()
		if err := change.Check(); err != nil {
			t.Fatal(err)
		}
		changed, err := p.store.ChangeTopic(t.Context(), p.user, ref, change)
		if err != nil {
			t.Fatal(err)
		}
		return changed
	}
	row := func(id uuid.UUID) string {
		return ask[string](p.bed, "select format('%s %s %s %s %s', title, title_seq, tags, importance, importance_rated) from topics where id = $1", id)
	}
	if got := change(p.current(), history.TopicChange{Title: new("  Rosin\n of  all kinds ")}); got.ID != p.rosin || got.Title != "Rosin of all kinds" {
		t.Errorf("renamed: %+v", got)
	}
	change(p.ref(p.bows), history.TopicChange{Tags: &[]string{" cello ", "gear", "cello"}})
	for id, want := range map[uuid.UUID]string{p.rosin: "Rosin of all kinds  {} 1 f", p.bows: "Bows 1 {cello,gear} 1 f"} {
		if got := row(id); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	// What is said again is said by the user from now on.
	if got := change(p.ref(p.bows), history.TopicChange{Title: new("Bows"), Importance: new(1.0), Tags: &[]string{}}); got.Importance != 1 {
		t.Errorf("changed: %+v", got)
	}
	if got := row(p.bows); got != "Bows  {} 1 t" {
		t.Errorf("said again: %q", got)
	}
	change(p.ref(p.bows), history.TopicChange{})
	if got := change(p.ref(p.bows), history.TopicChange{Importance: new(0.0)}); got.Importance != 0 || got.Priority != 0 {
		t.Errorf("unimportant: %+v", got)
	}
}

func TestRatingMovesTheTopicOncePerChange(t *testing.T) {
	t.Parallel()
	p := newTopical(t)
	rate := func(seq, rating int) history.Message {
		t.Helper()
		rated, err := p.store.RateMessage(t.Context(), p.user, p.messages[seq-1], history.Feedback{Rating: &rating})
		if err != nil {
			t.Fatal(err)
		}
		return rated
	}
	importance := func(want float64, rated bool) {
		t.Helper()
		got, is := ask[float64](p.bed, "select importance::float8 from topics where id = $1", p.bows), ask[bool](p.bed, "select importance_rated from topics where id = $1", p.bows)
		if math.Abs(got-want) > 1e-6 || is != rated {
			t.Errorf("the importance is %v (rated: %v), want %v", got, is, want)
		}
	}
	importance(1, false)
	if rated := rate(2, -1); rated.Rating == nil || *rated.Rating != -1 || rated.ID != p.messages[1] {
		t.Errorf("rated: %+v", rated)
	}
	importance(.8, true)
	rate(2, -1) // no change
	importance(.8, true)
	rate(1, 0)
	importance(.74, true)
	rate(2, 1)
	importance(.792, true)
	if rated := rate(15, 1); *rated.Rating != 1 { // has no topic yet
		t.Errorf("rated: %+v", rated)
	}
	importance(.792, true)

	// The same click from two devices is one.
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() { rate(3, -1) })
	}
	both.Wait()
	importance(.8*.792, true)
}

// A topic that is chosen while its message is rated is either there for the rating, or chosen with it.
func TestRatingWaitsForWhoAssignsTopics(t *testing.T) {
	t.Parallel()
	p := newTopical(t)
	p.exec("select throughline.index_chat($1, 16)", p.chat)
	tx := p.begin()
	mustExec(t, tx, "select from conversation_briefs where chat_id = $1 for update", p.chat)
	mustExec(t, tx, "update turn_index set topic_id = $2 where chat_id = $1 and seq = 15", p.chat, p.rosin)
	done := make(chan error, 1)
	go func() {
		_, err := p.store.RateMessage(t.Context(), p.user, p.messages[14], history.Feedback{Rating: new(-1)})
		done <- err
	}()
	p.awaitBlocked(1)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := ask[float32](p.bed, "select importance from topics where id = $1", p.rosin); got != .8 {
		t.Errorf("the importance is %v", got)
	}
}

func TestTopicsAreMerged(t *testing.T) {
	t.Parallel()
	p := newTopical(t)
	p.pack(4)
	p.exec("update topics set access_count = 2, tags = '{a}' where id = $1", p.bows)
	p.exec("update topics set access_count = 3, tags = '{b}' where id = $1", p.rosin)
	kept, err := p.store.MergeTopic(t.Context(), p.user, p.current(), p.bows)
	if err != nil || kept.ID != p.bows || kept.MessageCount != 12 || kept.AccessCount != 5 || !slices.Equal(kept.Tags, []string{"a", "b"}) {
		t.Errorf("merged: %+v, %v", kept, err)
	}
	if len(p.packed) != 1 || <-p.packed != p.bows {
		t.Error("its summary is not made anew")
	}
	gone, err := p.store.FindTopic(t.Context(), p.user, p.ref(p.rosin))
	if err != nil || gone.State != "merged" || gone.MergedInto == nil || *gone.MergedInto != p.bows || gone.Summary != nil {
		t.Errorf("the other is %+v, %v", gone, err)
	}
	if got := saidIn(p.history(p.current(), true)); len(got) != 12 || got[0] != "u:Question 1" || got[11] != "a:Answer 6" {
		t.Errorf("the messages are %q", got)
	}
	for name, c := range map[string][2]uuid.UUID{
		"a merged one": {p.rosin, p.bows}, "into a merged one": {p.bows, p.rosin}, "with itself": {p.bows, p.bows}, "a merged one with itself": {p.rosin, p.rosin},
	} {
		if _, err := p.store.MergeTopic(t.Context(), p.user, p.ref(c[0]), c[1]); fault.CodeOf(err) != fault.ValidationFailed {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := p.store.MergeTopic(t.Context(), p.user, p.ref(p.bows), uuid.New()); fault.CodeOf(err) != fault.TopicNotFound {
		t.Errorf("into none: %v", err)
	}
}

// A function with more rights merges. The app's own rules hold all the same.
func TestOwnersRulesAboutMerging(t *testing.T) {
	t.Parallel()
	p := newTopical(t)
	p.exec("create policy kept on topics as restrictive for update to authenticated using (title <> 'Bows')")
	before := p.everything()
	for _, c := range [][2]uuid.UUID{{p.bows, p.rosin}, {p.rosin, p.bows}} {
		if _, err := p.store.MergeTopic(t.Context(), p.user, p.ref(c[0]), c[1]); fault.CodeOf(err) != fault.ForbiddenByPolicy {
			t.Errorf("merge: %v", err)
		}
	}
	if after := p.everything(); after != before || len(p.packed) != 0 {
		t.Errorf("something changed:\n%s\n%s", before, after)
	}
}
