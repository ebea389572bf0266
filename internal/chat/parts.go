package chat

import (
	"encoding/json"
	"slices"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/streaming"
)

func callsOf(parts []memory.Part) []memory.Part {
	return slices.DeleteFunc(slices.Clone(parts), func(p memory.Part) bool { return p.Type != memory.PartCall })
}

// partOf returns the place of a call's part of a type; -1 for none.
func partOf(parts []memory.Part, kind memory.PartType, callID string) int {
	return slices.IndexFunc(parts, func(p memory.Part) bool { return p.Type == kind && p.CallID == callID })
}

// openCalls are those without a result.
func openCalls(parts []memory.Part) []memory.Part {
	return slices.DeleteFunc(callsOf(parts), func(call memory.Part) bool { return partOf(parts, memory.PartResult, call.CallID) >= 0 })
}

// runnable are the open calls that a server may make now.
func runnable(parts []memory.Part) []memory.Part {
	return slices.DeleteFunc(openCalls(parts), func(call memory.Part) bool {
		return call.Run != memory.RunServer || *call.Approval && partOf(parts, memory.PartApproval, call.CallID) < 0
	})
}

// failedCall is the result of a call that was not made, or broke.
func failedCall(callID, problem string) memory.Part {
	output, _ := json.Marshal(map[string]string{"error": problem}) // strings can be encoded
	return memory.Part{Type: memory.PartResult, CallID: callID, Status: memory.ResultFailed, Output: output}
}

// withoutResult ends calls whose result will not come.
func withoutResult(calls []memory.Part, status memory.ResultStatus) (results []memory.Part) {
	for _, call := range calls {
		results = append(results, memory.Part{Type: memory.PartResult, CallID: call.CallID, Status: status, Output: json.RawMessage("null")})
	}
	return results
}

// fill adds to a relay the stored text of a reply after that many characters, with the parts that the relay does not have.
func fill(relay *streaming.Relay, content string, chars int, parts []memory.Part) {
	runes := []rune(content)
	for _, part := range parts[min(len(parts), len(relay.Parts())):] {
		n := min(max(part.At-chars, 0), len(runes))
		relay.Append(string(runes[:n]))
		relay.AddPart(part)
		runes, chars = runes[n:], chars+n
	}
	relay.Append(string(runes))
}
