package memory

import (
	"encoding/binary"
	"time"

	"github.com/google/uuid"
)

// rowID gives the same id for the same seq, readable in a failing test.
func rowID(seq int64) uuid.UUID {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[8:], uint64(seq))
	return id
}

func row(seq int64, role Role, content string) Message {
	return Message{
		ID: rowID(seq), Seq: seq, Role: role, Status: StatusComplete, Content: content, Tokens: Tokens(content),
		CreatedAt: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC).Add(time.Duration(seq) * time.Minute),
	}
}

func reply(seq, to int64, content string) Message {
	m := row(seq, RoleAssistant, content)
	m.ReplyTo = rowID(to)
	return m
}

// exchange gives a user row and its reply.
func exchange(seq int64, question, answer string) []Message {
	return []Message{row(seq, RoleUser, question), reply(seq+1, seq, answer)}
}
