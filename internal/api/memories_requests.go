package api

import (
	"cmp"
	"context"
	"encoding/binary"
	"regexp"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/transfer/bundle"
)

// MaxForgotten is how many memories one query proposes to forget.
const MaxForgotten = 50

// The statuses that a list asks for beside those of memories. By default it holds what matters now: StatusCurrent.
const (
	StatusCurrent = "current" // active and inbox
	StatusAll     = "all"
)

// MemoriesQuery asks for a page of memories, or for those that words are about.
type MemoriesQuery struct {
	// Text is what the memories are about; "" for all.
	Text   string `query:"q" trim:"" maxLength:"500" description:"What they are about, by words and by meaning, the best matches first. A search has one page."`
	Type   string `query:"type" enum:"preference,fact,pattern,context" description:"Only memories of this type."`
	Status string `query:"status" enum:"active,inbox,superseded,archived,current,all" doc:"memoriesQuery.status"`
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

// NewMemory is what a user wants to be remembered for. What is not set gets its default or, where a memory has these
// words already, stays.
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

// MemoryDeletion says what is deleted with a memory.
type MemoryDeletion struct {
	// Also is AlsoSummaries to have the briefs made anew of the chats in which it was said.
	Also string `query:"also" enum:"summaries" description:"summaries makes the briefs anew of the chats in which it was said."`
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

// ChatDeletion says what of a chat outlives it.
type ChatDeletion struct {
	KeepMemories bool `query:"keep_memories" default:"false" description:"true keeps what is remembered of the chat, as the user's own."`
}

// ImportedMemories counts what became of a file.
type ImportedMemories struct {
	Imported int
	// Skipped are those that are there already, or whose words are.
	Skipped int
}

// MemoryImport is what became of a file that a user sent.
type MemoryImport struct {
	_        struct{}               `description:"What became of a file of memories."`
	Format   string                 `json:"format" enum:"throughline,mem0,zep,chatgpt,list" description:"Whose format the file has."`
	Imported int                    `json:"imported"`
	Skipped  int                    `json:"skipped" description:"Memories that are there already, or whose words are."`
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
	return &fault.Error{Code: fault.ValidationFailed, Message: "The token cannot be used.", Details: map[string]any{"token": why}}
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

// ProposeForgetting returns the memories that words may mean, and a token for exactly those.
func ProposeForgetting(ctx context.Context, store Memories, user auth.Principal, text string) ([]ForgetCandidate, string, error) {
	found, err := store.FindForgettable(ctx, user, text)
	if err != nil {
		return nil, "", err
	}
	token := ForgetToken{User: user.UserID, At: time.Now(), Those: []MemoryVersion{}}
	for _, candidate := range found {
		token.Those = append(token.Those, MemoryVersion{ID: candidate.ID, Version: candidate.Version})
	}
	return found, token.String(), nil
}

// Forget deletes what a token names, and counts it.
func Forget(ctx context.Context, store Memories, user auth.Principal, text string) (int, error) {
	token, err := ParseForgetToken(text, user.UserID, time.Now())
	if err != nil {
		return 0, err
	}
	return store.ForgetMemories(ctx, user, token.Those)
}
