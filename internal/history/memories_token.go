package history

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
)

// MemoryCursor is where a page of memories ended.
type MemoryCursor struct {
	CreatedAt time.Time
	ID        uuid.UUID
}

// memoryCursorVersion tells the text form from that of a page of chats.
const memoryCursorVersion = 2

// String returns the cursor's text form.
func (c MemoryCursor) String() string { return encodePlace(memoryCursorVersion, c.CreatedAt, c.ID) }

// MarshalText returns the cursor's text form.
func (c MemoryCursor) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads a cursor's text form and refuses any other text with fault.BadRequest.
func (c *MemoryCursor) UnmarshalText(text []byte) (err error) {
	c.CreatedAt, c.ID, err = decodePlace(memoryCursorVersion, "memories", string(text))
	return err
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
