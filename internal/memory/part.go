package memory

import (
	"cmp"
	"encoding/json"
)

// PartType is what a part of a reply is.
type PartType string

// The types of parts.
const (
	PartReasoning PartType = "reasoning"
	PartCall      PartType = "tool_call"
	PartApproval  PartType = "tool_approval"
	PartResult    PartType = "tool_result"
	PartSource    PartType = "source"
)

// Where a tool runs.
const (
	RunClient = "client"
	RunServer = "server"
)

// ResultStatus is how a call of a tool ended.
type ResultStatus string

// The statuses of results.
const (
	ResultDone    ResultStatus = "done"
	ResultFailed  ResultStatus = "failed"
	ResultDenied  ResultStatus = "denied"  // by the user
	ResultExpired ResultStatus = "expired" // it waited too long
	ResultSkipped ResultStatus = "skipped" // the conversation went on without it
)

// Part is something that a reply holds beside its text. The parts of a reply are a list to which is only added. Which fields are set
// depends on the type.
type Part struct {
	_    struct{} `description:"What a reply holds beside its text: reasoning, a call of a tool, the user's word about it, its result, a source."`
	Type PartType `json:"type" enum:"reasoning,tool_call,tool_approval,tool_result,source"`
	At   int      `json:"at" description:"Characters (Unicode code points) of the reply's text before it."`

	Text string `json:"text,omitempty" description:"Of reasoning: a part of its summary."`

	// CallID is new in the reply for a call, and names the call of an approval and of a result.
	CallID    string          `json:"call_id,omitempty" description:"Of a call, and of what belongs to it."`
	Name      string          `json:"name,omitempty" description:"Of a call: the tool's."`
	Arguments json.RawMessage `json:"arguments,omitempty" type:"object,string" description:"Of a call; a string where the model wrote no JSON object."`
	Run       string          `json:"run,omitempty" enum:"client,server" description:"Of a call: where the tool runs."`
	Approval  *bool           `json:"approval,omitempty" nullable:"false" description:"Of a call: whether the user has to approve it."`

	Approved *bool  `json:"approved,omitempty" nullable:"false" description:"Of an approval."`
	Reason   string `json:"reason,omitempty" description:"Of an approval: why it was not given."`

	Status    ResultStatus    `json:"status,omitempty" enum:"done,failed,denied,expired,skipped" description:"Of a result: how the call ended."`
	Output    json.RawMessage `json:"output,omitempty" type:"object,array,string,number,boolean,null" description:"Of a result: any JSON."`
	Truncated bool            `json:"truncated,omitempty" description:"Of a result: whether the middle of the output is left out."`

	URL   string `json:"url,omitempty" description:"Of a source."`
	Title string `json:"title,omitempty" description:"Of a source."`
}

// ReadParts decodes the parts of a row. Those of another form, which only somebody's SQL writes, are none.
func ReadParts(stored []byte) []Part {
	var parts []Part
	if len(stored) == 0 || json.Unmarshal(stored, &parts) != nil {
		return nil
	}
	return parts
}

// Results returns the results of a reply by their calls. One that was denied has the reason of its approval.
func Results(parts []Part) map[string]Part {
	results, reasons := map[string]Part{}, map[string]string{}
	for _, p := range parts {
		switch p.Type {
		case PartApproval:
			reasons[p.CallID] = p.Reason
		case PartResult:
			p.Reason = cmp.Or(p.Reason, reasons[p.CallID])
			results[p.CallID] = p
		case PartReasoning, PartCall, PartSource:
		}
	}
	return results
}
