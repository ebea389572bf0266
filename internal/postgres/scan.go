package postgres

import (
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype/zeronull"
)

// set stores the row of a query; without one the value is zero.
func set[Row any](into *Row) func(Row) {
	*into = *new(Row)
	return func(row Row) { *into = row }
}

// one scans the row of a query by name into a type of ours; without one the value is zero.
func one[Row any](into *Row) func(pgx.Rows) error {
	return each(set(into))
}

// perhaps is one for a pointer, which is nil without a row.
func perhaps[Row any](into **Row) func(pgx.Rows) error {
	*into = nil
	return each(func(row Row) { *into = &row })
}

// each scans the rows of a query by name into a type of ours, and passes each to read.
func each[Row any](read func(Row)) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, pgx.RowToStructByName[Row])
		for _, row := range found {
			read(row)
		}
		return err
	}
}

// all scans the rows of a query by name into a type of ours.
func all[Row any](into *[]Row) func(pgx.Rows) error {
	*into = nil
	return func(rows pgx.Rows) (err error) {
		*into, err = pgx.CollectRows(rows, pgx.RowToStructByName[Row])
		return err
	}
}

// cut returns a page of rows without the one more that shows whether there is a next page.
func cut[Row any](rows []Row, limit int) (page []Row, more bool) {
	return rows[:min(len(rows), limit)], len(rows) > limit
}

// affects reports whether a statement changed that many rows.
func affects(rows int64, is *bool) func(pgconn.CommandTag) error {
	return func(tag pgconn.CommandTag) error {
		*is = tag.RowsAffected() == rows
		return nil
	}
}

// counts keeps how many rows a statement changed.
func counts(rows *int64) func(pgconn.CommandTag) error {
	*rows = 0
	return func(tag pgconn.CommandTag) error {
		*rows = tag.RowsAffected()
		return nil
	}
}

// messages scans the rows of ReadBuffer, ReadKept and ReadFoldable, which come by the hundred. All are scanned
// into the same variables, and ids as bytes, because uuid.UUID would have them formatted and parsed again.
func messages(into *[]memory.Message) func(pgx.Rows) error {
	*into = nil
	return func(rows pgx.Rows) error {
		if err := rows.Err(); err != nil { // a connection that breaks within a batch leaves nothing to describe
			return err
		}
		var m memory.Message
		var name string
		var toolCalls []byte
		columns := []any{
			(*[16]byte)(&m.ID), (*[16]byte)(&m.ReplyTo), &m.Seq, &m.Role, &m.Status, &m.Content, &m.Tokens, &m.CreatedAt,
			&m.Pinned, &m.Importance, (*zeronull.Text)(&name), &toolCalls,
		}
		if len(rows.FieldDescriptions()) > len(columns) {
			columns = append(columns, &m.TimeZone) // only ReadFoldable reads it
		}
		_, err := pgx.ForEachRow(rows, columns, func() error {
			if name != "" || toolCalls != nil {
				m.Content = prompt.ToolText(m.Role, m.Content, name, toolCalls)
			}
			*into = append(*into, m)
			return nil
		})
		return err
	}
}

// nullID is null for the nil id.
func nullID(id uuid.UUID) uuid.NullUUID {
	return uuid.NullUUID{UUID: id, Valid: id != uuid.Nil}
}

// nullZero is null for the zero value.
func nullZero[T comparable](value T) *T {
	if value == *new(T) {
		return nil
	}
	return &value
}

// zeroNull is the reverse of nullZero.
func zeroNull[T any](value *T) T {
	if value == nil {
		return *new(T)
	}
	return *value
}

// real32 is a number as a column of type real has it.
func real32(value *float64) *float32 {
	if value == nil {
		return nil
	}
	return new(float32(*value))
}
