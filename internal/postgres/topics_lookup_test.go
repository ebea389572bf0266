package postgres

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/memory/recall"
)

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
	w.t.Helper()
	id := ask[uuid.UUID](w, `insert into topics (chat_id, user_id, number, title, created_at, last_active_at, first_seq, last_seq, message_count,
		centroid, embedding_model, centroid_turns)
		values ($1, $2, $3, $4, '2026-03-03 12:00Z', now(), $5, $6, $7, $8::text::throughline.embedding, 'a model', 1) returning id`,
		w.chatID, w.user.UserID, number, title, turns[0], turns[len(turns)-1]+1, 2*len(turns), vectorText(axis(number)))
	w.exec("update turn_index set topic_id = $1 where chat_id = $2 and seq = any($3)", id, w.chatID, turns)
	return id
}

// left returns the topics of which turns left a prompt that shows the chat from a message on, and that it has come back from.
func (w wandering) left(user auth.Principal, after, before int64) (titles []string, latest string) {
	w.t.Helper()
	found := must(NewRecall(w.pool).Matches(w.t.Context(), user, recall.Scope{ChatID: w.chatID, After: after, Before: before, Topics: true}, nil))(w.t)
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
	near, err := NewRecall(w.pool).Nearness(t.Context(), w.user, recall.Scope{ChatID: w.chatID, Before: 21, Topics: true},
		recall.Vector{Model: "a model", Values: axis(1)})
	if err != nil || len(near.Topics) != 3 || len(near.Turns) != 1 || near.Turns[0].TopicID != w.bees {
		t.Fatalf("%+v, %v", near, err)
	}
	for _, topic := range near.Topics {
		if topic.HasCosine != (topic.ID == w.cello) || topic.HasCosine && topic.Cosine < .99 {
			t.Errorf("%+v", topic)
		}
	}
}

// A turn without a topic is found as before, and one of a topic by its id.
func TestRecallWithinATopic(t *testing.T) {
	t.Parallel()
	w := newWandering(t)
	w.exec("update turn_index set topic_id = null where chat_id = $1 and seq = 13", w.chatID)
	if got := w.recalled(w.user, recall.Query{ChatID: w.chatID, Text: "cello"}); !slices.Contains(got, "My cello again.") {
		t.Errorf("%q", got)
	}
	if got := w.recalled(w.user, recall.Query{ChatID: w.chatID, TopicID: w.cello, Text: "cello"}); len(got) == 0 || slices.Contains(got, "My cello again.") {
		t.Errorf("%q", got)
	}
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
		_, topic, err := NewRecall(w.pool).Texts(t.Context(), user, nil, id)
		noError(t, err)
		return topic
	}
	topic := shown(w.user, w.cello)
	is(t, tuple(topic.ID, topic.Title, topic.Summary, topic.Turns, topic.Since.UTC().Format(time.DateOnly)), tuple(w.cello, "Bows", "", 4, "2026-03-03"), "a topic")
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
	found, err := NewRecall(w.pool).Matches(t.Context(), w.user, recall.Scope{ChatID: w.chatID, Before: 21}, [][]string{{"cello"}})
	first := slices.IndexFunc(found.Found, func(m recall.Match) bool { return m.Seq == 1 })
	if err != nil || found.Topics != nil || first < 0 || found.Found[first].TopicID != w.cello {
		t.Errorf("unasked: %+v, %v", found, err)
	}
}
