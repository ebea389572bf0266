package recall_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/memory/recall"
)

var teeth, music = uuid.UUID{1}, uuid.UUID{2}

var topicRules = recall.TopicRules{Similarity: .7, Continuity: .15}

// withTopics is the shelf's talk of the concert with two turns about teeth, each a topic. That about teeth was left.
func withTopics(of ...recall.TopicPlace) *shelf {
	s := newShelf()
	s.topics = []recall.TopicPlace{{ID: music, Latest: true, HasCosine: true}, {ID: teeth, Left: true, HasCosine: true}}
	for _, changed := range of {
		at := slices.IndexFunc(s.topics, func(t recall.TopicPlace) bool { return t.ID == changed.ID })
		s.topics[at] = changed
	}
	s.topicOf = func(n int) uuid.UUID {
		if n == 8 || n == 20 {
			return teeth
		}
		return music
	}
	return s
}

// cosineFor is the cosine that is as similar on the scale of the shelf.
func cosineFor(similarity float64) float64 { return .1 + (similarity-.2)/.42*.4 }

// comeBack asks for turns and the topic, with a model whose vector is there as soon as it is waited for; none for nil.
func comeBack(t *testing.T, s *shelf, m *model, question string) recall.Found {
	t.Helper()
	config := recall.Recaller{Store: s, Topics: topicRules}
	if m != nil {
		config.Questions = m.questions(s)
	}
	found, err := (&config).Recall(t.Context(), auth.Principal{}, recall.Query{ChatID: chatID, Text: question, Topic: true, Now: time.Now(), Limit: 6})
	require.NoError(t, err)
	return found
}

func topicOf(found recall.Found) uuid.UUID {
	if found.Topic == nil {
		return uuid.Nil
	}
	return found.Topic.ID
}

func answering() *model {
	m := &model{answers: make(chan error, 1)}
	m.answers <- nil
	return m
}

const dentist, aboutDentist = "My dentist is called Bukowski.", "What is the name of my dentist, Bukowski?"

func TestTopicOfMostOfWhatWordsFound(t *testing.T) {
	t.Parallel()
	found := comeBack(t, withTopics(), nil, aboutDentist)
	assert.Truef(t, topicOf(found) == teeth && len(found.Turns) == 1 && found.Turns[0].Seq == 9, "%+v", found)
	found = comeBack(t, withTopics(recall.TopicPlace{ID: teeth}), nil, aboutDentist)
	assert.Truef(t, topicOf(found) == uuid.Nil && slices.Contains(contents(found), dentist),
		"of a topic that was not left: %+v", found)
	found = comeBack(t, withTopics(), nil, "ok, thanks")
	assert.Equalf(t, uuid.Nil, topicOf(found), "small talk: %+v", found)
}

// A few turns of a topic among many of others do not make it the one.
func TestNoTopicOfLittleOfWhatWordsFound(t *testing.T) {
	t.Parallel()
	s := withTopics()
	s.turns[33], s.turns[40] = dentist, dentist // at the concert
	found := comeBack(t, s, nil, aboutDentist)
	assert.Truef(t, topicOf(found) == uuid.Nil && len(found.Turns) >= 3, "%+v", found)
}

func TestTopicNearToTheQuestion(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		teeth, music float64 // similarities
		want         uuid.UUID
	}{
		"near enough":                       {.7, .3, teeth},
		"not near enough":                   {.69, .3, uuid.Nil},
		"the last topic is nearer":          {.7, .8, uuid.Nil},
		"the last topic goes on":            {.8, .66, uuid.Nil},
		"nearer than the last topic, so on": {.82, .66, teeth},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := withTopics(
				recall.TopicPlace{ID: teeth, Left: true, Cosine: cosineFor(c.teeth) + 1e-9, HasCosine: true},
				recall.TopicPlace{ID: music, Latest: true, Cosine: cosineFor(c.music), HasCosine: true})
			found := comeBack(t, s, answering(), "Which molar hurts?")
			assert.Truef(t, topicOf(found) == c.want && found.How == recall.ByMeaning, "%+v", found)
		})
	}
}

