package chat

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/streaming"
	"github.com/google/uuid"
)

// Store is where turns are kept. What it does for a user it does with that user's rights; what it does
// for all users at once (recording, leases, cancellations) concerns replies that this server generates or
// that nobody does.
type Store interface {
	// StartTurn stores the user's message and an empty assistant message with status streaming, and
	// reads what the prompt needs, in one transaction and one round trip. What stood in the way, if
	// anything did, is in the result; then nothing was stored.
	StartTurn(ctx context.Context, user auth.Principal, turn NewTurn) (StartedTurn, error)
	// SaveReply ends an assistant message and, when the buffer is due, enqueues its fold, in one
	// transaction. It reports whether the message was still there to be saved: not deleted, not
	// superseded, not ended otherwise.
	SaveReply(ctx context.Context, user auth.Principal, reply FinishedReply) (saved bool, err error)
	// FindReply reads an assistant message of a chat, its latest for uuid.Nil. Of one that is running it
	// reads what was recorded from a place on, in characters. ok is false when there is none; a chat that
	// the user does not have is fault.ChatNotFound, one that has expired fault.ChatExpired.
	FindReply(ctx context.Context, user auth.Principal, chatID, messageID uuid.UUID, from int) (reply StoredReply, ok bool, err error)
	// ReadChat reads what the next prompt of a chat would be built from, and changes nothing. A chat that the
	// user does not have is fault.ChatNotFound, one that has expired fault.ChatExpired.
	ReadChat(ctx context.Context, user auth.Principal, chatID uuid.UUID) (StoredChat, error)
	// RequestCancel asks whichever server generates the message to stop.
	RequestCancel(ctx context.Context, user auth.Principal, messageID uuid.UUID) error

	// RecordDeltas stores what running replies said, forgets the deltas of replies that ended, and tells
	// all servers which replies these are, in one transaction. Doing it twice does no harm.
	RecordDeltas(ctx context.Context, said []Delta, ended []uuid.UUID) error
	// CancelRequested gives those of the replies that somebody asked to stop.
	CancelRequested(ctx context.Context, messageIDs []uuid.UUID) ([]uuid.UUID, error)
	// RenewLeases says that these generations are alive until now + lease.
	RenewLeases(ctx context.Context, messageIDs []uuid.UUID, lease time.Duration) error
	// InterruptAbandoned ends replies whose server was not heard of for longer than its lease, with what
	// was recorded of them, and tells how many.
	InterruptAbandoned(ctx context.Context) (int, error)
}

// Delta is a piece of a running reply.
type Delta struct {
	MessageID uuid.UUID
	UserID    uuid.UUID
	StartChar int // characters of the reply before it
	Text      string
}

// NewTurn is what StartTurn stores. The caller makes the ids.
type NewTurn struct {
	ChatID  uuid.UUID
	NewChat bool
	// Title, TTLHours and MaxTurns are a new chat's; 0 for none.
	Title    string
	TTLHours int
	MaxTurns int
	// Revive lets the turn begin although the chat has expired.
	Revive bool

	UserMessageID   uuid.UUID
	Content         string
	ContentTokens   int
	Metadata        map[string]any
	ClientMessageID uuid.UUID // uuid.Nil for none
	ToolName        string    // the tool through which the message came; "" for none
	Files           []NewFile

	// InPlaceOf is the reply that failed, when the user's message is stored already and is tried again;
	// uuid.Nil for a new message.
	InPlaceOf uuid.UUID
	MessageID uuid.UUID // of the assistant's message
	Variant   string
	Lease     time.Duration
}

// NewFile is a file that comes with a turn.
type NewFile struct {
	memory.File

	SHA256 [sha256.Size]byte // of the content
	Tokens int               // of the content
}

// StartedTurn is what StartTurn found. When none of Started, Expired, Earlier and Running is set, the chat does
// not exist for this user.
type StartedTurn struct {
	// Started reports that the turn was stored, whatever else was found; Chat belongs to it.
	Started bool
	memory.Chat

	// Expired is since when the chat is expired; the zero time for one that is not.
	Expired time.Time
	// Earlier is the turn that the same ClientMessageID started before.
	Earlier *EarlierTurn
	// Running is the reply that the chat is busy with; uuid.Nil for none.
	Running uuid.UUID
}

// StoredChat is a chat with what its next prompt is built from.
type StoredChat struct {
	memory.Chat

	StartedAt     time.Time
	LastMessageAt time.Time // the zero time before the first message
	Messages      int64
	ToolName      string
	ToolsUsed     []string
}

// EarlierTurn is a turn found by its client message id.
type EarlierTurn struct {
	ChatID        uuid.UUID
	UserMessageID uuid.UUID
	Content       string
	// MessageID and Status are the latest reply's; uuid.Nil for none.
	MessageID uuid.UUID
	Status    memory.Status
}

// FinishedReply is what SaveReply stores.
type FinishedReply struct {
	ChatID    uuid.UUID
	MessageID uuid.UUID
	Status    memory.Status
	Content   string
	Tokens    int
	Metadata  ReplyMetadata
}

// ReplyMetadata is what an assistant message's metadata holds of ours. The app may add keys of its own.
type ReplyMetadata struct {
	ModelVariant string           `json:"model_variant"`
	Model        string           `json:"model,omitempty"`
	ResponseID   string           `json:"response_id,omitempty"`
	FinishReason string           `json:"finish_reason,omitempty"`
	Usage        *streaming.Usage `json:"usage,omitempty"`
	// Memory is the receipt.
	Memory *prompt.Receipt `json:"memory,omitempty"`
	// Failure says why a reply is failed or interrupted.
	Failure *Failure `json:"failure,omitempty"`
}

// Failure is the stored form of what went wrong.
type Failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	// RetryAfter is what the model asked for, if anything; good for the moment only, so not stored.
	RetryAfter time.Duration `json:"-"`
}

// StoredReply is an assistant message as it is stored.
type StoredReply struct {
	ChatID        uuid.UUID
	UserMessageID uuid.UUID
	MessageID     uuid.UUID
	Status        memory.Status
	// Content of a running reply is what was recorded from the place on that FindReply was asked for.
	Content  string
	Metadata ReplyMetadata
}
