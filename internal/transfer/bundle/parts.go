package bundle

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/memory"
)

// maxParts is how many parts a reply may have in a file.
const maxParts = 2000

// toolNames are the forms of names of tools, and of calls in a reply.
var toolNames = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// checkParts checks the parts of a reply, and writes them again with the members that they may have.
func checkParts(m *Message) error {
	if err := normalize[[]any]("parts", "an array", &m.Parts, nil); err != nil || len(m.Parts) == 0 {
		return err
	}
	if m.Role != string(memory.RoleAssistant) {
		return wrong("bad_part", "only a reply has parts")
	}
	var parts []memory.Part
	if err := decode(m.Parts, &parts); err != nil {
		return wrong("wrong_type", "parts is no list of objects, or a member of one is of the wrong type")
	}
	if len(parts) > maxParts {
		return wrong("bad_part", fmt.Sprintf("there are more than %d parts", maxParts))
	}
	reply := partsOf{calls: map[string]calling{}, most: utf8.RuneCountInString(m.Content)}
	for i := range parts {
		if problem := reply.add(&parts[i]); problem != "" {
			return wrong("bad_part", fmt.Sprintf("part %d %s", i, problem))
		}
	}
	encoded, err := memory.EncodeJSON(parts)
	m.Parts = encoded
	return err
}

// partsOf is what the parts of a reply have told so far.
type partsOf struct {
	calls    map[string]calling
	at, most int
}

// calling is how far a call has come.
type calling struct{ judged, ended bool }

// add says what is wrong with the next part; "" for nothing.
func (r *partsOf) add(p *memory.Part) string {
	if p.At < r.at || p.At > r.most {
		return "has an at before the one of another, or beyond the content"
	}
	r.at = p.At
	call, known := r.calls[p.CallID]
	switch p.Type {
	case memory.PartReasoning, memory.PartSource:
		return ""
	case memory.PartCall:
		if known {
			return "has the call_id of another call"
		}
		return r.begin(p)
	case memory.PartApproval, memory.PartResult:
		if !known {
			return "is of a call that is not before it"
		}
		return r.settle(p, call)
	}
	return "is of an unknown type"
}

func (r *partsOf) begin(p *memory.Part) string {
	object := len(p.Arguments) > 0 && (p.Arguments[0] == '{' || p.Arguments[0] == '"')
	switch {
	case !toolNames.MatchString(p.CallID) || !toolNames.MatchString(p.Name):
		return "needs a call_id and a name of 1 to 64 letters, digits, _ and -"
	case !object || p.Run != memory.RunClient && p.Run != memory.RunServer:
		return "needs arguments, an object or a string, and run, client or server"
	}
	if p.Approval == nil {
		p.Approval = new(bool)
	}
	r.calls[p.CallID] = calling{}
	return ""
}

// results are the statuses of results.
var results = []memory.ResultStatus{
	memory.ResultDone, memory.ResultFailed, memory.ResultDenied, memory.ResultExpired, memory.ResultSkipped,
}

func (r *partsOf) settle(p *memory.Part, call calling) string {
	switch {
	case call.ended:
		return "follows the result of its call"
	case p.Type == memory.PartApproval && (p.Approved == nil || call.judged):
		return "lacks approved, or is the second approval of its call"
	case p.Type == memory.PartResult && !slices.Contains(results, p.Status):
		return "has an unknown status"
	}
	call.judged, call.ended = true, p.Type == memory.PartResult
	if call.ended && p.Output == nil {
		p.Output = json.RawMessage("null")
	}
	r.calls[p.CallID] = call
	return ""
}
