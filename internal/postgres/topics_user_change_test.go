package postgres

import (
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
)

func TestChangeTopicChangesNamedFieldsAlone(t *testing.T) {
	t.Parallel()
	p := newTopical(t)
	change := func(ref history.TopicRef, change history.TopicChange) history.OneTopic {
		t.Helper()
		noError(t, history.Check(&change))
		return must(p.store.ChangeTopic(t.Context(), p.user, ref, change))(t)
	}
	row := func(id uuid.UUID) string {
		return ask[string](p, "select format('%s %s %s %s %s', title, title_seq, tags, importance, importance_rated) from topics where id = $1", id)
	}
	got := change(p.current(), history.TopicChange{Title: new("  Rosin\n of  all kinds ")})
	is(t, tuple(got.ID, got.Title), tuple(p.rosin, "Rosin of all kinds"), "renamed: %+v", got)
	change(p.ref(p.bows), history.TopicChange{Tags: &[]string{" cello ", "gear", "cello"}})
	for id, want := range map[uuid.UUID]string{p.rosin: "Rosin of all kinds  {} 1 f", p.bows: "Bows 1 {cello,gear} 1 f"} {
		is(t, row(id), want, "…, want %q", want)
	}
	// What is said again is said by the user from now on.
	is(t, change(p.ref(p.bows), history.TopicChange{Title: new("Bows"), Importance: new(1.0), Tags: &[]string{}}).Importance, 1, "changed")
	is(t, row(p.bows), "Bows  {} 1 t", "said again")
	change(p.ref(p.bows), history.TopicChange{})
	if got := change(p.ref(p.bows), history.TopicChange{Importance: new(0.0)}); got.Importance != 0 || got.Priority != 0 {
		t.Errorf("unimportant: %+v", got)
	}
}

func TestRatingMovesTheTopicOncePerChange(t *testing.T) {
	t.Parallel()
	p := newTopical(t)
	rate := func(seq, rating int) error {
		rated, err := p.store.RateMessage(t.Context(), p.user, p.messages[seq-1], history.Feedback{Rating: &rating})
		is(t, tuple(rated.ID, *rated.Rating), tuple(p.messages[seq-1], rating), "rated: %+v", rated)
		return err
	}
	importance := func(want string) {
		t.Helper()
		is(t, ask[string](p, "select round(importance::numeric, 4) || ' ' || importance_rated from topics where id = $1", p.bows), want, "the importance")
	}
	importance("1.0000 false")
	for _, c := range []struct {
		seq, rating int
		want        string
	}{
		{2, -1, "0.8000 true"}, {2, -1, "0.8000 true"}, // no change
		{1, 0, "0.7400 true"}, {2, 1, "0.7920 true"}, {15, 1, "0.7920 true"}, // has no topic yet
	} {
		noError(t, rate(c.seq, c.rating))
		importance(c.want)
	}
	together(t, 2, func(int) error { return rate(3, -1) }) // the same click from two devices is one
	importance("0.6336 true")
}

// A topic that is chosen while its message is rated is either there for the rating, or chosen with it.
func TestRatingWaitsForWhoAssignsTopics(t *testing.T) {
	t.Parallel()
	p := newTopical(t)
	p.exec("select throughline.index_chat($1, 16)", p.chat)
	tx := p.begin()
	mustExec(t, tx, "select from conversation_briefs where chat_id = $1 for update", p.chat)
	mustExec(t, tx, "update turn_index set topic_id = $2 where chat_id = $1 and seq = 15", p.chat, p.rosin)
	noError(t, p.waitsFor(tx, func() error {
		return errOf(p.store.RateMessage(t.Context(), p.user, p.messages[14], history.Feedback{Rating: new(-1)}))
	}))
	is(t, ask[float32](p, "select importance from topics where id = $1", p.rosin), .8, "the importance")
}

func TestTopicsAreMerged(t *testing.T) {
	t.Parallel()
	p := newTopical(t)
	p.pack(4)
	p.exec("update topics set access_count = 2, tags = '{a}' where id = $1", p.bows)
	p.exec("update topics set access_count = 3, tags = '{b}' where id = $1", p.rosin)
	kept, err := p.store.MergeTopic(t.Context(), p.user, p.current(), p.bows)
	is(t, tuple(err, kept.ID, kept.MessageCount, kept.AccessCount, kept.Tags), tuple(nil, p.bows, 12, 5, []string{"a", "b"}), "merged: %+v", kept)
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
		wantFault(t, errOf(p.store.MergeTopic(t.Context(), p.user, p.ref(c[0]), c[1])), fault.ValidationFailed, "%s", name)
	}
	wantFault(t, errOf(p.store.MergeTopic(t.Context(), p.user, p.ref(p.bows), uuid.New())), fault.TopicNotFound, "into none")
}

