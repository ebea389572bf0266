package api

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"regexp"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/transfer/bundle"
)

// Memories reads and writes the memories of a user, with the user's rights: another user's memory does not exist.
// Callers Check a request first. Methods that name a memory return NoMemory when there is none. Where long-term
// memory is off, AddMemory and ImportMemories return MemoryOff; stored memories can still be read, changed and deleted.
type Memories interface {
	// ListMemories returns a page of memories: the newest first or, for a query with a Text, the best matches.
	ListMemories(ctx context.Context, user auth.Principal, query MemoriesQuery) (MemoryPage, error)
	FindMemory(ctx context.Context, user auth.Principal, id uuid.UUID) (Memory, error)
	// AddMemory stores a memory that the user wrote. One with the same words is not stored again: it becomes active and gets
	// the fields that the request names, and added is false. It returns a fault.MemoriesFull where the user has as many as may be.
	AddMemory(ctx context.Context, user auth.Principal, memory NewMemory) (stored Memory, added bool, err error)
	// ChangeMemory changes the fields that are set and no others. It returns a fault.MemoryExists when an active memory
	// has the same words.
	ChangeMemory(ctx context.Context, user auth.Principal, id uuid.UUID, change MemoryChange) (Memory, error)
	// DeleteMemory deletes a memory with its history.
	DeleteMemory(ctx context.Context, user auth.Principal, id uuid.UUID, deletion MemoryDeletion) error
	// MemoryHistory returns the changes of a memory, the oldest first.
	MemoryHistory(ctx context.Context, user auth.Principal, id uuid.UUID) (MemoryHistory, error)
	// FindForgettable returns the memories that words may mean, the best first, of any status.
	FindForgettable(ctx context.Context, user auth.Principal, text string) ([]ForgetCandidate, error)
	// ForgetMemories deletes those memories that still have the version named, and counts them.
	ForgetMemories(ctx context.Context, user auth.Principal, those []MemoryVersion) (int, error)
	// DeleteMemories deletes all memories of the user with everything that was made of them. Messages that were not
	// yet looked at are skipped, so that none of it comes back.
	DeleteMemories(ctx context.Context, user auth.Principal) (DeletedMemories, error)

	// MemorySettings returns the defaults for a user without any.
	MemorySettings(ctx context.Context, user auth.Principal) (MemorySettings, error)
	ChangeMemorySettings(ctx context.Context, user auth.Principal, change MemorySettingsChange) (MemorySettings, error)

	// ExportMemories passes on all memories, the oldest first.
	ExportMemories(ctx context.Context, user auth.Principal, take func(bundle.Memory) error) error
	// ImportMemories stores memories, some hundred in a transaction. One whose words are remembered already is skipped, also one
	// of a call before that failed half way.
	ImportMemories(ctx context.Context, user auth.Principal, records []bundle.Memory) (ImportedMemories, error)
}

// Extractor reads memories out of a chat.
type Extractor interface {
	// Extract has everything extracted that was said in a chat, and returns the last row of the ledger. It waits as long as
	// ctx lives, but two minutes at most. For a chat that does not exist that is fault.NoChat, where long-term memory is off MemoryOff.
	Extract(ctx context.Context, user auth.Principal, chatID uuid.UUID) (Extraction, error)
}

// NoMemory is the error for a memory that does not exist or is another user's.
func NoMemory() error { return fault.New(fault.MemoryNotFound, "There is no such memory.") }

// MemoryOff is the error for a server that remembers nothing across chats.
func MemoryOff() error {
	return fault.New(fault.MemoryOff, "This server remembers nothing across chats: LONG_TERM_MEMORY is false.")
}

// SameMemory is the error for a change after which two memories would have the same words.
func SameMemory(twin uuid.UUID) error {
	return fault.With(fault.MemoryExists, "Another memory has these words already.", map[string]any{"memory_id": twin})
}

