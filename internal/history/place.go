package history

import (
	"encoding/base64"
	"encoding/binary"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/fault"
)

// Place is where a page of chats ended. A cursor is a Place written down: it says nothing of other users,
// and whoever makes one up gets a page of their own chats.
type Place struct {
	// AsOf is when the first page was read. All pages are in the order of that moment, so that a chat that is
	// talked to meanwhile is neither left out nor given twice.
	AsOf time.Time
	// Activity and ChatID are the last chat's.
	Activity time.Time
	ChatID   uuid.UUID
}

const (
	placeVersion = 1
	// The version, two times in microseconds since 1970, an id.
	placeSize = 1 + 8 + 8 + 16
)

// Years that both Go and Postgres know: a made-up time must not get as far as a query.
var (
	earliest = time.Date(-4000, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(200_000, 1, 1, 0, 0, 0, 0, time.UTC)
)

// strictBase64 has one way to write each value.
var strictBase64 = base64.RawURLEncoding.Strict()

// Cursor writes the place down.
func (p Place) Cursor() string {
	raw := make([]byte, 0, placeSize)
	raw = append(raw, placeVersion)
	raw = binary.BigEndian.AppendUint64(raw, uint64(p.AsOf.UnixMicro()))
	raw = binary.BigEndian.AppendUint64(raw, uint64(p.Activity.UnixMicro()))
	raw = append(raw, p.ChatID[:]...)
	return strictBase64.EncodeToString(raw)
}

// ParseCursor reads what Cursor wrote.
func ParseCursor(cursor string) (Place, error) {
	raw, err := strictBase64.DecodeString(cursor)
	if err != nil || len(raw) != placeSize || raw[0] != placeVersion {
		return Place{}, badCursor()
	}
	place := Place{AsOf: microsecond(raw[1:9]), Activity: microsecond(raw[9:17]), ChatID: uuid.UUID(raw[17:])}
	if !known(place.AsOf) || !known(place.Activity) || strictBase64.EncodeToString(raw) != cursor {
		return Place{}, badCursor()
	}
	return place, nil
}

func microsecond(raw []byte) time.Time {
	return time.UnixMicro(int64(binary.BigEndian.Uint64(raw))).UTC()
}

func known(t time.Time) bool {
	return t.After(earliest) && t.Before(latest)
}

func badCursor() error {
	return fault.New(fault.BadRequest, "The cursor is not one that a page of chats ended with.")
}
