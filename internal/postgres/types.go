package postgres

import (
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

// registerTypes sets how a connection reads and writes types of which pgx does not know enough.
func registerTypes(types *pgtype.Map) {
	types.RegisterType(&pgtype.Type{Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: newDates()})
	id := &pgtype.Type{Name: "uuid", OID: pgtype.UUIDOID, Codec: ids{}}
	types.RegisterType(id)
	types.RegisterType(&pgtype.Type{Name: "_uuid", OID: pgtype.UUIDArrayOID, Codec: &pgtype.ArrayCodec{ElementType: id}})
}

// ids is the codec of uuid. A uuid.UUID is what Postgres sends and takes, but pgx would make text of each of them, and
// bytes of the text.
type ids struct{ pgtype.UUIDCodec }

// PlanEncode plans for one type of value.
func (c ids) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.(uuid.UUID); ok && format == pgtype.BinaryFormatCode {
		return idPlan{}
	}
	return c.UUIDCodec.PlanEncode(m, oid, format, value)
}

// PlanScan plans for one type of target.
func (c ids) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	if _, ok := target.(*uuid.UUID); ok && format == pgtype.BinaryFormatCode {
		return idPlan{}
	}
	return c.UUIDCodec.PlanScan(m, oid, format, target)
}

type idPlan struct{}

// Encode appends an id.
func (idPlan) Encode(value any, buf []byte) ([]byte, error) {
	id, ok := value.(uuid.UUID)
	if !ok {
		return nil, fmt.Errorf("%T is no id", value)
	}
	return append(buf, id[:]...), nil
}

// Scan reads an id; null is uuid.Nil.
func (idPlan) Scan(src []byte, target any) error {
	into, ok := target.(*uuid.UUID)
	if !ok || src != nil && len(src) != len(into) {
		return fmt.Errorf("%d bytes are no id for %T", len(src), target)
	}
	*into = uuid.Nil
	copy(into[:], src)
	return nil
}

// dates is the codec of timestamptz. Times come in UTC, which is what answers have, and not in the server's own zone. A
// date that JSON cannot have becomes the nearest one that it can: constraints refuse such dates, but without one of them a
// single row would keep a user from all of the chats.
type dates struct{ *pgtype.TimestamptzCodec }

func newDates() dates { return dates{&pgtype.TimestamptzCodec{ScanLocation: time.UTC}} }

var (
	firstDate = time.Date(1, time.January, 1, 0, 0, 0, 0, time.UTC)
	lastDate  = time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)
)

// PlanScan plans for one type of target. Of a **time.Time pgx takes care itself, with the plan for *time.Time.
func (d dates) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	if _, ok := target.(*time.Time); !ok {
		return d.TimestamptzCodec.PlanScan(m, oid, format, target)
	}
	return scanDate{d.TimestamptzCodec.PlanScan(m, oid, format, new(pgtype.Timestamptz))}
}

type scanDate struct{ pgtype.ScanPlan }

// Scan reads a date; null is the zero time.
func (s scanDate) Scan(src []byte, target any) error {
	var read pgtype.Timestamptz
	if err := s.ScanPlan.Scan(src, &read); err != nil {
		return err
	}
	into, ok := target.(*time.Time)
	if !ok {
		return fmt.Errorf("%T is no date", target)
	}
	switch *into = read.Time; {
	case !read.Valid:
	case read.InfinityModifier == pgtype.Infinity || into.After(lastDate):
		*into = lastDate
	case read.InfinityModifier == pgtype.NegativeInfinity || into.Before(firstDate):
		*into = firstDate
	}
	return nil
}
