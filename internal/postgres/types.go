package postgres

import (
	"fmt"

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
