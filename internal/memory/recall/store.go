package recall

import (
	"context"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/google/uuid"
)

// Store reads the index of turns, with the rights of the user who asks. Each method is one round trip.
type Store interface {
	// IndexRest indexes turns that are not yet, such as those of a moment ago.
	IndexRest(ctx context.Context, user auth.Principal, in Query) error
	// Matches returns the turns that hold words. Each word is given by its forms, of which any counts. It is an error if
	// the chat does not exist or has expired.
	Matches(ctx context.Context, user auth.Principal, in Query, words [][]string) (Matches, error)
	// Nearness returns turns with a vector of the model, chat by chat and in order of seq, with their cosines: at least 200 of the
	// nearest with the turns beside them, and those of known.
	Nearness(ctx context.Context, user auth.Principal, in Query, vector Vector, known []TurnID) (Nearby, error)
	// Texts returns the messages of turns that have text, in order of seq, and a topic. Turns that are gone have none; the
	// topic is nil if there is none with the id.
	Texts(ctx context.Context, user auth.Principal, turns []Span, topic uuid.UUID) (map[TurnID][]Message, *Topic, error)
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
	// Word is the position of the word in the question.
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

// Nearby are turns near a vector, and topics with the nearness of their centroids.
type Nearby struct {
	Turns  []Near
	Topics []TopicPlace
}

// Vector is a question's vector of unit length, and the model that has made it.
type Vector struct {
	Model  string
	Values []float32
}

// Near is a turn with a vector. Of its place, Size is not known.
type Near struct {
	Place
	// Cosine is that of the turn's vector and the question's.
	Cosine float64
}

// Query is a question, and where to look for turns about it.
type Query struct {
	// ChatID is the chat to look in; uuid.Nil for all chats of the user.
	ChatID uuid.UUID
	// TopicID leaves out turns of other topics; uuid.Nil for all.
	TopicID uuid.UUID
	Text    string
	// After leaves out turns that begin at this seq or before it: those before the chat's last clear.
	After int64
	// Before leaves out turns that do not begin before this seq, the first that the prompt shows; 0 for no bound.
	Before int64
	// Shown are the seqs of messages that the prompt shows besides. Their turns are left out.
	Shown []int64
	// Elsewhere says whether Recall looks into the user's other chats where no turn of the chat is about the question, and OwnShown
	// that the prompt shows all turns of the chat, so that it looks nowhere else.
	Elsewhere, OwnShown bool
	// Topics says whether Recall looks for the topic that the conversation has come back to as well: among those that begin after After.
	Topics bool
	// Short says that the question has too few words to come back to a topic of which no turn is found.
	Short bool
	// Now is what "last week" in the question refers to.
	Now time.Time
	// Limit is the most turns that Recall returns, and the most messages that Search does.
	Limit int
	// Sure is told whether words have found what the question is about, once that is known of one place; may be nil.
	Sure func(bool)
	// Except is the chat that a question of the user's other chats comes from, which are indexed first; ChatID is uuid.Nil then.
	Except uuid.UUID
}

// How says how a question's turns were found.
type How string

// The ways to find turns. Package chat adds its own for a retrieval that was too late or failed.
const (
	ByWords   How = "words"
	ByMeaning How = "meaning"
	// ByNone is for a question of which no turn is worth showing.
	ByNone How = "none"
)

// Found are the turns of a question, best first.
type Found struct {
	How   How
	Turns []Turn
	// Topic is the one that the conversation has come back to with the question; nil for none.
	Topic *Topic
}

// Turn is a user message and what follows it, up to the next one.
type Turn struct {
	ChatID uuid.UUID
	// Seq is the seq of its first message, and LastSeq that of its last.
	Seq, LastSeq int64
	SaidAt       time.Time
	// Elsewhere says that it is of another chat than the one that was asked in.
	Elsewhere bool
	// Score is comparable only with those of the same question.
	Score float64
	// Why names, for people, the words and the time of the turn that the question has, such as "dentist, molar; 3 March 2026".
	Why      string
	Messages []Message
}

// Message is a message of a turn that was found.
type Message struct {
	ID        uuid.UUID
	Seq       int64
	Role      string
	Content   string
	CreatedAt time.Time
	// ChatTitle is that of its chat.
	ChatTitle string
	// Score is comparable with those of all messages that the same question has found.
	Score float64
	// Text is the part of Content that the question is about: one sentence or several, in Content's words.
	Text string
}

// For says whose texts are embedded, so that the call stands in their bill; the zero value is for the server's own.
type For struct{ UserID, ChatID uuid.UUID }

// Embedder turns texts into vectors of unit length, all of one model.
type Embedder interface {
	// Embed returns a vector for each text, in their order.
	Embed(ctx context.Context, of For, texts []string) ([][]float32, error)
	// Model names the model. Vectors of different models cannot be compared.
	Model() string
}
