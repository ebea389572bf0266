package chat

import (
	"context"
	"encoding/json"
	"time"

	"github.com/arcoscribe/throughline/internal/memory"
)

// Limits of tools.
const (
	MaxTools      = 32       // of one message
	MaxToolsBytes = 64 << 10 // of their declarations, as JSON
	MaxOutput     = 64 << 10 // of a stored result, as JSON
	maxSteps      = 8        // with tools; one without may follow
	maxCalls      = 32       // of one reply
	callsAtOnce   = 8
)

// Function is what the model is told of a tool.
type Function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"` // a JSON schema of an object
	Strict      bool            `json:"strict"`     // whether the model is held to the schema
}

// ServerTool is a tool that this server calls: an entry of TOOLS_FILE.
type ServerTool struct {
	Function

	Approval bool     // whether the user has to approve each call
	Variants []string // that have the tool; empty for all
	URL      string
	Timeout  time.Duration // of one try
	Headers  map[string]string
}

// Runner calls tools of the server.
type Runner interface {
	// Run calls a tool and returns how that ended: done or failed, with an output. It sends the user's own token, and the key, which is
	// the same in each try and after a crash. It never follows a redirect. An error means that ctx ended before the tool did.
	Run(ctx context.Context, tool *ServerTool, call ToolRun) (memory.Part, error)
}

// ToolRun is one call of a tool of the server.
type ToolRun struct {
	Arguments json.RawMessage
	Token     string // the user's
	Key       string // Idempotency-Key
}

// ToolChoice is whether the model has to call a tool.
type ToolChoice string

// The choices.
const (
	ChoiceAuto     ToolChoice = "auto"
	ChoiceNone     ToolChoice = "none"
	ChoiceRequired ToolChoice = "required"
)

// Item is a part of what a model said in one call, in the form in which it is given back to it with the results. A wire that has no place
// for a member leaves it out.
type Item struct {
	Type ItemType `json:"type"`

	// Text and Phase are of a message.
	Text  string `json:"text,omitempty"`
	Phase string `json:"phase,omitempty"`

	// Of a call. Arguments are as the model wrote them.
	CallID    string `json:"call_id,omitempty"`
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments,omitempty"`

	// Of reasoning: the parts of its summary, and what only the provider can read.
	Summary   []string `json:"summary,omitempty"`
	Encrypted string   `json:"encrypted,omitempty"`
}

// ItemType is what an Item is.
type ItemType string

// The types of items.
const (
	ItemMessage   ItemType = "message"
	ItemCall      ItemType = "function_call"
	ItemReasoning ItemType = "reasoning"
)

// Source is a citation of a model.
type Source struct{ URL, Title string }

// ModelStep is an earlier call for the same reply: what the model said, and an output for each of its calls.
type ModelStep struct {
	Items   []Item
	Outputs []ModelOutput
}

// ModelOutput is what the model is told of a call.
type ModelOutput struct{ CallID, Output string }