// Memory is one thing that a user is remembered for, as the user sees it.
type Memory struct {
	_               struct{}       `description:"One thing that a user is remembered for, in all chats."`
	ID              uuid.UUID      `json:"id"`
	Content         string         `json:"content"`
	MemoryType      string         `json:"memory_type" enum:"preference,fact,pattern,context"`
	Confidence      float64        `json:"confidence" minimum:"0" maximum:"1"`
	Durable         bool           `json:"durable" description:"Whether it is kept however long it is not used."`
	Pinned          bool           `json:"pinned" description:"Whether it is in every prompt. No model changes a pinned memory."`
	Status          string         `json:"status" enum:"active,inbox,superseded,archived" doc:"status"`
	Edited          bool           `json:"edited" description:"Whether the user changed its words. No model changes them then."`
	Origin          string         `json:"origin" enum:"extracted,user,assistant,import"`
	Version         int64          `json:"version" description:"Grows with each change."`
	Lang            *string        `json:"lang" description:"The language of the content; null where unknown."`
	ValidFrom       *time.Time     `json:"valid_from" description:"Since when it is true; null where nobody said."`
	ValidTo         *time.Time     `json:"valid_to" description:"Until when it was true; null for what still is."`
	RecordedAt      time.Time      `json:"recorded_at" description:"Since when it is believed."`
	RetractedAt     *time.Time     `json:"retracted_at" description:"Until when it was believed; null for what still is."`
	SupersededBy    *uuid.UUID     `json:"superseded_by" description:"The memory that took its place; null for none."`
	ConflictsWith   *uuid.UUID     `json:"conflicts_with" description:"The memory whose place it takes when it is accepted from the inbox; null for none."`
	SourceSessionID *uuid.UUID     `json:"source_session_id" description:"The chat in which it was first said; null for none."`
	LastAccessed    *time.Time     `json:"last_accessed" description:"When a reply last used it; null for never."`
	AccessCount     int            `json:"access_count" description:"How many replies used it."`
	CreatedAt       time.Time      `json:"created_at"`
	UpdatedAt       time.Time      `json:"updated_at"`
	Sources         []MemorySource `json:"sources" nullable:"false" description:"Where the user said it, the oldest first."`
}

// MemorySource is a message in which a memory was said.
type MemorySource struct {
	_         struct{}  `description:"A message in which a memory was said."`
	MessageID uuid.UUID `json:"message_id"`
	ChatID    uuid.UUID `json:"chat_id"`
	Seq       int64     `json:"seq"`
	Quote     string    `json:"quote" description:"The words of the message that it was made of."`
	SaidAt    time.Time `json:"said_at"`
}

// MemoryPage is a page of a user's memories. Next is where the next page begins; nil after the last.
type MemoryPage struct {
	Memories []Memory      `json:"memories" nullable:"false"`
	Next     *MemoryCursor `json:"next_cursor" description:"Asks for the next page; null after the last, and for a search."`
}

// MemoryHistory is everything that was done to a memory.
type MemoryHistory struct {
	Revisions []MemoryRevision `json:"revisions" nullable:"false" description:"The oldest first."`
}

// MemoryRevision is a change of a memory.
type MemoryRevision struct {
	_         struct{}  `description:"A change of a memory."`
	MemoryID  uuid.UUID `json:"memory_id"`
	Version   int64     `json:"version" description:"The version that the change made."`
	Action    string    `json:"action" enum:"ADD,UPDATE,DELETE,NOOP,EDIT,MERGE,DECAY,ARCHIVE,RESTORE" doc:"action"`
	Content   *string   `json:"content" description:"The content after the change; null where it was removed because it may have held words that were deleted."`
	Reason    string    `json:"reason"`
	Actor     string    `json:"actor" enum:"model,user,decay,erasure"`
	Model     *string   `json:"model" description:"The model that decided; null for none."`
	PromptRef *string   `json:"prompt_ref" description:"The instructions that it had; null for none."`
	CreatedAt time.Time `json:"created_at"`
}

// ForgetCandidate is a memory that would be forgotten.
type ForgetCandidate struct {
	_       struct{}  `description:"A memory that would be forgotten."`
	ID      uuid.UUID `json:"id"`
	Content string    `json:"content"`
	Version int64     `json:"-"`
}

// MemoryVersion names a memory as it was when somebody saw it.
type MemoryVersion struct {
	ID      uuid.UUID
	Version int64
}

// DeletedMemories counts the deleted rows.
type DeletedMemories struct {
	_             struct{} `description:"What was deleted."`
	Memories      int64    `json:"memories"`
	Sources       int64    `json:"sources"`
	Revisions     int64    `json:"revisions"`
	Entities      int64    `json:"entities"`
	Relationships int64    `json:"relationships"`
}

