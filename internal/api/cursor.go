package api

import (
	"bytes"
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

const cursorVersion = 1

// wireCursor is a cursor's text form before base64, with its times in microseconds since 1970.
type wireCursor struct {
	Version        uint8
	AsOf, Activity int64
	ChatID         uuid.UUID
}

// Years that both Go and Postgres know: a made-up time must not reach a query.
var (
	earliest = time.Date(-4000, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(200_000, 1, 1, 0, 0, 0, 0, time.UTC)
)

// strictBase64 has one way to write each value.
var strictBase64 = base64.RawURLEncoding.Strict()

// String returns the cursor's text form.
func (c Cursor) String() string {
	return encodeWire(wireCursor{cursorVersion, c.AsOf.UnixMicro(), c.Activity.UnixMicro(), c.ChatID})
}

func encodeWire(parts ...any) string {
	var raw bytes.Buffer
	for _, part := range parts {
		_ = binary.Write(&raw, binary.BigEndian, part) // a buffer takes all
	}
	return strictBase64.EncodeToString(raw.Bytes())
}

func decodeWire(text string, into any) error {
	raw, err := strictBase64.DecodeString(text)
	if err == nil {
		_, err = binary.Decode(raw, binary.BigEndian, into)
	}
	return err
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
	var wire wireCursor
	err := decodeWire(text, &wire)
	cursor := Cursor{AsOf: time.UnixMicro(wire.AsOf).UTC(), Activity: time.UnixMicro(wire.Activity).UTC(), ChatID: wire.ChatID}
	if err != nil || !inRange(cursor.AsOf) || !inRange(cursor.Activity) || cursor.String() != text { // such as another version's
		return Cursor{}, fault.New(fault.BadRequest, "The cursor is not one that a page of chats ended with.")
	}
	return cursor, nil
}

// Place is where a page of other rows ended, by a time and an id.
type Place[Of pageOf] struct {
	At time.Time
	ID uuid.UUID
}

type (
	// MemoryCursor is where a page of memories ended.
	MemoryCursor = Place[ofMemories]
	// TopicCursor is where a page of topics ended.
	TopicCursor = Place[ofTopics]

	// pageOf says whose page it was, so that the cursor of one is refused by the other.
	pageOf interface {
		page() (version uint8, of string)
	}
	ofMemories struct{}
	ofTopics   struct{}
)

func (ofMemories) page() (version uint8, of string) { return 2, "memories" }
func (ofTopics) page() (version uint8, of string)   { return 3, "topics" }

// wirePlace is a Place's text form before base64.
type wirePlace struct {
	Version uint8
	At      int64
	ID      uuid.UUID
}

// String returns the text form.
func (p Place[Of]) String() string {
	version, _ := (*new(Of)).page()
	return encodeWire(wirePlace{version, p.At.UnixMicro(), p.ID})
}

// MarshalText returns the text form.
func (p Place[Of]) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads a text form and refuses any other text with fault.BadRequest.
func (p *Place[Of]) UnmarshalText(text []byte) error {
	var wire wirePlace
	err := decodeWire(string(text), &wire)
	read := Place[Of]{time.UnixMicro(wire.At).UTC(), wire.ID}
	if err != nil || !inRange(read.At) || read.String() != string(text) {
		_, of := (*new(Of)).page()
		return fault.New(fault.BadRequest, "The cursor is not one that a page of "+of+" ended with.")
	}
	*p = read
	return nil
}

func inRange(t time.Time) bool {
	return t.After(earliest) && t.Before(latest)
}
