package recall

import (
	"context"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/google/uuid"
)

// Store reads the index of turns, with the rights of the user who asks. Each method is one round trip.
type Store interface {
	// IndexRest indexes what is not yet, such as turns that were said a moment ago.
	IndexRest(ctx context.Context, user auth.Principal, in Scope) error
	// Matches returns the turns that hold words. Each word is given by its forms, of which any counts. It is an error if
	// the chat does not exist or has expired.
	Matches(ctx context.Context, user auth.Principal, in Scope, words [][]string) (Matches, error)
	// Nearness returns the turns with a vector of the model, chat by chat and in order of seq, with their cosines.
	Nearness(ctx context.Context, user auth.Principal, in Scope, vector Vector) (Nearby, error)
	// Texts returns the messages of turns that have text, in order of seq, and a topic. Turns that are gone have none; the
	// topic is nil if there is none with the id.
	Texts(ctx context.Context, user auth.Principal, turns []Span, topic uuid.UUID) (map[TurnID][]Message, *Topic, error)
}

// Scope says in which turns to look; see Query.
type Scope struct {
	ChatID, TopicID uuid.UUID
	After, Before   int64
	// Except is a chat in which a question is asked of the user's others, which are indexed first. ChatID is uuid.Nil then.
	Except uuid.UUID
	// Topics says whether the topics of the chat are to come as well: those that begin after After.
	Topics bool
}

// TurnID identifies a turn by its chat and the seq of its first message.
type TurnID struct {
	ChatID uuid.UUID
	Seq    int64
}

// Span is a turn and the seq of its last message.
type Span struct {
	TurnID
	LastSeq int64
}

// Place is a turn as the index has it, without its words.
type Place struct {
	Span
	// AskedSeq is the seq of the user's message before the turn, which begins the turn before it; Seq without one.
	AskedSeq int64
	// Segment numbers the stretches of a chat without a gap of an hour.
	Segment int
	// Size is the number of different words.
	Size   int
	SaidAt time.Time
	// TopicID is uuid.Nil for a turn without a topic.
	TopicID uuid.UUID
}

// Match is a turn that holds a word.
type Match struct {
	Place
	// Word is the position of the word among those that were asked for.
	Word int
	// Own is how often the turn's own messages hold the word, and Asked how often the user's message before it does.
	// Both saturate: the second time counts as a quarter, and so on.
	Own, Asked float64
}

// Matches are the turns that hold words of a question.
type Matches struct {
	// Turns is how many there are to look in, about.
	Turns int
	// Of a word that too many turns hold there are none.
	Found []Match
	// Topics are those of the chat, without cosines.
	Topics []TopicPlace
}

// Nearby is what is near to a vector: turns, and topics by their centroids.
type Nearby struct {
	Turns  []Near
	Topics []TopicPlace
}

// Vector is a question's vector of unit length, and the model that has made it.
type Vector struct {
	Model  string
	Values []float32
}

// Near is a turn with a vector. Of its place, AskedSeq and Size are not known.
type Near struct {
	Place
	// Cosine is that of the turn's vector and the question's.
	Cosine float64
}
