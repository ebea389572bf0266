package recall_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/memory/recall"
)

// shelf is a store of turns in memory, of one message each.
type shelf struct {
	turns   []string
	queries atomic.Int32
	fails   error // of Nearness
	others  bool  // the turns are those of other chats
	// topics are those of the chat, and topicOf says which one a turn belongs to.
	topics  []recall.TopicPlace
	topicOf func(n int) uuid.UUID
}

var chatID = uuid.New()

func (s *shelf) place(n int) recall.Place {
	topic := uuid.Nil
	if s.topicOf != nil {
		topic = s.topicOf(n)
	}
	return recall.Place{
		TopicID:  topic,
		Span:     recall.Span{TurnID: recall.TurnID{ChatID: chatID, Seq: int64(n + 1)}, LastSeq: int64(n + 1)},
		AskedSeq: int64(max(n, 1)), Segment: n / 4, Size: len(strings.Fields(s.turns[n])),
		SaidAt: time.Date(2026, time.March, n+1, 12, 0, 0, 0, time.UTC),
	}
}

func (s *shelf) IndexRest(context.Context, auth.Principal, recall.Query) error { return nil }

func (s *shelf) Matches(_ context.Context, _ auth.Principal, in recall.Query, words [][]string) (recall.Matches, error) {
	s.queries.Add(1)
	found := recall.Matches{Turns: len(s.turns)}
	if s.others && in.Except != chatID {
		return found, nil
	}
	if in.Topics {
		for _, t := range s.topics {
			t.Cosine, t.HasCosine = 0, false
			found.Topics = append(found.Topics, t)
		}
	}
	count := func(n int, forms []string) float64 {
		if n < 0 {
			return 0
		}
		times := 0.
		for _, token := range strings.FieldsFunc(strings.ToLower(s.turns[n]), func(r rune) bool { return r < 'a' || r > 'z' }) {
			if slices.Contains(forms, token) {
				times++
			}
		}
		return times
	}
	for n := range s.turns {
		for w, forms := range words {
			if own, asked := count(n, forms), count(n-1, forms); own+asked > 0 {
				found.Found = append(found.Found, recall.Match{Place: s.place(n), Word: w, Own: own, Asked: asked})
			}
		}
	}
	return found, nil
}

// Nearness is 1 for turns that speak of teeth.
func (s *shelf) Nearness(_ context.Context, _ auth.Principal, in recall.Query, _ recall.Vector, _ []recall.TurnID) (recall.Nearby, error) {
	s.queries.Add(1)
	if s.others && in.Except != chatID {
		return recall.Nearby{}, s.fails
	}
	var near []recall.Near
	var topics []recall.TopicPlace
	if in.Topics {
		topics = s.topics
	}
	for n, content := range s.turns {
		cosine := .01 * float64(n%7)
		if strings.Contains(content, "tooth") {
			cosine = 1
		}
		near = append(near, recall.Near{Place: s.place(n), Cosine: cosine})
	}
	return recall.Nearby{Turns: near, Topics: topics}, s.fails
}

func (s *shelf) Texts(_ context.Context, _ auth.Principal, turns []recall.Span, topic uuid.UUID) (map[recall.TurnID][]recall.Message, *recall.Topic, error) {
	s.queries.Add(1)
	found := map[recall.TurnID][]recall.Message{}
	for _, t := range turns {
		found[t.TurnID] = []recall.Message{{Seq: t.Seq, Role: "user", Content: s.turns[t.Seq-1]}}
	}
	if topic == uuid.Nil {
		return found, nil, nil
	}
	return found, &recall.Topic{ID: topic}, nil
}

func (s *shelf) ReadScale(context.Context, string) (recall.Scale, bool, error) {
	return recall.Scale{P50: .1, P99: .5, List: recall.SentenceList}, true, nil
}

func (s *shelf) SaveScale(context.Context, string, recall.Scale) error { return nil }

