package longterm

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/graph"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/google/uuid"
)

// NearEnough is the similarity from which on a memory is about a text, whatever its words.
const NearEnough = .7

// perWay is how many memories each way of finding them brings: by words, by meaning, by the entities that a message names.
const perWay = 20

// Reader reads a user's memories, with the rights of the user who asks.
type Reader interface {
	// Candidates returns the memories that may be about a message, in one round trip. Those of excluded subjects are none,
	// nor are any where the user has switched memories off.
	Candidates(ctx context.Context, user auth.Principal, ask Ask) ([]Found, error)
}

// Ask is what candidates are found by.
type Ask struct {
	// Words are those of the message.
	Words []recall.Word
	// Names are what the message may call an entity.
	Names []string
	// Relationships of the user are what the message asks for, and Types are those of their other entities; empty for any.
	Relationships []string
	Types         []graph.Type
	// Vector is that of the message; without Values nothing is found by its meaning.
	Vector recall.Vector
	// PerWay is the most memories that each way of finding them brings.
	PerWay int
}

// Found is an active memory that a message may be about.
type Found struct {
	memory.Remembered

	// Words is how well the memory's words match those of the message, the rarer the better; 0 for not at all.
	Words float64
	// Rarest is how many of the user's memories hold the rarest of those words that is no function word, 0 without such a
	// word; All is how many memories there are.
	Rarest, All int
	// Cosine is that of the two vectors, if HasCosine.
	Cosine    float64
	HasCosine bool
	// Near reports that the cosine says that the memory is about the message; the search sets it.
	Near bool `db:"-"`
	// Named is how many entities of the memory the message names, and relationships that it asks for.
	Named int
}

// RetrieverConfig says what a Retriever works with.
type RetrieverConfig struct {
	Store Reader
	// Questions makes the message's vector; nil to go by words alone.
	Questions *recall.Questions
	// NearEnough is the similarity from which on a memory is about a message, whatever its words. Defaults to NearEnough.
	NearEnough float64
	// Tokens is the most that a prompt shows of memories. Defaults to 400, about thirty of them.
	Tokens int
}

// Retriever finds the memories that a prompt should show. It may be used by many goroutines at once.
type Retriever struct{ RetrieverConfig }

// NewRetriever returns a Retriever.
func NewRetriever(c RetrieverConfig) *Retriever {
	c.NearEnough, c.Tokens = cmp.Or(c.NearEnough, NearEnough), cmp.Or(c.Tokens, 400)
	return &Retriever{c}
}

// Query is a message, and what the prompt of its reply shows besides.
type Query struct {
	Text   string
	ChatID uuid.UUID
	// Shown are the messages of the chat that the prompt shows word for word.
	Shown []memory.Message
	// Known is what is read of the user's memories in any case.
	Known memory.Memories
	Now   time.Time
}

// Retrieve returns the memories that a prompt should show, the most important first. As long as all of them fit, those are
// all: nothing is searched. Otherwise they are those that are shown whatever the message is about, see standing, and then
// those that it may be about, the best first.
//
// The message's vector is made meanwhile, and waited for only if its words and names find nothing rare. If the search
// fails, what needs none is returned with the error.
func (r *Retriever) Retrieve(ctx context.Context, user auth.Principal, q Query) ([]memory.Remembered, error) {
	if q.Known.Active == len(q.Known.First) && fits(q.Known.First, r.Tokens) {
		return unsaid(q.Known.First, q), nil
	}
	found, err := r.search(ctx, user, q)
	return choose(unsaid(q.Known.First, q), found, q, r.Tokens), err
}

// search returns the memories that a message may be about.
func (r *Retriever) search(ctx context.Context, user auth.Principal, q Query) ([]Found, error) {
	question := graph.ParseQuestion(q.Text)
	ask := Ask{
		Words: recall.Words(q.Text), Names: recall.Names(q.Text), PerWay: perWay,
		Relationships: slices.Concat(question.Relationships, question.Verbs), Types: question.Types,
	}
	if !slices.ContainsFunc(ask.Words, func(w recall.Word) bool { return !w.Function }) {
		return nil, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	asked := r.Questions.Begin(ctx, recall.For{UserID: user.UserID, ChatID: q.ChatID}, q.Text)
	return recall.BothWays(ctx, asked,
		func() ([]Found, bool, error) {
			found, err := r.Store.Candidates(ctx, user, ask)
			return found, slices.ContainsFunc(found, Found.isRare), err
		},
		func(byWords []Found, vector recall.Vector, scale recall.Scale) ([]Found, error) {
			if !scale.Reads(q.Text) {
				return byWords, nil
			}
			ask.Vector = vector
			found, err := r.Store.Candidates(ctx, user, ask)
			for n := range found {
				found[n].Near = found[n].HasCosine && recall.Similarity(found[n].Cosine, scale) >= r.NearEnough
			}
			return found, err
		})
}

// A word is rare that at most this share of the memories hold, or so few of them.
const (
	rareShare = .1
	rareFew   = 3
)

// isRare reports whether a memory holds a rare word of the message, an entity that it names, or a relationship that it asks for.
func (c Found) isRare() bool {
	return c.Named > 0 || c.Rarest > 0 && float64(c.Rarest) <= max(rareShare*float64(c.All), rareFew)
}

// choose returns what is worth showing: the standing ones of the first memories, then the candidates that the message may be
// about, the best first.
func choose(first []memory.Remembered, found []Found, q Query, budget int) []memory.Remembered {
	chosen := standing(first, budget)
	scores := scored(found, q.Now)
	order := make([]int, len(found))
	for n := range order {
		order[n] = n
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(scores[b], scores[a]), slices.Compare(found[a].ID[:], found[b].ID[:]))
	})
	for _, n := range order {
		c := found[n]
		isAbout := c.Rarest > 0 || c.Named > 0 || c.Near
		isChosen := slices.ContainsFunc(chosen, func(m memory.Remembered) bool { return m.ID == c.ID })
		if isAbout && !isChosen && !isSaid(&c.Remembered, q) {
			chosen = append(chosen, c.Remembered)
		}
	}
	return chosen
}

// standing returns those of the first memories that are shown whatever a message is about: pinned ones, and durable ones as
// long as both take no more than half of the budget.
func standing(first []memory.Remembered, budget int) []memory.Remembered {
	var shown []memory.Remembered
	room := budget / 2
	for i := range first {
		m := &first[i]
		size := tokens(m)
		if m.Pinned || m.Durable && size <= room {
			shown, room = append(shown, *m), room-size
		}
	}
	return shown
}

// fits reports whether a section of so many tokens shows all memories.
func fits(all []memory.Remembered, budget int) bool {
	for i := range all {
		budget -= tokens(&all[i])
	}
	return budget >= 0
}
