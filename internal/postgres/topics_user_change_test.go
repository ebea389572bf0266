package postgres

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/memory/topics"
	"github.com/arcoscribe/throughline/internal/work"
)

func TestChangeTopicChangesNamedFieldsAlone(t *testing.T) {
	t.Parallel()
	p := newTopical(t)
	change := func(ref api.TopicRef, change api.TopicChange) api.OneTopic {
		noError(t, api.Check(&change))
		return must(p.store.ChangeTopic(t.Context(), p.user, ref, change))(t)
	}
	row := func(id uuid.UUID) string {
		return ask[string](p, "select format('%s %s %s %s %s', title, title_seq, tags, importance, importance_rated) from topics where id = $1", id)
	}
	got := change(p.current(), api.TopicChange{Title: new("  Rosin\n of  all kinds ")})
	is(t, tuple(got.ID, got.Title), tuple(p.rosin, "Rosin of all kinds"), "renamed: %+v", got)
	change(p.ref(p.bows), api.TopicChange{Tags: &[]string{" cello ", "gear", "cello"}})
	for id, want := range map[uuid.UUID]string{p.rosin: "Rosin of all kinds  {} 1 f", p.bows: "Bows 1 {cello,gear} 1 f"} {
		is(t, row(id), want, "…, want %q", want)
	}
	// A repeated statement counts as the user's from now on.
	is(t, change(p.ref(p.bows), api.TopicChange{Title: new("Bows"), Importance: new(1.0), Tags: &[]string{}}).Importance, 1, "changed")
	is(t, row(p.bows), "Bows  {} 1 t", "said again")
	change(p.ref(p.bows), api.TopicChange{})
	if got := change(p.ref(p.bows), api.TopicChange{Importance: new(0.0)}); got.Importance != 0 || got.Priority != 0 {
		t.Errorf("unimportant: %+v", got)
	}
}

