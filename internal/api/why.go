package api

import (
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/memory/prompt"
)

// Why is the content of a reply's prompt, without the parts that were deleted since.
type Why struct {
	_             struct{}        `description:"What the prompt of a reply held of its chat, as far as that still exists."`
	ChatID        uuid.UUID       `json:"chat_id"`
	MessageID     uuid.UUID       `json:"message_id" description:"The reply's."`
	Seq           int64           `json:"seq" description:"The reply's."`
	Status        string          `json:"status" enum:"complete,streaming,awaiting,failed,cancelled,interrupted"`
	UserMessageID *uuid.UUID      `json:"user_message_id" description:"The message that it answers; null for none."`
	Receipt       *prompt.Receipt `json:"receipt" description:"null as long as the reply runs, and for a message that was imported or stored by an app."`
	Brief         *WhyBrief       `json:"brief" description:"The brief that was shown; null for none."`
	Recalled      []WhyTurn       `json:"recalled" nullable:"false" doc:"recalled"`
	Elsewhere     []WhyElsewhere  `json:"recalled_elsewhere" nullable:"false" description:"The turns of the user's other chats that were quoted."`
	Topic         *WhyTopic       `json:"topic" description:"The topic that was named because the conversation had come back to it, as it is now; null for none."`
	Memories      []WhyMemory     `json:"memories" nullable:"false" doc:"memories"`
	Recent        []WhyMessage    `json:"recent" nullable:"false" description:"The messages of the turns that were shown word for word, without their texts."`
}

// WhyBrief is a version of a brief.
type WhyBrief struct {
	Version   int64     `json:"version"`
	Kind      string    `json:"kind" enum:"fold,rollback,clear" description:"What made this version."`
	CreatedAt time.Time `json:"created_at"`
	Text      *string   `json:"text" description:"null where it was removed, because it may have held words that were deleted."`
}

// WhyMemory is a memory that a prompt showed.
type WhyMemory struct {
	ID      uuid.UUID   `json:"id"`
	Content string      `json:"content" description:"As it is now. Its history says what it was before."`
	Status  string      `json:"status" enum:"active,inbox,superseded,archived"`
	Sources []WhySource `json:"sources" nullable:"false" description:"The messages in which it was said; none for what the user wrote or imported."`
}

// WhyTopic is a topic that a prompt named.
type WhyTopic struct {
	ID      uuid.UUID `json:"id"`
	Title   string    `json:"title"`
	Summary *string   `json:"summary" description:"null where it has none."`
	State   string    `json:"state" enum:"active,archived,merged"`
}

// WhySource is a message in which a memory was said.
type WhySource struct {
	MessageID uuid.UUID `json:"message_id"`
	ChatID    uuid.UUID `json:"chat_id"`
	Seq       int64     `json:"seq"`
	Quote     string    `json:"quote"`
	SaidAt    time.Time `json:"said_at"`
}

// WhyTurn is a turn that a prompt quoted. Content is the whole message; the prompt quoted a part of it.
type WhyTurn struct {
	Seq      int64        `json:"seq" description:"Of the turn's first message, as the receipt names it."`
	Messages []WhyMessage `json:"messages" nullable:"false" description:"Those that still exist."`
}

// WhyElsewhere is a turn of another chat that a prompt quoted.
type WhyElsewhere struct {
	ChatID uuid.UUID `json:"chat_id"`
	Title  string    `json:"title" description:"The chat's, as it is now."`
	WhyTurn
}

// WhyMessage is a message that a prompt showed.
type WhyMessage struct {
	MessageID uuid.UUID `json:"message_id"`
	Seq       int64     `json:"seq"`
	Role      string    `json:"role" enum:"user,assistant,system,tool"`
	CreatedAt time.Time `json:"created_at"`
	Content   *string   `json:"content,omitempty" nullable:"false" description:"The whole message, of which the prompt quoted a part."`
}

// BriefRevisionsQuery asks for versions of a chat's brief: the latest, or those before one.
type BriefRevisionsQuery struct {
	Limit         int    `query:"limit" minimum:"1" maximum:"200" default:"50" description:"How many versions."`
	BeforeVersion *int64 `query:"before_version" nullable:"false" minimum:"0" description:"The latest versions before this one."`
}

// BriefRevisionPage is some of the versions of a chat's brief.
type BriefRevisionPage struct {
	Revisions []BriefRevision `json:"revisions" nullable:"false" description:"The latest version first."`
	HasMore   bool            `json:"has_more" description:"Whether there are older ones."`
}

// BriefRevision is a version of a chat's brief, and how it was made.
type BriefRevision struct {
	_            struct{}  `description:"A version of a chat's brief, and how it was made."`
	Version      int64     `json:"version"`
	Kind         string    `json:"kind" enum:"fold,rollback,clear" doc:"kind"`
	SeqFrom      int64     `json:"seq_from" description:"The first of the messages that went into the brief with this version, or that were cleared."`
	SeqTo        int64     `json:"seq_to" description:"The last of them; seq_from - 1 for none."`
	Turns        int       `json:"turns" description:"How many turns those are; with a rollback, how many are to be folded again."`
	UndoneBy     *int64    `json:"undone_by" description:"The version of the rollback that took this one back; null while it stands."`
	Text         *string   `json:"global_summary" doc:"global_summary"`
	InputTokens  int       `json:"input_tokens" description:"What the model read for it, as it counted."`
	OutputTokens int       `json:"output_tokens"`
	Model        string    `json:"model" description:"Empty where none was asked."`
	PromptRef    string    `json:"prompt_ref" doc:"prompt_ref"`
	CreatedAt    time.Time `json:"created_at"`
}
