package history

import (
	"encoding/base64"
	"encoding/binary"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/fault"
)

// Cursor is where a page of chats ended. Its text form holds nothing of other users: a made-up one leads to a page
// of the caller's own chats.
type Cursor struct {
	// AsOf is when the first page was read. All pages are in the order of that moment, so that a chat that changes
	// meanwhile is neither left out nor listed twice.
	AsOf time.Time
	// Activity and ChatID are the last chat's.
	Activity time.Time
	ChatID   uuid.UUID
}

const (
	cursorVersion = 1
	// The version, two times in microseconds since 1970, an id.
	cursorSize = 1 + 8 + 8 + 16
)

// Years that both Go and Postgres know: a made-up time must not reach a query.
var (
	earliest = time.Date(-4000, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(200_000, 1, 1, 0, 0, 0, 0, time.UTC)
)

// strictBase64 has one way to write each value.
var strictBase64 = base64.RawURLEncoding.Strict()

// String returns the cursor's text form.
func (c Cursor) String() string {
	raw := make([]byte, 0, cursorSize)
	raw = append(raw, cursorVersion)
	raw = binary.BigEndian.AppendUint64(raw, uint64(c.AsOf.UnixMicro()))
	raw = binary.BigEndian.AppendUint64(raw, uint64(c.Activity.UnixMicro()))
	raw = append(raw, c.ChatID[:]...)
	return strictBase64.EncodeToString(raw)
}

// MarshalText returns the cursor's text form.
func (c Cursor) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText is ParseCursor.
func (c *Cursor) UnmarshalText(text []byte) (err error) {
	*c, err = ParseCursor(string(text))
	return err
}

// ParseCursor reads a cursor's text form and refuses any other text with fault.BadRequest.
func ParseCursor(text string) (Cursor, error) {
	raw, err := strictBase64.DecodeString(text)
	if err != nil || len(raw) != cursorSize || raw[0] != cursorVersion {
		return Cursor{}, badCursor()
	}
	cursor := Cursor{AsOf: microsecond(raw[1:9]), Activity: microsecond(raw[9:17]), ChatID: uuid.UUID(raw[17:])}
	if !inRange(cursor.AsOf) || !inRange(cursor.Activity) || cursor.String() != text {
		return Cursor{}, badCursor()
	}
	return cursor, nil
}

func microsecond(raw []byte) time.Time {
	return time.UnixMicro(int64(binary.BigEndian.Uint64(raw))).UTC()
}

func inRange(t time.Time) bool {
	return t.After(earliest) && t.Before(latest)
}

func badCursor() error {
	return fault.New(fault.BadRequest, "The cursor is not one that a page of chats ended with.")
}