// A topic may be near though no turn of it is: its summary is shown alone.
func TestTopicWithoutTurns(t *testing.T) {
	t.Parallel()
	s := withTopics(recall.TopicPlace{ID: teeth, Left: true, Cosine: 1, HasCosine: true})
	s.turns[20] = "It had to be pulled."
	found := comeBack(t, s, answering(), "Which molar hurts?")
	assert.Truef(t, topicOf(found) == teeth && len(found.Turns) == 0 && found.How == recall.ByNone, "%+v", found)
}

// A short question comes back to a topic only with a turn of it.
func TestShortQuestionNeedsATurnOfTheTopic(t *testing.T) {
	t.Parallel()
	near := recall.TopicPlace{ID: teeth, Left: true, Cosine: 1, HasCosine: true}
	s := withTopics(near)
	m := answering()
	short := recall.Query{ChatID: chatID, Text: "The molar?", Topic: true, Short: true, Limit: 6}
	r := &recall.Recaller{Store: s, Questions: m.questions(s), Topics: topicRules}
	if found, err := r.Recall(t.Context(), auth.Principal{}, short); err != nil || topicOf(found) != teeth || len(found.Turns) != 1 {
		t.Errorf("%+v, %v", found, err)
	}
	s.turns[20], m.answers = "It was pulled.", answering().answers
	if found, err := r.Recall(t.Context(), auth.Principal{}, short); err != nil || topicOf(found) != uuid.Nil || found.How != recall.ByNone {
		t.Errorf("%+v, %v", found, err)
	}
	s.turns[33], m.answers = "The conductor has a bad tooth.", answering().answers
	found, err := r.Recall(t.Context(), auth.Principal{}, short)
	assert.Truef(t, err == nil && topicOf(found) == uuid.Nil && len(found.Turns) != 0 && found.Turns[0].Seq == 34,
		"a turn of another topic: %+v, %v", found, err)
}

// What is recalled is of the topic; where that has nothing, of the others.
func TestRecallWithinTheTopic(t *testing.T) {
	t.Parallel()
	s := withTopics()
	s.topicOf = func(n int) uuid.UUID {
		if n < 30 {
			return teeth
		}
		return music
	}
	s.turns[12], s.turns[16], s.turns[33] = dentist, dentist, dentist
	if found := comeBack(t, s, nil, aboutDentist); topicOf(found) != teeth || len(found.Turns) < 3 ||
		slices.ContainsFunc(found.Turns, func(t recall.Turn) bool { return t.Seq > 30 }) {
		t.Errorf("%q of %+v", contents(found), found.Topic)
	}
	s = withTopics(recall.TopicPlace{ID: teeth, Left: true, Cosine: 1, HasCosine: true})
	s.turns[20], s.turns[33] = "It was pulled.", "The conductor has a bad tooth."
	if found := comeBack(t, s, answering(), "Which molar hurts?"); topicOf(found) != teeth || len(found.Turns) == 0 || found.Turns[0].Seq != 34 {
		t.Errorf("%q of %+v", contents(found), found.Topic)
	}
}

// Where no topic has a vector of the model, as when it has changed, or the lookup by meaning fails, words decide.
func TestTopicByWordsWhereMeaningCannotTell(t *testing.T) {
	t.Parallel()
	bare := withTopics(recall.TopicPlace{ID: teeth, Left: true}, recall.TopicPlace{ID: music, Latest: true})
	broken := withTopics()
	broken.fails = errors.New("broken")
	for _, s := range []*shelf{bare, broken} {
		m := answering()
		found := comeBack(t, s, m, aboutDentist)
		assert.Truef(t, topicOf(found) == teeth && found.How == recall.ByWords, "%+v", found)
	}
}

// Nobody who does not ask for a topic gets one, nor is told of those of a search.
func TestNoTopicUnasked(t *testing.T) {
	t.Parallel()
	r := &recall.Recaller{Store: withTopics(), Topics: topicRules}
	query := recall.Query{ChatID: chatID, Text: aboutDentist, Limit: 6}
	found, err := r.Recall(t.Context(), auth.Principal{}, query)
	assert.Truef(t, err == nil && found.Topic == nil && len(found.Turns) != 0, "%+v, %v", found, err)
	found, err = r.Search(t.Context(), auth.Principal{}, query)
	assert.Truef(t, err == nil && found.Topic == nil && len(found.Turns) != 0, "%+v, %v", found, err)
}