// MemorySettings are the settings of a user for long-term memory.
type MemorySettings struct {
	_        struct{} `description:"What a user decided about being remembered."`
	Enabled  bool     `json:"enabled" description:"Whether anything is remembered across chats, and shown to the model."`
	TimeZone *string  `json:"time_zone" description:"An IANA name such as Europe/Berlin, by which the user's dates are read; null for UTC."`
	Language *string  `json:"language" description:"The user's language, such as de or pt-BR; null for the one that is spoken."`
	Excluded []string `json:"excluded" nullable:"false" description:"Subjects that are never remembered."`
}

// Extraction is a row of the ledger: a range of a chat's messages that memories were read out of.
type Extraction struct {
	_            struct{}        `description:"A range of a chat's messages that memories were read out of, and what became of it."`
	ID           uuid.UUID       `json:"id"`
	ChatID       uuid.UUID       `json:"chat_id"`
	SeqFrom      int64           `json:"seq_from"`
	SeqTo        int64           `json:"seq_to" description:"Before seq_from where there was nothing to look at."`
	Turns        int             `json:"turns"`
	Result       string          `json:"result" enum:"done,empty,skipped" description:"skipped: no model has looked at it."`
	Candidates   int             `json:"candidates" description:"Facts that passed the checks."`
	Added        int             `json:"added"`
	Updated      int             `json:"updated"`
	Superseded   int             `json:"superseded"`
	Noops        int             `json:"noops" description:"Facts that were known."`
	Dropped      json.RawMessage `json:"dropped" type:"object" description:"How many facts were dropped, by reason."`
	Calls        int             `json:"calls" description:"Calls of the model."`
	InputTokens  int             `json:"input_tokens"`
	OutputTokens int             `json:"output_tokens"`
	Model        *string         `json:"model"`
	PromptRef    *string         `json:"prompt_ref" description:"The instructions that the model had."`
	DurationMS   int             `json:"duration_ms"`
	CreatedAt    time.Time       `json:"created_at"`
}

// MaxForgotten is how many memories one query proposes to forget.
const MaxForgotten = 50

// The statuses that a list asks for beside the memories' own; by default StatusCurrent.
const (
	StatusCurrent = "current" // active and inbox
	StatusAll     = "all"
)

// MemoriesQuery asks for a page of memories, or for a search.
type MemoriesQuery struct {
	// Text is the subject of the memories; "" for all.
	Text   string `query:"q" trim:"" maxLength:"500" description:"What they are about, by words and by meaning, the best matches first. A search has one page."`
	Type   string `query:"type" enum:"preference,fact,pattern,context" description:"Only memories of this type."`
	Status string `query:"status" enum:"active,inbox,superseded,archived,current,all" doc:"memoriesQuery.status"`
	// ChatID restricts the list to what was said in one chat; uuid.Nil lists all.
	ChatID uuid.UUID `query:"chat_id" description:"Only memories that were said in this chat, among others perhaps: see their sources."`
	// AsOf is Moment as the request has it; Check reads it.
	AsOf  string `query:"as_of" format:"date-time" description:"What was true, and known, at this time: RFC 3339, or a date for the end of that day in UTC."`
	Limit int    `query:"limit" minimum:"1" maximum:"200" default:"50" description:"How many memories."`
	// After is where the page before ended; nil for the first.
	After *MemoryCursor `query:"cursor,omitempty" nullable:"false" description:"next_cursor of the page before."`

	// Moment is AsOf; nil for now.
	Moment *time.Time
	// Vector is that of Text; memories whose cosine with it is LeastCosine or more are found, too. Without Values none are.
	Vector      recall.Vector
	LeastCosine float64
}

func (q *MemoriesQuery) check(wrong problems) {
	q.Status = cmp.Or(q.Status, StatusCurrent)
	if q.AsOf != "" {
		q.Moment = new(wrong.moment("as_of", q.AsOf))
	}
}

func (p problems) moment(name, text string) time.Time {
	moment, ok := ParseMoment(text)
	if !ok {
		p[name] = "must be a time such as 2026-11-21T15:04:05Z (RFC 3339), or a date"
	}
	return moment
}

// ParseMoment reads a time of RFC 3339, one without a zone, which is in UTC, or a date, which means the end of that day in
// UTC.
func ParseMoment(text string) (moment time.Time, ok bool) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05"} {
		if moment, err := time.Parse(layout, text); err == nil {
			return moment.UTC(), inRange(moment)
		}
	}
	day, err := time.Parse(time.DateOnly, text)
	return day.AddDate(0, 0, 1).Add(-time.Microsecond), err == nil && inRange(day)
}

