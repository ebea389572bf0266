package chat

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/arcoscribe/throughline/streaming"
	"github.com/google/uuid"
)

// Store keeps the turns. Methods with a user have that user's rights; the others act for all users, on replies that this
// server generates or whose lease has expired.
type Store interface {
	// StartTurn stores the user's message and an empty assistant message with status streaming, and reads the data
	// of the prompt, in one transaction and one round trip. When the result is not Started, it has the reason, and
	// nothing was stored.
	StartTurn(ctx context.Context, user auth.Principal, turn NewTurn) (StartedTurn, error)
	// FindReplaced reads a message that is to be replaced, by its id or the client's, and the turn that was started with the other
	// client message id before; nil for none. The zero value is a message that the user does not have.
	FindReplaced(ctx context.Context, user auth.Principal, id, clientMessageID uuid.UUID) (Replaced, *EarlierTurn, error)
	// SaveReply ends an assistant message and, when the chat is due, enqueues its fold, in one transaction. saved is
	// false when the message was deleted, superseded or ended meanwhile, waits for its user, or another server goes on with it.
	SaveReply(ctx context.Context, user auth.Principal, reply FinishedReply) (saved bool, err error)
	// FindReply reads an assistant message of a chat, the latest for uuid.Nil. Of a running one it reads the recorded
	// text after the first from characters. ok is false when there is none. A chat that the user does not have is
	// fault.ChatNotFound, an expired one fault.ChatExpired.
	FindReply(ctx context.Context, user auth.Principal, chatID, messageID uuid.UUID, from int) (reply StoredReply, ok bool, err error)
	// ChangeReply locks a reply on the path and stores what change makes of it, in one transaction. change is called again when the
	// transaction is repeated. Its error is returned, and nothing is stored. A reply that the user does not have, or that is superseded,
	// is fault.MessageNotFound.
	ChangeReply(ctx context.Context, user auth.Principal, messageID uuid.UUID, change func(*LockedReply) (ReplyChange, error)) error
	// ReadTurn reads the data of the prompt of a reply that continues: that of StartTurn, and the message that it answers.
	ReadTurn(ctx context.Context, user auth.Principal, chatID, userMessageID, messageID uuid.UUID) (memory.Chat, prompt.Question, error)
	// SkipCalls ends the calls of a chat's reply that waits, and with them the reply. ok is false when none waits.
	SkipCalls(ctx context.Context, user auth.Principal, messageID uuid.UUID) (ok bool, err error)
	// ReadChat reads the data from which the next prompt of a chat would be built. A chat that the user does not have is
	// fault.ChatNotFound, an expired one fault.ChatExpired.
	ReadChat(ctx context.Context, user auth.Principal, chatID uuid.UUID) (StoredChat, error)
	// RequestCancel asks the server that generates the message to cancel it.
	RequestCancel(ctx context.Context, user auth.Principal, messageID uuid.UUID) error

	// RecordDeltas stores deltas of running replies, deletes the deltas of ended replies, and notifies all
	// servers of all of them, in one transaction. Doing it twice has the same effect.
	RecordDeltas(ctx context.Context, deltas []Delta, ended []uuid.UUID) error
	// CancelRequested returns the replies for which a cancellation was requested.
	CancelRequested(ctx context.Context, messageIDs []uuid.UUID) ([]uuid.UUID, error)
	// RenewLease sets the lease of a server, which is that of all its running replies, to now + lease. Others that it began and
	// could neither save nor end lose it once their own lease has ended.
	RenewLease(ctx context.Context, server uuid.UUID, running []uuid.UUID, lease time.Duration) error
	// Abandon ends the leases of these replies, which no server generates.
	Abandon(ctx context.Context, messageIDs []uuid.UUID) error
	// InterruptAbandoned ends replies whose lease has expired, with their recorded text, and those that have waited too long for their
	// user. It returns how many.
	InterruptAbandoned(ctx context.Context) (int, error)
}

// Delta is a part of a running reply.
type Delta struct {
	MessageID uuid.UUID
	UserID    uuid.UUID
	Server    uuid.UUID // that generates it: what it says after it has lost the reply to another one is not recorded
	StartChar int       // the number of characters before it
	Text      string
}

// NewTurn is what StartTurn stores. The caller makes the ids.
type NewTurn struct {
	ChatID   uuid.UUID
	NewChat  bool
	Settings // of a new chat
	// Revive starts the turn even if the chat has expired.
	Revive bool
	// SystemPromptRoom is how many bytes the chat's system prompt may have at most for the turn to start.
	SystemPromptRoom int

	UserMessageID   uuid.UUID
	Content         string
	ContentTokens   int
	Metadata        map[string]any
	ClientMessageID uuid.UUID // uuid.Nil for none
	Importance      *float64  // as the app sees it; nil for not rated
	ToolName        string    // the tool that sends the message; "" for none
	Files           []NewFile

	// Last is the message with which the path must end, uuid.Nil for an empty path; nil for any.
	Last *uuid.UUID
	// Replacement is what the turn replaces; nil for a turn that follows the others.
	Replacement *Replacement
	MessageID   uuid.UUID // of the assistant's message
	Variant     string
	Variants    []string // there are, to which the turn may be downgraded
	Server      uuid.UUID
	Lease       time.Duration // of the reply, until its server renews its own
}

