package recall

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/google/uuid"
)

// nearest is how many turns are candidates because of their meaning alone.
const nearest = 200

// readRatio is how many turns a search reads for each that is wanted, because their texts decide as well.
const readRatio = 2

// besideScore is from which score on a turn is shown beside those that pass the gate.
const besideScore = 2.

// Recaller finds turns. It may be used by many goroutines at once.
type Recaller struct {
	Store Store
	// Questions makes the question's vector; nil to go by words alone.
	Questions *Questions
	// Topics say when a question is about a topic. Required for queries that ask for one.
	Topics TopicRules
}

// Recall finds the turns that a prompt should show for a question: those that pass the gate, at most q.Limit, best
// first; of the user's other chats if there are none of the chat's own. A question without a word that could pass it,
// such as "ok, thanks", is answered without a query.
//
// The question's vector is made only if words let no turn pass. Its failure is an error then.
func (r *Recaller) Recall(ctx context.Context, user auth.Principal, q Query) (Found, error) {
	words := Words(q.Text)
	if !canPass(words) {
		return Found{How: ByNone}, nil
	}
	question, failed := q.question(user), error(nil)
	for _, q := range q.places() {
		found, err := r.recall(ctx, user, q, words, question)
		if len(found.Turns) > 0 || found.Topic != nil {
			return found, nil
		}
		failed = cmp.Or(failed, err)
	}
	return Found{How: ByNone}, failed
}

func (q Query) question(user auth.Principal) Question {
	return Question{Text: q.Text, Of: For{user.UserID, q.ChatID}}
}

// places are the questions to ask, one after the other as long as nothing is found.
func (q Query) places() []Query {
	var places []Query
	if !q.OwnShown {
		places = append(places, q)
	}
	if q.Elsewhere {
		places = append(places, Query{Text: q.Text, Now: q.Now, Limit: q.Limit, Except: q.ChatID, Sure: q.Sure})
	}
	return places
}

func (r *Recaller) recall(ctx context.Context, user auth.Principal, q Query, words []Word, question Question) (Found, error) {
	var found *ranked
	best, err := BothWays(ctx, r.Questions, question,
		func() (byWords choice, isSure bool, err error) {
			if found, err = r.rank(ctx, user, q, words); err != nil {
				return choice{}, false, err
			}
			byWords = found.byWords(q)
			isSure = len(byWords.turns) > 0
			if q.Sure != nil {
				q.Sure(isSure)
			}
			return byWords, isSure, nil
		},
		func(_ choice, vector Vector, scale Scale) (choice, error) {
			return r.byMeaning(ctx, user, q, found, vector, scale)
		})
	if err != nil {
		return Found{}, err
	}
	return r.read(ctx, user, q, found, best)
}

// choice is an answer to a question: turns, best first, and the topic that the conversation has come back
// to, uuid.Nil for none.
type choice struct {
	how   How
	turns []*candidate
	topic uuid.UUID
}

func (f *ranked) byWords(q Query) choice {
	passed := f.passed(q)
	return choice{ByWords, passed, topicByWords(f.matches.Topics, passed)}
}

// read reads the chosen turns: of the topic alone, if there are any.
func (r *Recaller) read(ctx context.Context, user auth.Principal, q Query, found *ranked, c choice) (Found, error) {
	best := within(c.topic, c.turns)
	if q.Short && (len(best) == 0 || best[0].TopicID != c.topic) {
		c.topic = uuid.Nil
	}
	if len(best) == 0 && c.topic == uuid.Nil {
		return Found{How: ByNone}, nil
	}
	best = found.withOthers(q, best, c.topic)
	turns, topic, err := r.turns(ctx, user, found, best[:min(len(best), q.Limit)], c.topic)
	for n := range turns {
		turns[n].Elsewhere = q.Except != uuid.Nil
	}
	if len(c.turns) == 0 {
		c.how = ByNone
	}
	return Found{How: c.how, Turns: turns, Topic: topic}, err
}

// withOthers adds to turns that passed the gate, by rank, others of the chat that rank high: once one has passed, the question
// is about the past. If those that passed are of the topic, so are the others. Of other chats there are none.
func (f *ranked) withOthers(q Query, passed []*candidate, topic uuid.UUID) []*candidate {
	if len(passed) == 0 || q.Except != uuid.Nil {
		return passed
	}
	inTopic := topic != uuid.Nil && passed[0].TopicID == topic
	return slices.DeleteFunc(slices.Clone(f.best), func(c *candidate) bool {
		isOther := !c.isShown(q.Shown) && c.score >= besideScore && (!inTopic || c.TopicID == topic)
		return !isOther && !slices.Contains(passed, c)
	})
}

// Search finds what matches a question best, whether or not a prompt would show it: turns with at most q.Limit
// messages in all, best first. It goes by words alone if there is no vector.
func (r *Recaller) Search(ctx context.Context, user auth.Principal, q Query) (Found, error) {
	if err := r.Store.IndexRest(ctx, user, q); err != nil {
		return Found{}, err
	}
	found, err := r.rank(ctx, user, q, Words(q.Text))
	if err != nil {
		return Found{}, err
	}
	how := ByWords
	if vector, ok, err := r.Questions.Vector(ctx, q.question(user), true); err == nil && ok {
		if err := r.addMeaning(ctx, user, q, found, vector); err != nil {
			return Found{}, err
		}
		if len(found.matches.Found) == 0 {
			how = ByMeaning
		}
	}
	if len(found.best) == 0 {
		return Found{How: ByNone}, nil
	}
	turns, _, err := r.turns(ctx, user, found, found.best[:min(len(found.best), readRatio*q.Limit)], uuid.Nil)
	return Found{How: how, Turns: firstMessages(turns, q.Limit)}, err
}

