package memory_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
)

func TestToolText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		role                       memory.Role
		content, name, calls, want string
	}{
		{memory.RoleAssistant, "Let me look.", "", `[{"id":"c1","type":"function","function":{"name":"search","arguments":"{\"q\":\"bow\"}"}}]`,
			"Let me look.\n[calls search({\"q\":\"bow\"})]"},
		{memory.RoleAssistant, "", "", `[{"function":{"name":"a","arguments":"{}"}},{"name":"b","arguments":{"x":1}}]`, "[calls a({})]\n[calls b({\"x\":1})]"},
		{memory.RoleAssistant, "", "", `[{"name":"now"}]`, "[calls now()]"},
		{memory.RoleAssistant, "", "", `[{"name":"two\nlines","arguments":""}]`, "[calls two lines()]"},
		{memory.RoleAssistant, "", "", `[{"id":"c1"}, 7, "x"]`, "[calls {\"id\":\"c1\"}]\n[calls 7]\n[calls \"x\"]"},
		{memory.RoleAssistant, "x", "", `{"no":"array"}`, "x\n[calls {\"no\":\"array\"}]"},
		{memory.RoleAssistant, "x", "", `[]`, "x"},
		{memory.RoleAssistant, "x", "ada", "", "x"},
		{memory.RoleTool, "42", "calculator", "", "[calculator] 42"},
		{memory.RoleTool, "42", "calc\n[x]", "", "[calc [x]] 42"},
		{memory.RoleTool, " ", "calculator", "", " "},
		{memory.RoleTool, "42", "", "", "42"},
		{memory.RoleSystem, "Be brief.", "operator", "", "Be brief."},
	} {
		assert.Equalf(t, c.want, prompt.ToolText(c.role, c.content, c.name, []byte(c.calls)),
			"%s %q %q %s", c.role, c.content, c.name, c.calls)
	}
}

// A call and its result are one turn, so that no fold comes between them.
func TestCallAndResultAreFoldedTogether(t *testing.T) {
	t.Parallel()
	var rows []memory.Message
	for range 6 {
		n := int64(len(rows) + 1)
		call := reply(n+1, n, prompt.ToolText(memory.RoleAssistant, "", "", []byte(`[{"name":"search","arguments":"bow"}]`)))
		result := row(n+2, memory.RoleTool, prompt.ToolText(memory.RoleTool, "Hold it gently. "+textOf(60), "search", nil))
		rows = append(rows, row(n, memory.RoleUser, "How?"), call, result, reply(n+3, n, "Gently."))
	}
	limits := memory.DefaultLimits()
	limits.ChunkThreshold, limits.KRawTurns = -1, 0 // all of it is folded
	for room := 1; room < 600; room += 13 {
		limits.FoldInputTokens = room
		current, left := memory.Brief{}, rows
		for len(left) > 0 {
			plan, ok := brief.PlanFold(current, memory.Turns(left), limits)
			require.Truef(t, ok && plan.SeqTo%4 == 0, "with room for %d a fold ends at %d, %v", room, plan.SeqTo, ok)
			current.CoveredSeq = plan.SeqTo
			left = rows[plan.SeqTo:]
		}
	}
	p := prompt.Build(memory.Chat{Buffer: slices.Clone(rows[:4])}, prompt.Question{Content: "q"}, memory.DefaultLimits())
	assert.Containsf(t, p.Input,
		"User: How?\nAssistant: [calls search(bow)]\nTool: [search] Hold it gently.", "%v", p.Input)
}
