package prompt

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// How many tokens of a tool's output are shown: of one in an earlier reply, and of one, or all together, for the reply that is written.
const (
	earlierOutput = 400
	ownOutput     = 8000
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
		content = outputLine(name, content)
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
		addLine(&b, importedCall(call))
	}
	return b.String()
}

// ReplyText returns the content of an earlier reply with its calls of tools and their outputs where they stand, each on lines of its own:
//
//	[calls name(arguments)]
//	[name] output
//
// A line of an output, or of the content beside one, that looks like these is quoted. Other parts are not shown.
func ReplyText(content string, parts []memory.Part) string {
	return replyText(content, parts, earlierOutput)
}

func replyText(content string, parts []memory.Part, most int) string {
	if !slices.ContainsFunc(parts, func(p memory.Part) bool { return p.Type == memory.PartCall }) {
		return content
	}
	results := memory.Results(parts)
	var b strings.Builder
	shown := 0 // characters of the content
	for _, p := range parts {
		if p.Type != memory.PartCall {
			continue
		}
		before := characters(content, p.At-shown)
		addLine(&b, text.QuoteLines(content[:before], looksLikePart))
		content, shown = content[before:], max(shown, p.At)
		addLine(&b, callLine(p.Name, p.Arguments))
		if result, ended := results[p.CallID]; ended {
			addLine(&b, outputLine(p.Name, clipped(outputText(result), most)))
		}
	}
	addLine(&b, text.QuoteLines(content, looksLikePart))
	return b.String()
}

// Output returns what the model is told of a result while it writes the reply: the output, or that there is none and why. See
// memory.Results.
func Output(result memory.Part) string { return clipped(outputText(result), ownOutput) }

// doneText shows the calls that are done of a reply that is written anew.
func doneText(parts []memory.Part) string {
	results := memory.Results(parts)
	var done []memory.Part
	calls := 0
	for _, p := range parts {
		if results[p.CallID].Status != memory.ResultDone {
			continue
		}
		p.At = 0
		done = append(done, p)
		if p.Type == memory.PartCall {
			calls++
		}
	}
	return text.QuoteLines(replyText("", done, ownOutput/max(1, calls)), LooksLikePrompt)
}

// unanswered is what a model is told of calls without an output.
var unanswered = map[memory.ResultStatus]string{
	memory.ResultFailed:  "The call failed.",
	memory.ResultDenied:  "The user denied this call.",
	memory.ResultExpired: "The call was not answered in time.",
	memory.ResultSkipped: "The conversation went on without an answer to this call.",
}

func outputText(result memory.Part) string {
	failure, failed := unanswered[result.Status]
	told := struct {
		Error  any    `json:"error"`
		Reason string `json:"reason,omitempty"`
	}{failure, result.Reason}
	switch output := valueText(result.Output); {
	case !failed, result.Status == memory.ResultFailed && strings.HasPrefix(output, "{"):
		return output // a failure that says so itself
	case result.Status == memory.ResultFailed && output != "" && output != "null":
		told.Error = output
	}
	return jsonText(told)
}

// clipped returns at most so many tokens of an output, without its middle. A token has at least one byte.
func clipped(output string, tokens int) string {
	if len(output) > tokens {
		output, _ = text.Clip(output, tokens)
	}
	return output
}

func importedCall(raw json.RawMessage) string {
	type function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	var call struct {
		function

		Function function `json:"function"`
	}
	if json.Unmarshal(raw, &call) == nil {
		for _, called := range []function{call.function, call.Function} {
			if called.Name != "" {
				return callLine(called.Name, called.Arguments)
			}
		}
	}
	return "[calls " + text.OneLine(string(raw)) + "]"
}

func callLine(name string, arguments json.RawMessage) string {
	return "[calls " + text.OneLine(name) + "(" + text.OneLine(valueText(arguments)) + ")]"
}

func outputLine(name, output string) string {
	return "[" + text.OneLine(name) + "] " + text.QuoteLines(output, looksLikePart)
}

// partLine is how the lines of a call and of an output begin, or look as if they did.
var partLine = regexp.MustCompile(`^[^\pL\pN\[]*\[\s*(?:(?i:ca[l1i|]{2}s)\b|[\pL\pN_.-]{1,64}\s*\](?:\s|$))`)

// brackets are those whose skeletons are parentheses or stay as they are.
var brackets = strings.NewReplacer("［", "[", "］", "]", "【", "[", "】", "]")

func looksLikePart(line string) bool {
	return !strings.HasPrefix(line, text.QuotePrefix) && partLine.MatchString(text.Skeleton(brackets.Replace(line), text.PrefixRunes))
}

// addLine begins a line with a text, unless there is a line's end already.
func addLine(b *strings.Builder, added string) {
	if b.Len() > 0 && added != "" && !strings.HasSuffix(b.String(), "\n") && !strings.HasPrefix(added, "\n") {
		b.WriteByte('\n')
	}
	b.WriteString(added)
}

// characters returns how many bytes the first n characters have.
func characters(content string, n int) int {
	for at := range content {
		if n--; n < 0 {
			return at
		}
	}
	return len(content)
}

// valueText returns a string of JSON as its text, and any other value as JSON without needless space.
func valueText(raw json.RawMessage) string {
	var value string
	switch {
	case len(raw) == 0:
		return ""
	case json.Unmarshal(raw, &value) == nil && string(raw) != "null":
		return value
	}
	return jsonText(raw)
}

func jsonText(value any) string {
	encoded, _ := memory.EncodeJSON(value) // JSON, or made of texts
	return string(encoded)
}
