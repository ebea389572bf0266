package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory"
)

func callRoute() route {
	answers := replyAnswer(true)
	either := object{"oneOf": []object{schemaRef("WholeReply"), schemaRef(schemaName(reflect.TypeFor[callClaim]()))}}
	answers["content"].(object)[mediaJSON] = object{"schema": either}
	return route{
		method: http.MethodPost, path: "/v1/messages/{message_id}/calls/{call_id}", id: "answerCall",
		parameters: parameters("Accept", "protocol", "UI stream"),
		answers:    object{"200": answers}, limits: []limit{(*Server).limitMessages},
		endpoint: endpoint{serve: (*Server).postCall, in: reflect.TypeFor[callRequest]()},
	}
}

// callRequest is the body of an answer to a call: exactly one kind of answer, or a claim alone.
type callRequest struct {
	_        struct{}                   `description:"The answer to a call: output, error or approved. A claim may come with it, or alone."`
	Output   api.Field[json.RawMessage] `json:"output,omitzero" type:"object,array,string,number,boolean,null" doc:"callRequest.output"`
	Error    *string                    `json:"error,omitempty" nullable:"true" maxLength:"2000" description:"Why the tool has no output, for the model."`
	Approved *bool                      `json:"approved,omitempty" nullable:"true" description:"Whether the user approves the call."`
	Reason   string                     `json:"reason,omitempty" nullable:"true" maxLength:"2000" description:"Why the user approves it or does not."`
	Claim    *string                    `json:"claim,omitempty" format:"uuid" nullable:"true" doc:"callRequest.claim"`
}

// callClaim is the answer to a claim alone.
type callClaim struct {
	_            struct{}  `description:"A call that is kept for a device."`
	CallID       string    `json:"call_id"`
	ClaimedUntil time.Time `json:"claimed_until" description:"Until when no other device can answer the call."`
}

func (s *Server) postCall(c echo.Context) error {
	messageID, err := pathID(c)
	if err != nil {
		return err
	}
	var body callRequest
	if err := s.readRequest(c, &body); err != nil {
		return err
	}
	answer, err := body.answer()
	if err != nil {
		return err
	}
	answer.MessageID, answer.CallID = messageID, c.Param("call_id")
	if body.kinds() == nil {
		return s.claimCall(c, answer)
	}
	protocol, whole, err := asked(c.Request())
	if err != nil {
		return err
	}
	answer.Whole = whole // one object is always the whole reply
	open := func() (*chat.Reply, error) {
		return s.config.Chat.AnswerCall(c.Request().Context(), principal(c), answer)
	}
	return s.answerReply(c, open, s.answerAs(c, protocol, whole))
}

func (s *Server) claimCall(c echo.Context, claim chat.CallAnswer) error {
	until, err := s.config.Chat.ClaimCall(c.Request().Context(), principal(c), claim)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, callClaim{CallID: claim.CallID, ClaimedUntil: until.UTC()})
}

// kinds are the kinds of answers that the body has.
func (b *callRequest) kinds() []string {
	given := map[string]bool{"output": b.Output.Set, "error": b.Error != nil, "approved": b.Approved != nil}
	maps.DeleteFunc(given, func(_ string, set bool) bool { return !set })
	return slices.Sorted(maps.Keys(given))
}

// answer checks what no tag can say.
func (b *callRequest) answer() (answer chat.CallAnswer, err error) {
	answer = chat.CallAnswer{Error: b.Error, Approved: b.Approved, Reason: b.Reason}
	wrong := map[string]any{}
	kinds := b.kinds()
	switch {
	case len(kinds) > 1:
		wrong[kinds[1]] = "must not come with " + kinds[0]
	case kinds == nil && b.Claim == nil:
		wrong["output"] = "is missing, or error, approved or claim in its place"
	case b.Reason != "" && b.Approved == nil:
		wrong["reason"] = "is for approved"
	}
	if b.Output.Set {
		var problem string
		if answer.Output, problem = outputOf(b.Output.Value); problem != "" {
			wrong["output"] = problem
		}
	}
	if b.Claim != nil {
		if answer.Claim, err = api.ParseID(*b.Claim); err != nil || answer.Claim == uuid.Nil {
			wrong["claim"] = "must be a uuid"
		}
	}
	if len(wrong) > 0 {
		return answer, invalid(wrong)
	}
	return answer, nil
}

// outputOf returns a tool's output as it is stored; nil stands for null.
func outputOf(given *json.RawMessage) (stored json.RawMessage, problem string) {
	if given == nil {
		return json.RawMessage("null"), ""
	}
	if stored, problem = memory.StorableJSON(*given); problem == "" && len(stored) > chat.MaxOutput {
		problem = fmt.Sprintf("has %d bytes, at most %d are accepted", len(stored), chat.MaxOutput)
	}
	return stored, problem
}
