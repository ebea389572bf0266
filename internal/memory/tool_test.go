package memory

import (
	"slices"
	"strings"
	"testing"
)

func TestToolText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		role                       Role
		content, name, calls, want string
	}{
		{RoleAssistant, "Let me look.", "", `[{"id":"c1","type":"function","function":{"name":"search","arguments":"{\"q\":\"bow\"}"}}]`, "Let me look.\n[calls search({\"q\":\"bow\"})]"},
		{RoleAssistant, "", "", `[{"function":{"name":"a","arguments":"{}"}},{"name":"b","arguments":{"x":1}}]`, "[calls a({})]\n[calls b({\"x\":1})]"},
		{RoleAssistant, "", "", `[{"name":"now"}]`, "[calls now()]"},
		{RoleAssistant, "", "", `[{"name":"two\nlines","arguments":""}]`, "[calls two lines()]"},
		{RoleAssistant, "", "", `[{"id":"c1"}, 7, "x"]`, "[calls {\"id\":\"c1\"}]\n[calls 7]\n[calls \"x\"]"},
		{RoleAssistant, "x", "", `{"no":"array"}`, "x\n[calls {\"no\":\"array\"}]"},
		{RoleAssistant, "x", "", `[]`, "x"},
		{RoleAssistant, "x", "ada", "", "x"},
		{RoleTool, "42", "calculator", "", "[calculator] 42"},
		{RoleTool, "42", "calc\n[x]", "", "[calc [x]] 42"},
		{RoleTool, " ", "calculator", "", " "},
		{RoleTool, "42", "", "", "42"},
		{RoleSystem, "Be brief.", "operator", "", "Be brief."},
	} {
		if got := ToolText(c.role, c.content, c.name, []byte(c.calls)); got != c.want {
			t.Errorf("%s %q %q %s: %q, want %q", c.role, c.content, c.name, c.calls, got, c.want)
		}
	}
}

// A call and what came of it are one turn, so that no fold comes between them.
func TestCallAndResultAreFoldedTogether(t *testing.T) {
	t.Parallel()
	var rows []Message
	for range 6 {
		n := int64(len(rows) + 1)
		call := reply(n+1, n, ToolText(RoleAssistant, "", "", []byte(`[{"name":"search","arguments":"bow"}]`)))
		result := row(n+2, RoleTool, ToolText(RoleTool, "Hold it gently. "+textOf(60), "search", nil))
		rows = append(rows, row(n, RoleUser, "How?"), call, result, reply(n+3, n, "Gently."))
	}
	limits := DefaultLimits().For(Settings{Expired: true})
	for room := 1; room < 600; room += 13 {
		limits.FoldInputTokens = room
		brief, left := Brief{}, rows
		for len(left) > 0 {
			plan, ok := PlanFold(brief, Turns(left), limits)
			if !ok || plan.SeqTo%4 != 0 {
				t.Fatalf("with room for %d a fold ends at %d, %v", room, plan.SeqTo, ok)
			}
			brief.CoveredSeq = plan.SeqTo
			left = rows[plan.SeqTo:]
		}
	}
	p := Build(Chat{Turns: Turns(slices.Clone(rows[:4]))}, Question{Content: "q"}, DefaultLimits())
	if want := "User: How?\nAssistant: [calls search(bow)]\nTool: [search] Hold it gently."; !strings.Contains(p.Input, want) {
		t.Error(p.Input)
	}
}
