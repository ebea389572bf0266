package chat

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/streaming"
	"github.com/google/uuid"
)

// claimed is how long a claim keeps a call for a device, unless it is renewed.
const claimed = time.Minute

// CallAnswer answers a call that waits. Exactly one of Output, Error and Approved is set, or none beside a Claim.
type CallAnswer struct {
	MessageID uuid.UUID
	CallID    string
	Output    json.RawMessage
	Error     *string
	Approved  *bool
	Reason    string // why it was not approved
	// Claim is the device that answers, or is about to; uuid.Nil for none.
	Claim uuid.UUID
	// Whole asks for a reader of the reply from its beginning.
	Whole bool
}

// AnswerCall answers a call that waits, and returns a reader of the reply from that result on. When nothing else is open the reply goes
// on at this server. The same answer again returns a reader, too, and goes on with a reply that has stopped meanwhile.
func (s *Service) AnswerCall(ctx context.Context, user auth.Principal, answer CallAnswer) (*Reply, error) {
	arrived := time.Now()
	if !s.admit() {
		return nil, shuttingDown()
	}
	defer s.starting.Done()
	var reply LockedReply
	var taken bool
	var from int
	err := s.inTime(context.WithoutCancel(ctx), func(ctx context.Context) error {
		return s.Store.ChangeReply(ctx, user, answer.MessageID, func(found *LockedReply) (change ReplyChange, err error) {
			again := found.again()
			reply = *found
			if change, from, err = answer.decide(found); err != nil || len(change.Parts) == 0 && !found.continues() {
				return change, err
			}
			again.Parts = change.Parts
			change = again
			reply.Parts = append(slices.Clip(reply.Parts), change.Parts...)
			switch taken = goesOn(reply.Parts) && found.Status != memory.StatusStreaming; {
			case taken:
				change.Status, change.Server, change.Lease = memory.StatusStreaming, s.id, s.Lease
			case !found.Status.Open():
				change.Status, change.WaitUntil = memory.StatusAwaiting, found.Now.Add(waitsFor)
				reply.Status, reply.Until = change.Status, change.WaitUntil
			}
			return change, nil
		})
	})
	if err != nil {
		return nil, err
	}
	at := streaming.Place{Chars: reply.Parts[from].At, Parts: from}
	if answer.Whole {
		at = streaming.Place{}
	}
	if taken {
		return s.goOn(ctx, user, arrived, &reply, at), nil
	}
	if g := s.find(reply.MessageID); g != nil {
		g.show(reply.Parts)
	}
	reply.Expires = reply.Until
	return s.open(user, reply.StoredReply, at)
}

// goesOn reports whether a reply that stood still has something to do.
func goesOn(parts []memory.Part) bool { return len(openCalls(parts)) == 0 || len(runnable(parts)) > 0 }

// decide returns the parts that an answer adds, none if the same one was given before, and the place of the first.
func (a *CallAnswer) decide(reply *LockedReply) (change ReplyChange, from int, err error) {
	call, err := a.call(reply)
	if err != nil {
		return change, 0, err
	}
	parts, err := a.parts(call)
	if err != nil {
		return change, 0, err
	}
	at(utf8.RuneCountInString(reply.Content), parts)
	if n := settledAt(reply.Parts, a.CallID); n >= 0 {
		if !sameAnswer(reply.Parts[n], parts[0]) {
			return change, n, settled(reply.Parts, a.CallID)
		}
		return change, n, nil
	}
	if err := a.mayAnswer(reply); err != nil {
		return change, 0, err
	}
	return ReplyChange{Parts: parts}, len(reply.Parts), nil
}

func (a *CallAnswer) call(reply *LockedReply) (memory.Part, error) {
	n := partOf(reply.Parts, memory.PartCall, a.CallID)
	if n < 0 {
		return memory.Part{}, fault.NoCall()
	}
	return reply.Parts[n], nil
}