// Replacement supersedes the end of a chat's path, which must end with the turn's Last.
type Replacement struct {
	MessageID uuid.UUID // which must be on the path
	FromSeq   int64     // of the first message that is superseded
	// Replaces is the message that the client named, which is stored, so that the same request is known again; uuid.Nil for a retry
	// of one that named none.
	Replaces uuid.UUID
	// Again says that the user's message is stored, stays, and gets another reply. Retry is one in place of a failed reply: it takes
	// over the client message id, and no quota is asked.
	Again, Retry bool
	// ReplyClientID is the client's id of the reply that comes; uuid.Nil for none.
	ReplyClientID uuid.UUID
	KeepsFiles    bool // those of the replaced message
}

// Replaced is a message that is to be replaced, and what its chat looks like.
type Replaced struct {
	ID, ChatID   uuid.UUID
	Role         memory.Role
	Seq          int64
	SupersededBy uuid.UUID // uuid.Nil for a message on the path
	ClearedSeq   int64     // up to which the chat was cleared
	// The message of the user in whose turn it is; uuid.Nil for none.
	UserMessageID     uuid.UUID
	UserSeq           int64
	Content, TimeZone string
	LastMessageID     uuid.UUID // of the path
}

// NewFile is a file of a new turn.
type NewFile struct {
	memory.File

	SHA256 [sha256.Size]byte // of the content
	Tokens int               // of the content
}

// StartedTurn is the result of StartTurn. When none of Started, Expired, Earlier, Running and Crowded is set, the user has
// no such chat, or its path is another one than the turn's.
type StartedTurn struct {
	// Started reports that the turn was stored, also when other fields are set. Chat is set only then.
	Started bool
	memory.Chat
	// Variant is the one that answers; "" for the turn's.
	Variant string

	// Crowded reports that the chat's system prompt, which is set then, has more bytes than SystemPromptRoom.
	Crowded bool

	// Expired is when the chat expired; the zero time if it has not.
	Expired time.Time
	// Earlier is the turn that the same ClientMessageID started before; nil for none.
	Earlier *EarlierTurn
	// Running is the chat's running reply; uuid.Nil for none.
	Running uuid.UUID
	// Replaced is what a Replacement found instead of what it was made for; of another turn with a Last it has the LastMessageID.
	Replaced *Replaced
}

// StoredChat is a chat, with what its next prompt is built from.
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
	UserSeq       int64
	Content       string
	Files         []memory.StoredFile // without their contents
	// Again says that the id is a reply's: the message of the user was stored before. Replaces is what the turn replaced.
	Again    bool
	Replaces uuid.UUID
	// MessageID, Status and Variant are those of the reply on the path, or else of the latest; uuid.Nil for none, and "" for an
	// unknown variant. Ends says that the path ends with it.
	MessageID uuid.UUID
	Status    memory.Status
	Variant   string
	Ends      bool
	// Asked is the variant that the message asked for.
	Asked string
	// Continues reports that the reply stopped after a recorded step and can go on in its row: nothing of it is folded.
	Continues bool
	Parts     []memory.Part // of the reply
}

// LockedReply is a reply whose row is locked.
type LockedReply struct {
	StoredReply // Content is all there is: committed, and recorded since

	Ends  bool   // the path ends with it
	State *State // nil for a reply without steps
	// Covered reports that a fold covers the row: it can only be generated anew.
	Covered bool
	// Now is Postgres' clock. Until is when what waits expires; zero for a reply that does not wait.
	Now, Until time.Time
}

// State is what no reader sees of a reply with tools: what it takes to go on. It is stored until the reply is complete or cancelled, and
// otherwise for a day.
type State struct {
	Tools        []Function       `json:"tools,omitempty"`
	Sources      []prompt.Source  `json:"sources,omitempty"`
	Instructions string           `json:"instructions,omitempty"` // of the tool that sent the message
	Variant      string           `json:"variant"`                // that answers
	Steps        [][]Item         `json:"steps,omitempty"`
	Claims       map[string]Claim `json:"claims,omitempty"` // by call
}

// Claim keeps a call for a device.
type Claim struct {
	Device uuid.UUID `json:"device"`
	Until  time.Time `json:"until"`
}

// ReplyChange is what becomes of a locked reply. The zero value changes nothing.
type ReplyChange struct {
	// Status, if it is set, is StatusStreaming for one that Server generates from now on or goes on to, with Lease, or StatusAwaiting for
	// one that waits until WaitUntil.
	Status    memory.Status
	Server    uuid.UUID
	Lease     time.Duration
	WaitUntil time.Time

	// Step says that Content, Tokens and Metadata are the reply's.
	Step     bool
	Content  string
	Tokens   int
	Metadata ReplyMetadata
	Parts    []memory.Part // that are added
	State    *State        // replaces the stored one; nil leaves it
	Spent    *work.Spent   // is charged
}

