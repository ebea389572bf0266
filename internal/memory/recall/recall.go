package recall

import (
	"context"
	"time"

	"github.com/google/uuid"
)

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
	// Topic says whether Recall looks for the topic that the conversation has come back to as well.
	Topic bool
	// Short says that the question has too few words to come back to a topic of which no turn is found.
	Short bool
	// Now is what "last week" in the question refers to.
	Now time.Time
	// Limit is the most turns that Recall returns, and the most messages that Search does.
	Limit int

	except uuid.UUID // the chat that is asked in, where all others are looked into
}

// elsewhere is the question of a chat, asked of the user's other chats.
func (q Query) elsewhere() Query {
	return Query{Text: q.Text, Now: q.Now, Limit: q.Limit, except: q.ChatID}
}

// How says what a question's turns were found by.
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
	// Why names, for people, what the turn was found by, such as "dentist, molar; 3 March 2026".
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