// NewMemory is a memory that a user writes. A field that is not set gets its default or, where a memory has these words
// already, stays.
type NewMemory struct {
	_       struct{} `description:"What the user wants to be remembered for."`
	Content string   `json:"content" required:"true" trim:"" minLength:"1" maxLength:"500" description:"1 to 500 characters after trimming."`
	Type    *string  `json:"type,omitempty" nullable:"true" enum:"preference,fact,pattern,context" description:"fact when it is left out."`
	Durable *bool    `json:"durable,omitempty" nullable:"true" doc:"newMemory.durable"`
	Pinned  *bool    `json:"pinned,omitempty" nullable:"true" description:"Whether it is in every prompt; false when it is left out."`
	Status  *string  `json:"status,omitempty" nullable:"true" enum:"active,inbox,archived" description:"active when it is left out."`
	// Proposed is a memory that a program writes down in the user's name: it waits in the inbox.
	Proposed bool `json:"-"`
}

// MemoryChange changes the fields that are set. A nil field stays.
type MemoryChange struct {
	_       struct{} `description:"What is to be changed. What is left out stays."`
	Content *string  `json:"content,omitempty" nullable:"false" trim:"" minLength:"1" maxLength:"500" doc:"content"`
	Type    *string  `json:"type,omitempty" nullable:"false" enum:"preference,fact,pattern,context"`
	Durable *bool    `json:"durable,omitempty" nullable:"false" description:"Whether it is kept however long it is not used."`
	Pinned  *bool    `json:"pinned,omitempty" nullable:"false" description:"Whether it is in every prompt. No model changes a pinned memory."`
	Status  *string  `json:"status,omitempty" nullable:"false" enum:"active,inbox,archived" doc:"memoryChange.status"`
}

// MemoryDeletion names the data that is deleted with a memory.
type MemoryDeletion struct {
	// Also is AlsoSummaries to take back the briefs of the chats in which it was said.
	Also string `query:"also" enum:"summaries" description:"summaries takes the briefs of the chats in which it was said back to before that."`
}

// AlsoSummaries is what MemoryDeletion asks for.
const AlsoSummaries = "summaries"

// ForgetRequest is either of the two steps in which memories are forgotten by words.
type ForgetRequest struct {
	_     struct{} `description:"First query; then the token of the answer, to forget exactly what it named."`
	Query *string  `json:"query,omitempty" nullable:"true" trim:"" minLength:"1" maxLength:"500" description:"What the memories are about."`
	Token *string  `json:"token,omitempty" nullable:"true" description:"The token that a query was answered with, at most 10 minutes ago."`
}

// check refuses a request that is neither step, or both.
func (r *ForgetRequest) check(wrong problems) {
	switch {
	case r.Query != nil && r.Token != nil:
		wrong["token"] = "must not come together with query"
	case r.Query == nil && r.Token == nil:
		wrong["query"] = "is missing"
	}
}

// ForgetResult is the answer to either step.
type ForgetResult struct {
	_          struct{}          `description:"candidates and token answer a query, forgotten answers a token."`
	Candidates []ForgetCandidate `json:"candidates,omitzero" nullable:"false" doc:"candidates"`
	Token      string            `json:"token,omitempty" description:"Forgets these, for 10 minutes."`
	Forgotten  *int              `json:"forgotten,omitempty" nullable:"false" description:"How many were deleted. One that was changed meanwhile is not."`
}

// MemorySettingsChange changes the settings that are set. Null gives the default.
type MemorySettingsChange struct {
	_        struct{}        `description:"What is to be changed. What is left out stays; null takes the value away."`
	Enabled  *bool           `json:"enabled,omitempty" nullable:"false" doc:"enabled"`
	TimeZone Field[string]   `json:"time_zone,omitzero" nullable:"true" maxLength:"64" description:"An IANA name such as Europe/Berlin."`
	Language Field[string]   `json:"language,omitzero" nullable:"true" maxLength:"35" description:"Such as de or pt-BR."`
	Excluded Field[[]string] `json:"excluded,omitzero" nullable:"true" each:"100" most:"50" doc:"excluded"`
}

var languageTag = regexp.MustCompile(`^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$`)

func (c *MemorySettingsChange) check(wrong problems) {
	if zone := c.TimeZone.Value; zone != nil && !knownZone(*zone) {
		wrong["time_zone"] = "must be the IANA name of a time zone, such as Europe/Berlin"
	}
	if language := c.Language.Value; language != nil && !languageTag.MatchString(*language) {
		wrong["language"] = "must be a language tag such as de or pt-BR"
	}
	c.Excluded = orEmpty(c.Excluded, []string{})
}