// model answers when it is told to.
type model struct {
	answers chan error
	asked   atomic.Int32
}

func (m *model) Model() string { return "a model" }

func (m *model) questions(s recall.ScaleStore) *recall.Questions {
	return &recall.Questions{Embedder: m, Scales: recall.NewScales(s, m)}
}

func (m *model) Embed(ctx context.Context, _ recall.For, texts []string) ([][]float32, error) {
	m.asked.Add(1)
	select {
	case err := <-m.answers:
		return slices.Repeat([][]float32{{1}}, len(texts)), err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func newShelf() *shelf {
	s := &shelf{}
	for range 15 {
		s.turns = append(s.turns, "We talked about the concert hall.", "The programme is not settled yet.", "I practised the slow movement.", "The lesson was long.")
	}
	s.turns[8] = "My dentist is called Bukowski."
	s.turns[20] = "That tooth had to be pulled."
	return s
}

func contents(found recall.Found) []string {
	var all []string
	for _, t := range found.Turns {
		all = append(all, t.Messages[0].Text)
	}
	return all
}

func ask(t *testing.T, r *recall.Recaller, question string) recall.Found {
	found, err := r.Recall(t.Context(), auth.Principal{}, recall.Query{ChatID: chatID, Text: question, Now: time.Now(), Limit: 6})
	require.NoError(t, err)
	return found
}

func TestSmallTalkCostsNoQuery(t *testing.T) {
	t.Parallel()
	s, m := newShelf(), &model{}
	r := &recall.Recaller{Store: s, Questions: m.questions(s)}
	for _, content := range []string{"ok, thanks", "", "?", "Tell me a joke!", "Danke schön"} {
		found := ask(t, r, content)
		assert.Truef(t, found.How == recall.ByNone && found.Turns == nil, "%q finds %+v", content, found)
	}
	assert.Truef(t, s.queries.Load() <= 0 && m.asked.Load() <= 0, "%d queries, %d vectors", s.queries.Load(), m.asked.Load())
}

// Where words find what the question is about, no vector is made, and who else looks for it learns that.
func TestWordsNeedNoVector(t *testing.T) {
	t.Parallel()
	s, m := newShelf(), &model{} // which never answers
	r := &recall.Recaller{Store: s, Questions: m.questions(s)}
	found := ask(t, r, "What is the name of my dentist?")
	assert.Truef(t, found.How == recall.ByWords && len(found.Turns) != 0 && contents(found)[0] == "My dentist is called Bukowski.", "%+v", found)
	assert.Equal(t, "dentist", found.Turns[0].Why, "because of")
	assert.Zero(t, m.asked.Load(), "vectors")
	r.Questions = nil
	for question, sure := range map[string]bool{"What is the name of my dentist?": true, "Which molar hurts?": false} {
		var told []bool
		_, err := r.Recall(t.Context(), auth.Principal{}, recall.Query{ChatID: chatID, Text: question, Limit: 6, Sure: func(s bool) { told = append(told, s) }})
		assert.Truef(t, err == nil && slices.Equal(told, []bool{sure}), "%s: %v, %v", question, told, err)
	}
}

func TestMeaningFindsWhatWordsDoNot(t *testing.T) {
	t.Parallel()
	s, m := newShelf(), &model{answers: make(chan error, 1)}
	m.answers <- nil
	r := &recall.Recaller{Store: s, Questions: m.questions(s)}
	found := ask(t, r, "Which molar hurts?")
	assert.Truef(t, found.How == recall.ByMeaning && len(found.Turns) != 0 && contents(found)[0] == "That tooth had to be pulled." &&
		found.Turns[0].Why == "similar in meaning",
		"%+v", found)
}

func TestWordsOfManyTurnsPassNoGate(t *testing.T) {
	t.Parallel()
	r := &recall.Recaller{Store: newShelf()}
	if found := ask(t, r, "And the concert?"); found.How != recall.ByNone || len(found.Turns) > 0 {
		t.Errorf("%+v", found)
	}
	found, err := r.Search(t.Context(), auth.Principal{}, recall.Query{ChatID: chatID, Text: "And the concert?", Limit: 3})
	assert.Truef(t, err == nil && len(found.Turns) == 3, "a search finds %+v, %v", found, err)
}

func TestTurnsThatThePromptShowsAreLeftOut(t *testing.T) {
	t.Parallel()
	r := &recall.Recaller{Store: newShelf()}
	found, err := r.Recall(t.Context(), auth.Principal{}, recall.Query{ChatID: chatID, Text: "My dentist?", Shown: []int64{9}, Limit: 6})
	assert.Truef(t, err == nil && !slices.Contains(contents(found), "My dentist is called Bukowski."), "%+v, %v", found, err)
}

func TestAFailingEmbedderCostsOnlyWhatWordsDoNotFind(t *testing.T) {
	t.Parallel()
	s, m := newShelf(), &model{answers: make(chan error, 3)}
	away := errors.New("away")
	for range 3 {
		m.answers <- away
	}
	r := &recall.Recaller{Store: s, Questions: m.questions(s)}
	if found := ask(t, r, "What is the name of my dentist?"); found.How != recall.ByWords {
		t.Errorf("%+v", found)
	}
	if _, err := r.Recall(t.Context(), auth.Principal{}, recall.Query{ChatID: chatID, Text: "Which molar hurts?", Limit: 6}); !errors.Is(err, away) {
		t.Errorf("%v", err)
	}
	found, err := r.Search(t.Context(), auth.Principal{}, recall.Query{ChatID: chatID, Text: "dentist", Limit: 6})
	assert.Truef(t, err == nil && found.How == recall.ByWords, "%+v, %v", found, err)
}

func TestATimeInTheQuestionLiftsItsTurns(t *testing.T) {
	t.Parallel()
	s := newShelf()
	s.turns[30], s.turns[50] = "A string broke.", "A string broke."
	s.turns[5] = s.turns[50]
	r := &recall.Recaller{Store: s}
	found, err := r.Recall(t.Context(), auth.Principal{}, recall.Query{
		ChatID: chatID, Text: "Which string broke on March 6th?", Now: time.Date(2026, time.June, 1, 0, 0, 0, 0, time.UTC), Limit: 6,
	})
	assert.Truef(t, err == nil && len(found.Turns) != 0 && found.Turns[0].Seq == 6 && strings.HasSuffix(found.Turns[0].Why, "6 March 2026"),
		"%+v, %v", found, err)
}

// Words that many turns hold each pass together, because few turns hold them all.
func TestCommonWordsPassTogether(t *testing.T) {
	t.Parallel()
	s := newShelf()
	for n := range s.turns { // 9 of 60 turns each
		for place, word := range []string{" weeks", " daily", " routine"} {
			if n%7 == place {
				s.turns[n] += word
			}
		}
	}
	s.turns[31] = "That was three weeks of my daily routine."
	r := &recall.Recaller{Store: s}
	found := ask(t, r, "How many weeks of my daily routine?")
	assert.Truef(t, len(found.Turns) != 0 && found.Turns[0].Seq == 32, "%+v", found)
	if found := ask(t, r, "How many weeks of it, daily?"); len(found.Turns) != 0 {
		t.Errorf("two of them: %q", contents(found))
	}
}

// A time that the question names is as a word of the few turns that were said then.
func TestACommonWordPassesWithATime(t *testing.T) {
	t.Parallel()
	s := newShelf()
	for n := 0; n < len(s.turns); n += 6 {
		s.turns[n] += " It was cold."
	}
	r := &recall.Recaller{Store: s}
	for question, want := range map[string]int{
		"Where was it cold?": 0, "Where was it cold on 7 March?": 1, "Where was it cold in 2026?": 0, "Where was it on 7 March?": 0,
	} {
		found, err := r.Recall(t.Context(), auth.Principal{}, recall.Query{
			ChatID: chatID, Text: question, Now: time.Date(2026, time.June, 1, 0, 0, 0, 0, time.UTC), Limit: 1,
		})
		assert.Truef(t, err == nil && len(found.Turns) == want && (want <= 0 || found.Turns[0].Seq == 7), "%s %+v, %v", question, found, err)
	}
}

// Turns near one that holds the words rank before other turns, the nearest first, but not across a gap.
func TestTurnsNearAHitRankByDistance(t *testing.T) {
	t.Parallel()
	s := newShelf()
	for n := range s.turns {
		s.turns[n] = "Of the lesson."
	}
	s.turns[20], s.turns[24] = "The violin lesson.", "Of it."
	r := &recall.Recaller{Store: s}
	found, err := r.Search(t.Context(), auth.Principal{}, recall.Query{ChatID: chatID, Text: "violin lesson", Limit: 6})
	require.NoError(t, err)
	var seqs []int64
	for _, turn := range found.Turns {
		seqs = append(seqs, turn.Seq)
	}
	assert.Truef(t, len(seqs) >= 5 && slices.Equal(seqs[:4], []int64{21, 22, 23, 24}) && seqs[4] != 20, "%d", seqs)
}

// The words of a question that nothing answered count for what follows it.
func TestAnAnswerPassesByItsQuestion(t *testing.T) {
	t.Parallel()
	s := newShelf()
	s.turns[8], s.turns[9] = "Who is your dentist?", "Bukowski, in Maple Street."
	found := ask(t, (&recall.Recaller{Store: s}), "My dentist?")
	got := contents(found)
	assert.Truef(t, slices.Contains(got, "Bukowski, in Maple Street."), "%q", got)
}

// Once a turn passes the gate, others that say much of the question are shown beside it, which pass none alone.
func TestTurnsBesideOneThatPasses(t *testing.T) {
	t.Parallel()
	s := newShelf()
	s.turns[40] = "We talked about the programme of the slow concert."
	r := &recall.Recaller{Store: s}
	const question = "What of the slow concert programme"
	if found := ask(t, r, question+"?"); len(found.Turns) > 0 {
		t.Errorf("alone: %q", contents(found))
	}
	found := ask(t, r, question+", and my dentist?")
	got := contents(found)
	assert.Truef(t, len(got) >= 2 && slices.Contains(got, "My dentist is called Bukowski.") && slices.Contains(got, s.turns[40]), "%q", got)
}

// Where no turn of the chat is about the question, by words or by meaning, the others are asked with the same vector. A chat of
// which nothing left the prompt is not asked at all.
func TestOtherChatsAreAskedWithTheSameVector(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		shown   bool
		queries int32
	}{{false, 5}, {true, 3}} { // by words and by meaning, in each; and the texts
		s, m := newShelf(), &model{answers: make(chan error, 1)}
		s.others = true
		m.answers <- nil
		r := &recall.Recaller{Store: s, Questions: m.questions(s)}
		query := recall.Query{ChatID: chatID, Text: "Which molar hurts?", Elsewhere: true, OwnShown: c.shown, Limit: 6}
		found, err := r.Recall(t.Context(), auth.Principal{}, query)
		assert.Truef(t, err == nil && len(found.Turns) == 1 && found.Turns[0].Elsewhere && found.How == recall.ByMeaning && m.asked.Load() == 1,
			"%+v, %v, %d vectors", found, err, m.asked.Load())
		assert.Equal(t, c.queries, s.queries.Load(), "queries")
		query.Elsewhere = false
		m.answers <- nil
		if found, err := r.Recall(t.Context(), auth.Principal{}, query); err != nil || len(found.Turns) > 0 {
			t.Errorf("the chat alone: %+v, %v", found, err)
		}
	}
}