// parts are those of the answer: a result, an approval, or an approval that was refused and with it the result.
func (a *CallAnswer) parts(call memory.Part) ([]memory.Part, error) {
	result := memory.Part{Type: memory.PartResult, CallID: a.CallID, Status: memory.ResultDone, Output: a.Output}
	switch isClients := call.Run == memory.RunClient; {
	case a.Approved != nil && !*call.Approval:
		return nil, invalid(map[string]any{"approved": "is not asked for this call"})
	case a.Approved == nil && !isClients:
		return nil, invalid(map[string]any{"approved": "is missing: the call runs at the server"})
	case a.Error != nil:
		return []memory.Part{failedCall(a.CallID, *a.Error)}, nil
	case a.Approved == nil:
		return []memory.Part{result}, nil
	}
	approval := memory.Part{Type: memory.PartApproval, CallID: a.CallID, Approved: a.Approved, Reason: a.Reason}
	if *a.Approved {
		return []memory.Part{approval}, nil
	}
	result.Status, result.Output = memory.ResultDenied, json.RawMessage("null")
	return []memory.Part{approval, result}, nil
}

// settledAt is the place of a call's answer: an approval, or else a result; -1 for none.
func settledAt(parts []memory.Part, callID string) int {
	if n := partOf(parts, memory.PartApproval, callID); n >= 0 {
		return n
	}
	return partOf(parts, memory.PartResult, callID)
}

func sameAnswer(stored, given memory.Part) bool {
	if stored.Type == memory.PartApproval && given.Type == memory.PartApproval {
		return *stored.Approved == *given.Approved
	}
	var a, b any
	return stored.Type == given.Type && stored.Status == given.Status &&
		json.Unmarshal(stored.Output, &a) == nil && json.Unmarshal(given.Output, &b) == nil && reflect.DeepEqual(a, b)
}

// settled is the error for a call that was answered in another way. Between an approval and its result it is approved.
func settled(parts []memory.Part, callID string) error {
	status := "approved"
	if n := partOf(parts, memory.PartResult, callID); n >= 0 {
		status = string(parts[n].Status)
	}
	return fault.Settled(status)
}

// mayAnswer reports why a call without an answer cannot get this one: another device has it, or the reply has stopped for good.
func (a *CallAnswer) mayAnswer(reply *LockedReply) error {
	open := reply.Status.Open() || reply.continues()
	if !open || reply.State == nil {
		return fault.With(fault.CallSettled, "The reply has ended without this call.", map[string]any{"status": memory.ResultExpired})
	}
	if claim := reply.State.Claims[a.CallID]; claim.Device != a.Claim && claim.Until.After(reply.Now) {
		return fault.Claimed(claim.Until)
	}
	return nil
}

// continues reports whether a reply that stopped can go on in its row.
func (r *LockedReply) continues() bool {
	stopped := r.Status == memory.StatusInterrupted || r.Status == memory.StatusFailed
	return stopped && r.State != nil && len(r.State.Steps) > 0 && r.Ends && !r.Covered
}

// again returns the change with which a reply that stopped goes on after its last step, if it can: what it said since then was of a step
// that did not end, which the model makes again.
func (r *LockedReply) again() ReplyChange {
	if !r.continues() {
		return ReplyChange{}
	}
	said := []rune(r.Content)
	r.Content = string(said[:min(len(said), r.Parts[len(r.Parts)-1].At)])
	r.Metadata.Failure, r.Metadata.FinishReason = nil, ""
	return ReplyChange{Step: true, Content: r.Content, Tokens: text.Tokens(prompt.ReplyText(r.Content, r.Parts)), Metadata: r.Metadata}
}

// ClaimCall keeps an open call for a device until the time that it returns. Others cannot answer it until then.
func (s *Service) ClaimCall(ctx context.Context, user auth.Principal, answer CallAnswer) (until time.Time, err error) {
	err = s.inTime(ctx, func(ctx context.Context) error {
		return s.Store.ChangeReply(ctx, user, answer.MessageID, func(reply *LockedReply) (ReplyChange, error) {
			if _, err := answer.call(reply); err != nil {
				return ReplyChange{}, err
			}
			if settledAt(reply.Parts, answer.CallID) >= 0 {
				return ReplyChange{}, settled(reply.Parts, answer.CallID)
			}
			if err := answer.mayAnswer(reply); err != nil {
				return ReplyChange{}, err
			}
			until = reply.Now.Add(claimed)
			if reply.State.Claims == nil {
				reply.State.Claims = map[string]Claim{}
			}
			reply.State.Claims[answer.CallID] = Claim{Device: answer.Claim, Until: until}
			return ReplyChange{State: reply.State}, nil
		})
	})
	return until, err
}
