package memories

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/google/uuid"
)

// perWay is how many memories each way of finding them brings: by words, by meaning, by the entities that a message names.
const perWay = 10

// Store reads a user's memories, with the rights of the user who asks.
type Store interface {
	// Candidates returns the memories that may be about a message, in one round trip. Those of excluded subjects are none,
	// nor are any where the user has switched memories off.
	Candidates(ctx context.Context, user auth.Principal, ask Ask) ([]Candidate, error)
}

// Ask is what candidates are found by.
type Ask struct {
	// Words are those of the message.
	Words []recall.Word
	// Names are what the message may call an entity.
	Names []string
	// Vector is that of the message; without Values nothing is found by its meaning.
	Vector recall.Vector
	// PerWay is the most memories that each way of finding them brings. Pinned ones are candidates in any case.
	PerWay int
}

// Candidate is an active memory that a message may be about.
type Candidate struct {
	Memory

	// Words is how well the memory's words match those of the message, the rarer the better; 0 for not at all.
	Words float64
	// Rarest is how many of the user's memories hold the rarest of those words that says something by itself, 0 without
	// such a word; All is how many memories there are.
	Rarest, All int
	// Cosine is that of the two vectors, if HasCosine.
	Cosine    float64
	HasCosine bool
	// Named is how many entities of the memory the message names.
	Named int
}

// Config says what a Retriever works with.
type Config struct {
	Store Store
	// Embedder makes the message's vector; nil to go by words alone.
	Embedder recall.Embedder
	// Scales says what a cosine of the embedder's model means. Required with an Embedder.
	Scales *recall.Scales
	// NearEnough is the similarity from which on a memory is about a message, whatever its words. Defaults to 0.7.
	NearEnough float64
	// Top is the most memories that are returned, apart from pinned ones. Defaults to 5.
	Top int
}

// Retriever finds the memories that a prompt should show. It may be used by many goroutines at once.
type Retriever struct{ Config }

// New returns a Retriever.
func New(c Config) *Retriever {
	c.NearEnough, c.Top = cmp.Or(c.NearEnough, .7), cmp.Or(c.Top, 5)
	return &Retriever{c}
}

// Query is a message, and what the prompt of its reply shows besides.
type Query struct {
	Text   string
	ChatID uuid.UUID
	// Shown are the messages of the chat that the prompt shows word for word.
	Shown []memory.Message
	// Pinned reports whether the user has pinned memories: those are shown whatever the message is about.
	Pinned bool
	Now    time.Time
}

// Needed reports whether a message may have memories: whether it says something, or there are pinned ones.
func Needed(text string, pinned bool) bool {
	return pinned || slices.ContainsFunc(recall.Words(text), func(w recall.Word) bool { return !w.Weak })
}

// Retrieve returns the memories that a prompt should show, pinned ones first, then the best.
//
// The message's vector is made meanwhile, and waited for only if its words and names find nothing. Its failure is an error
// only then, and only if no memory is pinned.
func (r *Retriever) Retrieve(ctx context.Context, user auth.Principal, q Query) ([]Memory, error) {
	if !Needed(q.Text, q.Pinned) {
		return nil, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var pending recall.Pending
	if Needed(q.Text, false) {
		pending = recall.Begin(ctx, r.Embedder, q.Text)
	}
	ask := Ask{Words: recall.Words(q.Text), Names: recall.Names(q.Text), PerWay: perWay}
	near := func(Candidate) bool { return false }
	found, err := r.Store.Candidates(ctx, user, ask)
	if err != nil {
		return nil, err
	}
	vector, ok, err := pending.Vector(ctx, !slices.ContainsFunc(found, Candidate.isNamed))
	if ok {
		found, near, err = r.byMeaning(ctx, user, q.Text, ask, vector, found)
	}
	shown := choose(found, q, near, r.Top)
	if len(shown) > 0 {
		err = nil
	}
	return shown, err
}

// byMeaning returns the candidates with those that are near to the vector, and which those are. Where that cannot be known
// the candidates are the same as before.
func (r *Retriever) byMeaning(
	ctx context.Context, user auth.Principal, text string, ask Ask, vector recall.Vector, before []Candidate,
) (found []Candidate, near func(Candidate) bool, err error) {
	none := func(Candidate) bool { return false }
	scale, known, err := r.Scales.Known(ctx)
	if err != nil || !known || !scale.Reads(text) {
		return before, none, err
	}
	ask.Vector = vector
	if found, err = r.Store.Candidates(ctx, user, ask); err != nil {
		return before, none, err
	}
	return found, func(c Candidate) bool {
		return c.HasCosine && recall.Similarity(c.Cosine, scale) >= r.NearEnough
	}, nil
}

// A word of a message lets a memory pass that at most this share of the memories hold, or so few of them.
const (
	telling    = .1
	tellingFew = 3
)

// isNamed reports whether a memory holds a word of the message that tells memories apart, or an entity that it names.
func (c Candidate) isNamed() bool {
	return c.Named > 0 || c.Rarest > 0 && float64(c.Rarest) <= max(telling*float64(c.All), tellingFew)
}

// choose returns what is worth showing of the candidates: those that are pinned, and the best top of the others.
func choose(found []Candidate, q Query, near func(Candidate) bool, top int) []Memory {
	scores := scored(found, q.Now)
	order := make([]int, len(found))
	for n := range order {
		order[n] = n
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if found[a].Pinned != found[b].Pinned {
			if found[a].Pinned {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(scores[b], scores[a]), slices.Compare(found[a].ID[:], found[b].ID[:]))
	})
	var chosen []Memory
	for _, n := range order {
		c := found[n]
		if !c.Pinned && (top == 0 || !c.isNamed() && !near(c)) || isSaid(&c.Memory, q) {
			continue
		}
		if !c.Pinned {
			top--
		}
		chosen = append(chosen, c.Memory)
	}
	return chosen
}