// FinishedReply is what SaveReply stores.
type FinishedReply struct {
	// Server is that which generated it; uuid.Nil for any.
	Server uuid.UUID
	// Spent is what the call has cost; nil where none was made, or the provider refused it.
	Spent     *work.Spent
	ChatID    uuid.UUID
	MessageID uuid.UUID
	Status    memory.Status
	Content   string
	Tokens    int
	Metadata  ReplyMetadata
	Parts     []memory.Part // all; nil for those that are stored
}

// ReplyMetadata is our part of an assistant message's metadata. The app may add keys of its own.
type ReplyMetadata struct {
	ModelVariant string           `json:"model_variant"`
	Model        string           `json:"model,omitempty"`
	ResponseID   string           `json:"response_id,omitempty"`
	FinishReason string           `json:"finish_reason,omitempty"`
	AnsweredBy   string           `json:"answered_by,omitempty"` // the fallback, where that answered
	Usage        *streaming.Usage `json:"usage,omitempty"`
	// Memory is the receipt.
	Memory *prompt.Receipt `json:"memory,omitempty"`
	// Failure is the reason of a failed or interrupted reply; nil otherwise.
	Failure *Failure `json:"failure,omitempty"`
}

// UnmarshalJSON reads our part. Rows that an app wrote or imported may have anything under the same names, which counts
// as absent.
func (m *ReplyMetadata) UnmarshalJSON(raw []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return err
	}
	*m = ReplyMetadata{
		ModelVariant: zeroUnless[string](fields["model_variant"]), Model: zeroUnless[string](fields["model"]),
		ResponseID: zeroUnless[string](fields["response_id"]), FinishReason: zeroUnless[string](fields["finish_reason"]),
		AnsweredBy: zeroUnless[string](fields["answered_by"]), Usage: zeroUnless[*streaming.Usage](fields["usage"]),
		Memory:  zeroUnless[*prompt.Receipt](fields["memory"]),
		Failure: zeroUnless[*Failure](fields["failure"]),
	}
	if !slices.Contains(finishReasons, m.FinishReason) {
		m.FinishReason = ""
	}
	if m.Memory != nil && m.Memory.Sections == nil {
		m.Memory = nil
	}
	if m.Failure != nil && m.Failure.Code == "" {
		m.Failure = nil
	}
	return nil
}

// finishReasons are the ones of the event completion.
var finishReasons = []string{"stop", "length", "content_filter"}

// zeroUnless decodes a value, which is zero unless all of it has the type.
func zeroUnless[T any](raw json.RawMessage) (value T) {
	if json.Unmarshal(raw, &value) != nil {
		return *new(T)
	}
	return value
}

// Failure is the stored form of an error.
type Failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	// RetryAfter is the wait that the model asked for, 0 for none. It is outdated soon, so it is not stored.
	RetryAfter time.Duration `json:"-"`
}

// StoredReply is an assistant message as it is stored.
type StoredReply struct {
	ChatID        uuid.UUID
	UserMessageID uuid.UUID
	MessageID     uuid.UUID
	Status        memory.Status
	// Content of a running reply is the recorded text after the position that was passed to FindReply.
	Content string
	Parts   []memory.Part
	// Server generates it; uuid.Nil for none.
	Server uuid.UUID
	// Expires is when a reply that waits ends without its user.
	Expires  time.Time
	Metadata ReplyMetadata
}

// Model is the main model.
type Model interface {
	// Stream asks for a reply. It returns once the model has accepted the call, and may retry until then. An error is
	// a *fault.Error with an upstream code.
	Stream(ctx context.Context, request ModelRequest) (ModelStream, error)
}

// ModelRequest is one call of the main model.
type ModelRequest struct {
	Model        string
	Instructions string
	// Input is the whole prompt, as one message of the user's role.
	Input string
	// ChatID is the key of the provider's prompt cache.
	ChatID uuid.UUID
	// UserID is sent as a hash, for the provider's abuse detection.
	UserID uuid.UUID
	// Variant says which server is called, and how. Once tries a single time, because another variant answers if this one does not.
	Variant string
	Once    bool

	// Tools are those that the model may call. Steps are earlier calls for the same reply.
	Tools  []Function
	Choice ToolChoice // "" without Tools
	Steps  []ModelStep
}

// ModelStream is a streamed reply. Use it as: for s.Next() { s.Delta() }; s.Err(); s.Close().
type ModelStream interface {
	// Next waits for more text. It returns false at the end, for any reason.
	Next() bool
	// Delta returns the text of the last Next.
	Delta() string
	// Err returns nil only after the model's own terminal event; otherwise a *fault.Error.
	Err() error
	// Result is complete once Next has returned false and Err nil.
	Result() ModelResult
	Close() error
}

// ModelResult is the model's report at the end of a reply.
type ModelResult struct {
	// Model is the exact model that answered.
	Model        string
	ResponseID   string
	FinishReason string // stop, length, content_filter or tool_calls
	Usage        streaming.Usage
	// Items is all that the model said, in its order; with a call or with sealed reasoning it is needed for the next step.
	Items   []Item
	Sources []Source
}
