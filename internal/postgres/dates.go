package postgres

import (
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

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

// Scan reads a date that is not null.
func (s scanDate) Scan(src []byte, target any) error {
	var read pgtype.Timestamptz
	if err := s.ScanPlan.Scan(src, &read); err != nil {
		return err
	}
	into, ok := target.(*time.Time)
	if !ok || !read.Valid {
		return errors.New("null is no date")
	}
	switch *into = read.Time; {
	case read.InfinityModifier == pgtype.Infinity || into.After(lastDate):
		*into = lastDate
	case read.InfinityModifier == pgtype.NegativeInfinity || into.Before(firstDate):
		*into = firstDate
	}
	return nil
}