type ranked struct {
	*ranking
	times []period
	best  []*candidate
}

func (r *Recaller) rank(ctx context.Context, user auth.Principal, q Query, words []Word) (*ranked, error) {
	forms := make([][]string, len(words))
	for n, w := range words {
		forms[n] = w.Forms
	}
	matches := Matches{}
	if len(words) > 0 {
		var err error
		if matches, err = r.Store.Matches(ctx, user, q, forms); err != nil {
			return nil, err
		}
	}
	found := &ranked{ranking: newRanking(words, matches), times: periodsIn(q.Text, q.Now)}
	found.best = found.ranked(0, found.times)
	return found, nil
}

// passed returns the candidates that pass the gate by their words.
func (f *ranked) passed(q Query) []*candidate {
	return slices.DeleteFunc(slices.Clone(f.best), func(c *candidate) bool { return c.isShown(q.Shown) || !f.passesByWords(c) })
}

// isShown reports whether the prompt shows a message of the turn.
func (c *candidate) isShown(seqs []int64) bool {
	return slices.ContainsFunc(seqs, func(seq int64) bool { return c.Seq <= seq && seq <= c.LastSeq })
}

// byMeaning chooses by the words and by the meaning. Where no topic can be compared with the question, words choose it.
func (r *Recaller) byMeaning(ctx context.Context, user auth.Principal, q Query, found *ranked, vector Vector, scale Scale) (choice, error) {
	if err := r.addMeaning(ctx, user, q, found, vector); err != nil {
		return choice{}, err
	}
	how, reads := ByMeaning, scale.Reads(q.Text)
	passed := slices.DeleteFunc(slices.Clone(found.best), func(c *candidate) bool {
		byWords := found.passesByWords(c)
		if byWords && !c.isShown(q.Shown) {
			how = ByWords
		}
		return c.isShown(q.Shown) || !byWords && !(reads && c.hasVector && Similarity(c.cosine, scale) >= nearEnough)
	})
	if reads {
		if topic, compared := r.Topics.topicByMeaning(found.matches.Topics, scale); compared {
			return choice{how, passed, topic}, nil
		}
	}
	return choice{how, passed, topicByWords(found.matches.Topics, passed)}, nil
}

func (r *Recaller) addMeaning(ctx context.Context, user auth.Principal, q Query, found *ranked, vector Vector) error {
	near, err := r.Store.Nearness(ctx, user, q, vector, found.withBeside())
	if err != nil {
		return err
	}
	found.addMeaning(near.Turns)
	found.matches.Topics = near.Topics
	found.best = found.ranked(meaningWeight(vector.Model), found.times)
	return nil
}

// meaningWeight is how much the meaning of a turn counts beside its words, by what makes the vectors.
func meaningWeight(model string) float64 {
	if strings.Contains(model, "universal-sentence-encoder") {
		return .8
	}
	return 1
}

// TopicRules say when a question is about a topic of its chat.
type TopicRules struct {
	// Similarity is from which similarity on, Continuity included, a question is about a topic.
	Similarity float64
	// Continuity is added for the topic that the chat talked of last.
	Continuity float64
}

// TopicPlace is a topic of a chat as a question needs it, without its words.
type TopicPlace struct {
	ID uuid.UUID
	// Latest is whether the chat talked of it last.
	Latest bool
	// Left is whether turns of it left the prompt and the chat has talked of something else since: what is said about it
	// now comes back to it.
	Left bool
	// Cosine is that of its centroid and the question's vector, if HasCosine.
	Cosine    float64
	HasCosine bool
}

// Topic is the topic that a conversation has come back to.
type Topic struct {
	ID    uuid.UUID
	Title string
	// Summary is "" where there is none.
	Summary string
	// Since is when its first turn was said, and Turns is how many it has.
	Since time.Time
	Turns int
}

// topicTurns is how many of the turns that were found choose the topic.
const topicTurns = 6

// topicByWords returns the topic of most of the best turns that were found, weighed by how well it fits; uuid.Nil for none, or for one that
// the conversation has not left.
func topicByWords(topics []TopicPlace, found []*candidate) uuid.UUID {
	weights, all := map[uuid.UUID]float64{}, 0.
	for _, c := range found[:min(len(found), topicTurns)] {
		weight := share(c.score)
		weights[c.TopicID] += weight
		all += weight
	}
	for _, t := range topics {
		if t.Left && weights[t.ID] > all/2 {
			return t.ID
		}
	}
	return uuid.Nil
}

// topicByMeaning returns the topic that the question's vector is nearest to; uuid.Nil for none that is near enough, or for
// one that the conversation has not left. known is false where no topic can be compared.
func (rules TopicRules) topicByMeaning(topics []TopicPlace, scale Scale) (id uuid.UUID, known bool) {
	best, nearest := 0., TopicPlace{}
	for _, t := range topics {
		if !t.HasCosine {
			continue
		}
		known = true
		near := Similarity(t.Cosine, scale)
		if t.Latest {
			near += rules.Continuity
		}
		if near > best {
			best, nearest = near, t
		}
	}
	if best < rules.Similarity || !nearest.Left {
		return uuid.Nil, known
	}
	return nearest.ID, known
}

// within returns the turns of a topic, or all of them if it has none.
func within(topic uuid.UUID, turns []*candidate) []*candidate {
	own := slices.DeleteFunc(slices.Clone(turns), func(c *candidate) bool { return c.TopicID != topic })
	if topic == uuid.Nil || len(own) == 0 {
		return turns
	}
	return own
}
