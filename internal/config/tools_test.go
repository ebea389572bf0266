package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/chat"
)

// toolsIn is an environment with these tools in a file, and the key of one.
func toolsIn(t *testing.T, contents string) environment {
	path := filepath.Join(t.TempDir(), "tools.json")
	require.NoError(t, os.WriteFile(path, []byte(contents), 0o600))
	return environment{"TOOLS_FILE": path, "TAXI_KEY": "hunter2"}
}

func TestToolsFile(t *testing.T) {
	t.Parallel()
	e := toolsIn(t, `{"tools": [
		{"name": "order_taxi", "description": "Orders a taxi.", "parameters": {}, "strict": true, "url": "https://abc.supabase.co/functions/v1/taxi",
		 "approval": true, "timeout": "60s", "variants": ["arco", "deep-dive"], "headers": {"apikey": "env:TAXI_KEY"}},
		{"name": "map", "url": "http://127.0.0.1:8000/map?layer=1", "parameters": {"type": "object"}}]}`)
	none := json.RawMessage(`{"type":"object","properties":{},"required":[],"additionalProperties":false}`)
	assert.Equal(t, []chat.ServerTool{
		{Function: chat.Function{Name: "order_taxi", Description: "Orders a taxi.", Parameters: none, Strict: true}, Approval: true,
			Variants: []string{"arco", "deep-dive"}, URL: "https://abc.supabase.co/functions/v1/taxi", Timeout: time.Minute,
			Headers: map[string]string{"apikey": "hunter2"}},
		{Function: chat.Function{Name: "map", Parameters: json.RawMessage(`{"type": "object"}`)}, URL: "http://127.0.0.1:8000/map?layer=1",
			Timeout: 10 * time.Second, Headers: map[string]string{}},
	}, parse(t, e, false).Tools)
	assert.Empty(t, parse(t, toolsIn(t, `{"tools": []}`), false).Tools)
}

func TestWrongToolsFiles(t *testing.T) {
	t.Parallel()
	tool := func(members string) string {
		return `{"tools": [{"name": "taxi", "url": "https://a.example"` + members + `}]}`
	}
	many := strings.Repeat(`{"url": "https://a.example"},`, 33)
	for contents, want := range map[string]string{
		``:                                       "names an empty file",
		`tools`:                                  `must name a file with {"tools": […]}: is no JSON`,
		`{}`:                                     `must name a file with {"tools": […]}: tools is missing`,
		`{"tools": {}}`:                          `must name a file with {"tools": […]}: tools has a wrong type`,
		`{"tools": [], "more": 1}`:               `must name a file with {"tools": […]}: has an unknown member "more"`,
		`{"tools": []} {}`:                       `must name a file with {"tools": […]}: has something after its end`,
		`{"tools": [1]}`:                         "has a wrong tool, tools[0]: it has a wrong type",
		`{"tools": [{"url": "https://a.b"}]}`:    "has a wrong tool, tools[0]: name must be 1 to 64 letters",
		`{"tools": [{"name": "taxi"}]}`:          "has a wrong tool, taxi: url must be",
		tool(`, "url": "ftp://a.example"`):       "has a wrong tool, taxi: url must be",
		tool(`, "url": "/taxi"`):                 "has a wrong tool, taxi: url must be",
		tool(`, "url": "https://me:hunter2@a"`):  "has a wrong tool, taxi: url must be",
		tool(`}, {"name": "taxi", "url": "h:"`):  "has a wrong tool, taxi: name is that of a tool before it",
		tool(`, "mcp": true`):                    `has a wrong tool, taxi: has an unknown member "mcp"`,
		tool(`, "approval": "hunter2"`):          "has a wrong tool, taxi: approval has a wrong type",
		tool(`, "timeout": "61s"`):               "has a wrong tool, taxi: timeout must be",
		tool(`, "timeout": "0s"`):                "has a wrong tool, taxi: timeout must be",
		tool(`, "timeout": "10"`):                "has a wrong tool, taxi: timeout must be",
		tool(`, "variants": ["arcade"]`):         `has a wrong tool, taxi: variants names "arcade", which is no model variant`,
		tool(`, "parameters": {"type": "list"}`): "has a wrong tool, taxi: parameters must be a JSON schema",
		tool(`, "parameters": {"type": "object"}, "strict": true`): "has a wrong tool, taxi: parameters is not strict",
		tool(`, "headers": {"apikey": "hunter2"}`):                 `has a wrong tool, taxi: headers has "apikey", whose value must be env:`,
		tool(`, "headers": {"apikey": "env:NO_KEY"}`):              `has a wrong tool, taxi: headers has "apikey", for which NO_KEY must be set`,
		tool(`, "headers": {"host": "env:TAXI_KEY"}`):              `has a wrong tool, taxi: headers has "host", which is no header that a tool may choose`,
		tool(`, "headers": {"idempotency-key": "env:TAXI_KEY"}`):   `has a wrong tool, taxi: headers has "idempotency-key", which is no header`,
		tool(`, "headers": {"a key": "env:TAXI_KEY"}`):             `has a wrong tool, taxi: headers has "a key", which is no header`,
		`{"tools": [` + many[:len(many)-1] + `]}`:                  "has 33 tools of",
	} {
		found := problems(t, toolsIn(t, contents))
		said := fmt.Sprint(found)
		assert.Contains(t, said, "TOOLS_FILE "+want, contents)
		assert.NotContains(t, said, "hunter2", contents)
	}
}
