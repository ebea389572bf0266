package offline

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
)

// Item is a part of what the model says in one step: a Text, a Call or a Reasoning.
type Item interface{ isItem() }

// Text is a message.
type Text struct {
	Text string
	// Phase is "commentary" or "final_answer", which newer models say and want back; "" for none.
	Phase string
}

// Call is a call of a tool, offered or not.
type Call struct {
	Name string
	// Arguments are sent as they are if they are a string, also if that is no JSON, and as JSON otherwise; nil is an empty object.
	Arguments any
	CallID    string // "" for a new one
}

// Reasoning is a reasoning item with the parts of its summary.
type Reasoning struct{ Summary []string }

func (Text) isItem()      {}
func (Call) isItem()      {}
func (Reasoning) isItem() {}

// Says is an answer of these items.
func Says(items ...Item) Answer { return Answer{Items: items} }

// The types of items on the wire.
const (
	kindMessage   = "message"
	kindCall      = "function_call"
	kindOutput    = "function_call_output"
	kindReasoning = "reasoning"
)

// output is an item as it is sent.
type output struct {
	id, kind     string
	text         string   // of a message; the arguments of a call
	pieces       []string // of a message's text
	phase        string
	callID, name string
	summary      []string
	sealed       string // what comes back of reasoning; "" where it was not asked for
}

func (s *Server) newOutput(r *Request, id string, item Item) *output {
	switch item := item.(type) {
	case Call:
		o := &output{id: "fc_" + id, kind: kindCall, text: "{}", callID: item.CallID, name: item.Name}
		if o.callID == "" {
			o.callID = "call_" + id
		}
		if written, ok := item.Arguments.(string); ok {
			o.text = written
		} else if item.Arguments != nil {
			o.text = string(mustJSON(item.Arguments))
		}
		return o
	case Reasoning:
		o := &output{id: "rs_" + id, kind: kindReasoning, summary: item.Summary}
		if slices.Contains(r.Include, includeReasoning) {
			o.sealed = s.seal()
		}
		return o
	case Text:
		return &output{id: "msg_" + id, kind: kindMessage, text: item.Text, pieces: splitPieces(item.Text), phase: item.Phase}
	}
	panic("an item of a step is a Text, a Call or a Reasoning")
}

var argumentPiece = regexp.MustCompile(`(?s).{1,7}`)

func argumentPieces(arguments string) []string { return argumentPiece.FindAllString(arguments, -1) }

// What is sealed begins as the provider's does, so that the text in it is not taken for one that can be read.
const sealPrefix = "gAAAAA"

// seal makes the encrypted content of a reasoning item: only what this server sealed does it take back.
func (s *Server) seal() string {
	nonce := rand.Text()
	return sealPrefix + nonce + s.signature(nonce)
}

func (s *Server) sealed(content string) bool {
	rest, ok := strings.CutPrefix(content, sealPrefix)
	nonce := rest[:min(len(rest), len(rand.Text()))]
	return ok && rest == nonce+s.signature(nonce)
}

func (s *Server) signature(nonce string) string {
	mac := hmac.New(sha256.New, []byte(s.idPrefix))
	_, _ = mac.Write([]byte(nonce)) // never fails, by its documentation
	return hex.EncodeToString(mac.Sum(nil))
}
