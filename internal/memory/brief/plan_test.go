package brief

import (
	"testing"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
)

func TestLastSummarizedOfATurn(t *testing.T) {
	t.Parallel()
	row := func(last byte, role memory.Role, content string) memory.Message {
		return memory.Message{ID: uuid.UUID{15: last}, Role: role, Content: content}
	}
	question, reply, tool := row(1, memory.RoleUser, "q"), row(2, memory.RoleAssistant, "a"), row(3, memory.RoleTool, "t")
	later, blank := row(4, memory.RoleAssistant, "b"), row(2, memory.RoleAssistant, "")
	for name, c := range map[string]struct {
		rows []memory.Message
		want uuid.UUID
	}{
		"its reply":                     {[]memory.Message{question, reply}, reply.ID},
		"its last reply":                {[]memory.Message{question, reply, tool, later, row(5, memory.RoleTool, "u")}, later.ID},
		"the question without a reply":  {[]memory.Message{question}, question.ID},
		"the question of a blank reply": {[]memory.Message{question, blank}, question.ID},
		"the last row of neither":       {[]memory.Message{tool, row(6, memory.RoleTool, "u")}, uuid.UUID{15: 6}},
		"nothing of nothing":            {nil, uuid.Nil},
	} {
		assert.Equalf(t, c.want, lastSummarized(memory.Turn{Messages: c.rows}), "%s", name)
	}
}
