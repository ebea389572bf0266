package work

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"
)

// ErrBroken reports that a model gives a question no answer that could be used, however often it is asked. Other failures
// of an Asker pass when the model is back.
var ErrBroken = errors.New("the model's answers to this cannot be used")

// Asker is a model that answers in a given form.
type Asker interface {
	Ask(ctx context.Context, question Question) (Answer, error)
}

// Question is one call of the model: its instructions and one input of the user's role.
type Question struct {
	// Purpose says what the call is for: extract, consolidate, entities, rewrite or title.
	Purpose             string
	Model               string
	Instructions, Input string
	// Schema is the JSON schema that the answer has to follow, of the strict kind: each property required, no others.
	// A server that refuses schemas is asked for any JSON, so the caller checks the answer. Nil for an answer in plain text.
	Schema     map[string]any
	SchemaName string
	// CacheKey tells the provider which calls have a beginning in common; the nil id for those of the same user. The user's
	// own id is not for the provider.
	CacheKey uuid.UUID
	UserID   uuid.UUID
}

// Instructions are what a model is told to do, and their name in ledgers.
type Instructions struct{ Ref, Text string }

// Or returns an app's own instructions in place of these, named by their digest; these where it has none.
func (i Instructions) Or(own string) Instructions {
	if strings.TrimSpace(own) == "" {
		return i
	}
	name, _, _ := strings.Cut(i.Ref, "@")
	digest := sha256.Sum256([]byte(own))
	return Instructions{Ref: name + "@custom-" + hex.EncodeToString(digest[:4]), Text: strings.TrimSpace(own)}
}

// DeniedError is the app's word that a call may not be made for its user before a time.
type DeniedError struct {
	Until time.Time
	Err   error // as a client is told
}

func (e *DeniedError) Error() string { return e.Err.Error() }

// Unwrap returns what a client is told.
func (e *DeniedError) Unwrap() error { return e.Err }

// Meter is asked about the calls of models that are made for users, and told what they have cost.
type Meter interface {
	// Allow returns a *DeniedError for a call that may not be made. It is not asked about replies and folds.
	Allow(ctx context.Context, userID uuid.UUID, purpose string) error
	// Record keeps the cost of a call. It returns soon.
	Record(ctx context.Context, spent Spent)
}

// PurposeReply is the purpose of a call for a reply. That of a summary is its kind, that of a question its own.
const PurposeReply = "reply"

// Spent is the cost of one call of a model. ChatID is uuid.Nil for a call of no chat, MessageID for one of no reply.
type Spent struct {
	// ID is of the call, which is charged once; uuid.Nil for that of the reply, or for a new one.
	ID                        uuid.UUID
	Purpose, Model, Variant   string
	UserID, ChatID, MessageID uuid.UUID
	InputTokens               int
	CachedTokens              int // within InputTokens
	OutputTokens              int
	MicroUSD                  int64 // millionths of a dollar; 0 without a Price
	// Estimated reports that the call broke off: the tokens are the server's own count of the request.
	Estimated bool
}

// Answer is what the model said: JSON, if it did as it was told.
type Answer struct {
	Text         string
	Model        string
	InputTokens  int
	CachedTokens int
	OutputTokens int
}