// attempts makes every call about a topic, and returns the codes of the refusals.
func (p *topical) attempts(user auth.Principal, ref history.TopicRef, messageID uuid.UUID) map[string]fault.Code {
	p.t.Helper()
	ctx, codes := p.t.Context(), map[string]fault.Code{}
	for name, err := range map[string]error{
		"list":    errOf(p.store.ListTopics(ctx, user, ref.ChatID, history.TopicsQuery{Limit: 10})),
		"find":    errOf(p.store.FindTopic(ctx, user, ref)),
		"change":  errOf(p.store.ChangeTopic(ctx, user, ref, history.TopicChange{Title: new("Mine")})),
		"history": errOf(p.store.TopicHistory(ctx, user, ref, history.TopicHistoryQuery{IncludeCompressed: true})),
		"stats":   errOf(p.store.TopicStats(ctx, user, ref)),
		"archive": errOf(p.store.TopicArchive(ctx, user, ref)),
		"context": errOf(p.store.TopicContext(ctx, user, ref)),
		"merge":   errOf(p.store.MergeTopic(ctx, user, ref, p.rosin)),
		"rate":    errOf(p.store.RateMessage(ctx, user, messageID, history.Feedback{Rating: new(1)})),
	} {
		codes[name] = fault.CodeOf(err)
	}
	return codes
}

func (p *topical) everything() string {
	return ask[string](p, "select (select json_agg(t order by number)::text from topics t) || (select json_agg(m order by seq)::text from messages m)")
}

func TestTopicsOfOthersDoNotExist(t *testing.T) {
	t.Parallel()
	p := newTopical(t)
	p.pack(4)
	stranger := p.newUser()
	before, theirs := p.everything(), p.create(stranger)
	for _, c := range []struct {
		who         string
		user        auth.Principal
		ref         history.TopicRef
		messageID   uuid.UUID
		list, other fault.Code
	}{
		{"a stranger", stranger, p.ref(p.bows), p.messages[0], fault.ChatNotFound, fault.ChatNotFound},
		{"a stranger, current", stranger, p.current(), p.messages[0], fault.ChatNotFound, fault.ChatNotFound},
		{"a stranger, through a chat of theirs", stranger, history.TopicRef{ChatID: theirs, ID: p.bows}, p.messages[0], "", fault.TopicNotFound},
		{"somebody who does not exist", principalOf(t, uuid.New()), p.ref(p.bows), p.messages[0], fault.ChatNotFound, fault.ChatNotFound},
		{"no topic", p.user, p.ref(uuid.New()), uuid.New(), "", fault.TopicNotFound},
		{"the nil id", p.user, p.ref(uuid.Nil), uuid.New(), "", fault.TopicNotFound},
	} {
		for name, code := range p.attempts(c.user, c.ref, c.messageID) {
			want, known := map[string]fault.Code{"list": c.list, "rate": fault.MessageNotFound}[name]
			if !known {
				want = c.other
			}
			is(t, code, want, "%s, %s", c.who, name)
		}
	}
	shelfOf(p.bed).expire(p.chat)
	for name, code := range p.attempts(p.user, p.ref(p.bows), p.messages[0]) {
		is(t, code, fault.ChatExpired, "of an expired chat, %s", name)
	}
	is(t, p.everything(), before, "something changed:\n…\n")
}

// The app's own rules hold for topics and ratings, and where a function with more rights merges.
func TestOwnersRulesAboutTopics(t *testing.T) {
	t.Parallel()
	p := topicalOf(newOwnBed(t))
	p.exec("create policy kept on topics as restrictive for update to authenticated using (title <> 'Bows')")
	before := p.everything()
	for _, c := range [][2]uuid.UUID{{p.bows, p.rosin}, {p.rosin, p.bows}} {
		wantFault(t, errOf(p.store.MergeTopic(t.Context(), p.user, p.ref(c[0]), c[1])), fault.ForbiddenByPolicy, "merge")
	}
	wantFault(t, errOf(p.store.ChangeTopic(t.Context(), p.user, p.ref(p.bows), history.TopicChange{Title: new("Mine")})), fault.ForbiddenByPolicy, "change")
	is(t, tuple(p.everything(), len(p.packed)), tuple(before, 0), "something changed")
	is(t, *must(p.store.RateMessage(t.Context(), p.user, p.messages[0], history.Feedback{Rating: new(-1)}))(t).Rating, -1, "rate a message of such a topic")
	is(t, ask[float32](p, "select importance from topics where id = $1", p.bows), 1, "the rating moved the topic")
	p.exec("create policy no_ratings on messages as restrictive for update to authenticated using (false)")
	wantFault(t, errOf(p.store.RateMessage(t.Context(), p.user, p.messages[0], history.Feedback{Rating: new(1)})), fault.ForbiddenByPolicy, "rate")
	is(t, p.count("messages where rating = 1"), 0, "a rating was stored")
}
