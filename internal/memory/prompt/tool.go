package prompt

import (
	"encoding/json"
	"strings"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// ToolText returns the content of a message with its tool calls, or the name of the tool, as part of the text:
//
//	assistant  the content, then a line "[calls name(arguments)]" for each call
//	tool       "[name] " and the content
//
// toolCalls is a JSON array in the form of OpenAI's APIs: {"function": {"name", "arguments"}} or {"name",
// "arguments"}, arguments a string or a value. Anything else is shown as it is.
func ToolText(role memory.Role, content, name string, toolCalls []byte) string {
	if role == memory.RoleTool && name != "" && strings.TrimSpace(content) != "" {
		content = "[" + text.OneLine(name) + "] " + content
	}
	if len(toolCalls) == 0 {
		return content
	}
	var calls []json.RawMessage
	if json.Unmarshal(toolCalls, &calls) != nil {
		calls = []json.RawMessage{toolCalls}
	}
	var b strings.Builder
	b.WriteString(content)
	for _, call := range calls {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString("[calls " + callText(call) + "]")
	}
	return b.String()
}

func callText(raw json.RawMessage) string {
	type function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	var call struct {
		function

		Function function `json:"function"`
	}
	if json.Unmarshal(raw, &call) != nil {
		return string(raw)
	}
	called := call.function
	if called.Name == "" {
		called = call.Function
	}
	if called.Name == "" {
		return string(raw)
	}
	return text.OneLine(called.Name) + "(" + argumentsText(called.Arguments) + ")"
}

func argumentsText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}