func TestRatingMovesTheTopicOncePerChange(t *testing.T) {
	t.Parallel()
	p := newTopical(t)
	rate := func(seq, rating int) error {
		rated, err := p.store.RateMessage(t.Context(), p.user, p.messages[seq-1], api.Feedback{Rating: &rating})
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
		return errOf(p.store.RateMessage(t.Context(), p.user, p.messages[14], api.Feedback{Rating: new(-1)}))
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
	assert.True(t, len(p.packed) == 1 && <-p.packed == p.bows, "its summary is not made again")
	gone, err := p.store.FindTopic(t.Context(), p.user, p.ref(p.rosin))
	assert.Truef(t, err == nil && gone.State == "merged" && gone.MergedInto != nil && *gone.MergedInto == p.bows && gone.Summary == nil,
		"the other is %+v, %v", gone, err)
	got := saidIn(p.history(p.current(), true))
	assert.Truef(t, len(got) == 12 && got[0] == "u:Question 1" && got[11] == "a:Answer 6", "the messages are %q", got)
	for name, c := range map[string][2]uuid.UUID{
		"a merged one": {p.rosin, p.bows}, "into a merged one": {p.bows, p.rosin}, "with itself": {p.bows, p.bows}, "a merged one with itself": {p.rosin, p.rosin},
	} {
		wantFault(t, errOf(p.store.MergeTopic(t.Context(), p.user, p.ref(c[0]), c[1])), fault.ValidationFailed, "%s", name)
	}
	wantFault(t, errOf(p.store.MergeTopic(t.Context(), p.user, p.ref(p.bows), uuid.New())), fault.TopicNotFound, "into none")
}

// attempts makes every call about a topic, and returns the codes of the refusals.
func (p *topical) attempts(user auth.Principal, ref api.TopicRef, messageID uuid.UUID) map[string]fault.Code {
	ctx, codes := p.t.Context(), map[string]fault.Code{}
	for name, err := range map[string]error{
		"list":    errOf(p.store.ListTopics(ctx, user, ref.ChatID, api.TopicsQuery{Limit: 10})),
		"find":    errOf(p.store.FindTopic(ctx, user, ref)),
		"change":  errOf(p.store.ChangeTopic(ctx, user, ref, api.TopicChange{Title: new("Mine")})),
		"history": errOf(p.store.TopicHistory(ctx, user, ref, api.TopicHistoryQuery{IncludeCompressed: true})),
		"stats":   errOf(p.store.TopicStats(ctx, user, ref)),
		"archive": errOf(p.store.TopicArchive(ctx, user, ref)),
		"context": errOf(p.store.TopicContext(ctx, user, ref)),
		"merge":   errOf(p.store.MergeTopic(ctx, user, ref, p.rosin)),
		"rate":    errOf(p.store.RateMessage(ctx, user, messageID, api.Feedback{Rating: new(1)})),
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
		ref         api.TopicRef
		messageID   uuid.UUID
		list, other fault.Code
	}{
		{"a stranger", stranger, p.ref(p.bows), p.messages[0], fault.ChatNotFound, fault.ChatNotFound},
		{"a stranger, current", stranger, p.current(), p.messages[0], fault.ChatNotFound, fault.ChatNotFound},
		{"a stranger, through a chat of theirs", stranger, api.TopicRef{ChatID: theirs, ID: p.bows}, p.messages[0], "", fault.TopicNotFound},
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
	wantFault(t, errOf(p.store.ChangeTopic(t.Context(), p.user, p.ref(p.bows), api.TopicChange{Title: new("Mine")})), fault.ForbiddenByPolicy, "change")
	is(t, tuple(p.everything(), len(p.packed)), tuple(before, 0), "something changed")
	is(t, *must(p.store.RateMessage(t.Context(), p.user, p.messages[0], api.Feedback{Rating: new(-1)}))(t).Rating, -1, "rate a message of such a topic")
	is(t, ask[float32](p, "select importance from topics where id = $1", p.bows), 1, "the rating moved the topic")
	p.exec("create policy no_ratings on messages as restrictive for update to authenticated using (false)")
	wantFault(t, errOf(p.store.RateMessage(t.Context(), p.user, p.messages[0], api.Feedback{Rating: new(1)})), fault.ForbiddenByPolicy, "rate")
	is(t, p.count("messages where rating = 1"), 0, "a rating was stored")
}

// wandering is an indexed chat of ten turns: 1 to 3 about the cello, 4 to 6 about bees, 7 about the cello again, 8 to 10 about
// chess. Each turn has two messages. A topic's vector is 1 in its own dimension.
type wandering struct {
	*bed
	chatID             uuid.UUID
	cello, bees, chess uuid.UUID
}

func newWandering(t *testing.T) wandering {
	t.Helper()
	w := wandering{bed: newBed(t)}
	w.chatID = w.keepIndexed(w.user,
		"The cello needs a bow.", "Yes.", "A cello bow of carbon.", "Yes.", "The cello is old.", "Yes.",
		"The beehive is full.", "Yes.", "Bees like heather.", "Yes.", "A beehive of wood.", "Yes.",
		"My cello again.", "Yes.",
		"A rook for a bishop.", "Yes.", "The endgame is hard.", "Yes.", "The rook moves.", "Yes.")
	w.cello, w.bees, w.chess = w.topic(1, "Bows", 1, 3, 5, 13), w.topic(2, "Bees", 7, 9, 11), w.topic(3, "Chess", 15, 17, 19)
	return w
}

// topic stores a topic of the turns that begin with these messages.
func (w wandering) topic(number int, title string, turns ...int64) uuid.UUID {
	id := ask[uuid.UUID](w, `insert into topics (chat_id, user_id, number, title, created_at, last_active_at, first_seq, last_seq, message_count,
		centroid, embedding_model, centroid_turns)
		values ($1, $2, $3, $4, '2026-03-03 12:00Z', now(), $5, $6, $7, $8::text::throughline.embedding, 'a model', 1) returning id`,
		w.chatID, w.user.UserID, number, title, turns[0], turns[len(turns)-1]+1, 2*len(turns), vectorText(axis(number)))
	w.exec("update turn_index set topic_id = $1 where chat_id = $2 and seq = any($3)", id, w.chatID, turns)
	return id
}

// left returns the topics of which turns left a prompt that shows the chat from a message on, and that it has come back from.
func (w wandering) left(user auth.Principal, after, before int64) (titles []string, latest string) {
	found := must((&Recall{Pool: w.pool}).Matches(w.t.Context(), user, recall.Query{ChatID: w.chatID, After: after, Before: before, Topics: true}, nil))(w.t)
	names := map[uuid.UUID]string{w.cello: "cello", w.bees: "bees", w.chess: "chess"}
	titles = []string{}
	for _, t := range found.Topics {
		if t.Left {
			titles = append(titles, names[t.ID])
		}
		if t.Latest {
			latest = names[t.ID]
		}
	}
	slices.Sort(titles)
	return titles, latest
}

func TestTopicsThatLeftThePrompt(t *testing.T) {
	t.Parallel()
	w := newWandering(t)
	for _, c := range []struct {
		after, before int64
		want          string
	}{
		{0, 1, "[]"}, {0, 2, "[cello]"}, {0, 7, "[cello]"}, {0, 9, "[bees cello]"}, {0, 15, "[bees cello]"},
		{0, 17, "[bees cello]"}, // of chess, which went on, a turn has left
		{0, 21, "[bees cello]"},
		{1, 21, "[bees]"}, // that about the cello began before the clear
		{20, 21, "[]"},
	} {
		if titles, latest := w.left(w.user, c.after, c.before); fmt.Sprint(titles) != c.want || (latest != "chess") != (c.after == 20) {
			t.Errorf("%+v: %v, the last is %q", c, titles, latest)
		}
	}
	// The chat comes back to bees, which it left for the cello and chess.
	w.exec("update turn_index set topic_id = $1 where chat_id = $2 and seq = 19", w.bees, w.chatID)
	w.exec("update topics set last_seq = 20 where id = $1", w.bees)
	w.exec("update topics set last_seq = 18 where id = $1", w.chess)
	for before, want := range map[int64]string{19: "[bees cello chess]", 20: "[cello chess]"} {
		if titles, latest := w.left(w.user, 0, before); fmt.Sprint(titles) != want || latest != "bees" {
			t.Errorf("back at bees, shown from %d: %v, the last is %q", before, titles, latest)
		}
	}
}

func TestTopicsNearToAQuestion(t *testing.T) {
	t.Parallel()
	w := newWandering(t)
	w.exec("update topics set embedding_model = 'another' where id = $1", w.bees)
	w.exec("update topics set centroid = null, embedding_model = null, centroid_turns = 0 where id = $1", w.chess)
	w.exec("update turn_index set embedding = $2::text::throughline.embedding, embedding_model = 'a model' where chat_id = $1 and seq = 7", w.chatID,
		vectorText(axis(1)))
	near, err := (&Recall{Pool: w.pool}).Nearness(t.Context(), w.user, recall.Query{ChatID: w.chatID, Before: 21, Topics: true},
		recall.Vector{Model: "a model", Values: axis(1)}, nil)
	require.Truef(t, err == nil && len(near.Topics) == 3 && len(near.Turns) == 1 && near.Turns[0].TopicID == w.bees,
		"%+v, %v", near, err)
	for _, topic := range near.Topics {
		assert.Truef(t, topic.HasCosine == (topic.ID == w.cello) && (!topic.HasCosine || topic.Cosine >= .99), "%+v", topic)
	}
}

// A turn without a topic is found as before, and one of a topic by its id.
func TestRecallWithinATopic(t *testing.T) {
	t.Parallel()
	w := newWandering(t)
	w.exec("update turn_index set topic_id = null where chat_id = $1 and seq = 13", w.chatID)
	got := w.recalled(w.user, recall.Query{ChatID: w.chatID, Text: "cello"})
	assert.Truef(t, slices.Contains(got, "My cello again."), "%q", got)
	got = w.recalled(w.user, recall.Query{ChatID: w.chatID, TopicID: w.cello, Text: "cello"})
	assert.Truef(t, len(got) != 0 && !slices.Contains(got, "My cello again."), "%q", got)
	for name, query := range map[string]recall.Query{
		"of another topic":   {ChatID: w.chatID, TopicID: w.cello, Text: "heather"},
		"of an unknown one":  {TopicID: uuid.New(), Text: "cello"},
		"in all their chats": {TopicID: w.bees, Text: "endgame"},
	} {
		is(t, len(w.recalled(w.user, query)), 0, "%s", name)
	}
	is(t, len(w.recalled(w.newUser(), recall.Query{TopicID: w.cello, Text: "cello"})), 0, "another user finds")
}

func TestTopicsThatAreNotLookedUp(t *testing.T) {
	t.Parallel()
	w := newWandering(t)
	shown := func(user auth.Principal, id uuid.UUID) *recall.Topic {
		_, topic, err := (&Recall{Pool: w.pool}).Texts(t.Context(), user, nil, id)
		noError(t, err)
		return topic
	}
	topic := shown(w.user, w.cello)
	is(t, tuple(topic.ID, topic.Title, topic.Summary, topic.Turns, topic.Since.UTC().Format(time.DateOnly)),
		tuple(w.cello, "Bows", "", 4, "2026-03-03"), "a topic")
	w.exec("update topics set state = 'archived', summary = 'They like carbon.' where id = $1", w.cello)
	is(t, shown(w.user, w.cello).Summary, "They like carbon.", "an archived topic")
	w.exec("update topics set state = 'merged', merged_into = $1 where id = $2", w.cello, w.bees)
	is(t, tuple(shown(w.user, w.bees) == nil, shown(w.user, uuid.New()) == nil, shown(w.newUser(), w.cello) == nil), tuple(true, true, true),
		"nothing of a merged one, of none, of another user's")
	if titles, _ := w.left(w.user, 0, 21); fmt.Sprint(titles) != "[cello]" {
		t.Errorf("%v", titles)
	}
	w.exec("update chats set topics = 'off' where id = $1", w.chatID)
	if titles, latest := w.left(w.user, 0, 21); len(titles) > 0 || latest != "" {
		t.Errorf("in a chat without topics: %v, %s", titles, latest)
	}
	w.exec("update chats set topics = 'on' where id = $1", w.chatID)
	found, err := (&Recall{Pool: w.pool}).Matches(t.Context(), w.user, recall.Query{ChatID: w.chatID, Before: 21}, [][]string{{"cello"}})
	first := slices.IndexFunc(found.Found, func(m recall.Match) bool { return m.Seq == 1 })
	assert.Truef(t, err == nil && found.Topics == nil && first >= 0 && found.Found[first].TopicID == w.cello,
		"unasked: %+v, %v", found, err)
}

func TestPacksAreOfTheChatsOwner(t *testing.T) {
	t.Parallel()
	w := newWandering(t)
	packs, otherChat := &Packs{Pool: w.pool, Insert: noJob}, ask[uuid.UUID](w, "insert into chats (user_id) values ($1) returning id", w.newUser().UserID)
	if s, found, err := packs.Read(t.Context(), otherChat, w.bees); err != nil || found || len(s.Messages) != 0 {
		t.Errorf("another's topic: %+v, %v, %v", s, found, err)
	}
	held := work.Lease{Kind: work.Compact, Key: w.bees, ChatID: w.chatID, Token: uuid.New(), Duration: time.Minute}
	claim, _, err := w.work.Claim(t.Context(), held)
	mustBe(t, tuple(err, claim), tuple(nil, work.Taken), "claim")
	s, found, err := packs.Read(t.Context(), w.chatID, w.bees)
	mustBe(t, tuple(err, found, s.UserID, len(s.Messages), s.Current), tuple(nil, true, w.user.UserID, 6, false), "%+v", s)
	change := topics.Packed{ChatID: otherChat, TopicID: w.bees, Lease: held, Planned: s, Summary: "Stolen.", SummarySeq: 12}
	is(t, must(packs.Commit(t.Context(), change))(t), false, "written by another")
	change.ChatID, change.Lease.Token = w.chatID, uuid.New()
	is(t, must(packs.Commit(t.Context(), change))(t), false, "written without the lease")
	is(t, w.count("topics where summary is not null"), 0, "topics with a summary")
}