func knownZone(name string) bool {
	if name == "" || name == "Local" {
		return false // Go reads these as UTC, and as the server's own
	}
	_, err := time.LoadLocation(name)
	return err == nil
}

// ChatDeletion names the data of a chat that outlives it.
type ChatDeletion struct {
	KeepMemories bool `query:"keep_memories" default:"false" description:"true keeps what is remembered of the chat, as the user's own."`
}

// ImportedMemories counts what became of a file.
type ImportedMemories struct {
	Imported int
	// Skipped counts memories that exist already, or whose words do, Full those that the user has no room for.
	Skipped, Full int
}

// MemoryImport is what became of a file that a user sent.
type MemoryImport struct {
	_        struct{}               `description:"What became of a file of memories."`
	Format   string                 `json:"format" enum:"throughline,mem0,zep,chatgpt,list" description:"Whose format the file has."`
	Imported int                    `json:"imported"`
	Skipped  int                    `json:"skipped" description:"Memories that are there already, or whose words are."`
	Full     int                    `json:"full" description:"Memories that are left out: a user has 10 000 at most."`
	Refused  []bundle.RefusedMemory `json:"refused" nullable:"false" description:"Memories of another program that are left out."`
}

// ForgetToken names exactly the memories that a user was shown, and when.
type ForgetToken struct {
	User  uuid.UUID
	At    time.Time
	Those []MemoryVersion
}

const forgetPatience = 10 * time.Minute

func badToken(why string) error {
	return fault.With(fault.ValidationFailed, "The token cannot be used.", map[string]any{"token": why})
}

// A ForgetToken is not signed: it lets its user delete memories of its user, who may delete them by their ids as well. It
// holds their versions, so that what changed since it was shown is not forgotten unseen.

const forgetTokenVersion = 1

type wireForgetToken struct {
	Version uint8
	At      int64
	User    uuid.UUID
}

// String returns the token's text form.
func (t ForgetToken) String() string {
	return encodeWire(wireForgetToken{forgetTokenVersion, t.At.UnixMicro(), t.User}, t.Those)
}

// ParseForgetToken reads the token of a user. It refuses one that is older than 10 minutes, or another user's.
func ParseForgetToken(text string, user uuid.UUID, now time.Time) (ForgetToken, error) {
	token, ok := decodeForgetToken(text)
	switch {
	case !ok || token.User != user || token.At.After(now.Add(forgetPatience)):
		return ForgetToken{}, badToken("is not one that a query of yours was answered with")
	case now.Sub(token.At) > forgetPatience:
		return ForgetToken{}, badToken("is older than 10 minutes: ask again with the query")
	}
	return token, nil
}

func decodeForgetToken(text string) (token ForgetToken, ok bool) {
	var wire wireForgetToken
	raw, err := strictBase64.DecodeString(text)
	head, one := binary.Size(wire), binary.Size(MemoryVersion{})
	if err != nil || len(raw) < head || (len(raw)-head)%one != 0 || (len(raw)-head)/one > MaxForgotten {
		return ForgetToken{}, false
	}
	_, _ = binary.Decode(raw, binary.BigEndian, &wire) // it is long enough
	token = ForgetToken{User: wire.User, At: time.UnixMicro(wire.At).UTC(), Those: make([]MemoryVersion, (len(raw)-head)/one)}
	_, _ = binary.Decode(raw[head:], binary.BigEndian, token.Those)
	return token, wire.Version == forgetTokenVersion && inRange(token.At)
}

// Forget takes either step: it returns the memories that the query may mean with a token for exactly those, or deletes
// the memories that a token names.
func Forget(ctx context.Context, store Memories, user auth.Principal, request ForgetRequest) (ForgetResult, error) {
	if request.Token != nil {
		token, err := ParseForgetToken(*request.Token, user.UserID, time.Now())
		if err != nil {
			return ForgetResult{}, err
		}
		forgotten, err := store.ForgetMemories(ctx, user, token.Those)
		return ForgetResult{Forgotten: &forgotten}, err
	}
	found, err := store.FindForgettable(ctx, user, *request.Query)
	token := ForgetToken{User: user.UserID, At: time.Now(), Those: []MemoryVersion{}}
	for _, candidate := range found {
		token.Those = append(token.Those, MemoryVersion{ID: candidate.ID, Version: candidate.Version})
	}
	return ForgetResult{Candidates: found, Token: token.String()}, err
}
