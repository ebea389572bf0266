package chat

import (
	"context"
	"errors"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"golang.org/x/sync/errgroup"
)

// waitsFor is how long a reply waits for its user.
const waitsFor = 24 * time.Hour

// errTaken reports that this server generates the reply no more: it ended, or goes on at another one.
var errTaken = errors.New("the reply is not this server's any more")

// change stores what becomes of a reply that this server generates, also after the end of its context, and shows the new parts to its
// readers.
func (s *Service) change(ctx context.Context, g *generation, what func(*LockedReply) ReplyChange) error {
	ctx, cancel := s.saveContext(context.WithoutCancel(ctx))
	defer cancel()
	var stored []memory.Part
	err := s.patiently(ctx, func(ctx context.Context) error {
		return s.Store.ChangeReply(ctx, g.user, g.started.MessageID, func(reply *LockedReply) (ReplyChange, error) {
			if reply.Status != memory.StatusStreaming || reply.Server != s.id {
				return ReplyChange{}, errTaken
			}
			change := what(reply)
			if !change.Step { // whose parts stand at the end of its own text: less of it may be recorded
				at(utf8.RuneCountInString(reply.Content), change.Parts)
			}
			stored = slices.Concat(reply.Parts, change.Parts)
			return change, nil
		})
	})
	if err == nil {
		g.show(stored)
	}
	return err
}

// recordStep stores a step that called tools, before any of them runs.
func (s *Service) recordStep(ctx context.Context, g *generation, result *ModelResult, parts []memory.Part) error {
	content, _ := g.relay.Text()
	earlier := g.relay.Parts()
	step := ReplyChange{
		Step: true, Content: content, Tokens: text.Tokens(prompt.ReplyText(content, slices.Concat(earlier, parts))),
		Metadata: g.metadata(*result), Parts: parts, Spent: g.spent(*result, nil),
	}
	g.state.Steps = append(g.state.Steps, result.Items)
	step.State = &g.state
	err := s.change(ctx, g, func(reply *LockedReply) ReplyChange {
		if len(reply.Parts) > len(earlier) { // it was committed, and only the answer was lost
			return ReplyChange{}
		}
		return step
	})
	g.usage, g.charged = g.usage.Plus(result.Usage), false
	return err
}

// settle runs the server's tools. It returns when every call has its result, or when the reply waits for its user.
func (s *Service) settle(ctx context.Context, g *generation) (waits bool, err error) {
	for {
		parts := g.relay.Parts()
		calls := runnable(parts)
		switch {
		case len(openCalls(parts)) == 0:
			return false, nil
		case len(calls) > 0:
			err = s.runCalls(ctx, g, calls)
		default:
			waits, err = s.await(ctx, g)
		}
		if waits || err != nil {
			return waits, err
		}
	}
}

// await lets the reply wait for its user, unless what it waits for has come.
func (s *Service) await(ctx context.Context, g *generation) (waits bool, err error) {
	err = s.change(ctx, g, func(reply *LockedReply) ReplyChange {
		waits = len(openCalls(reply.Parts)) > 0 && len(runnable(reply.Parts)) == 0
		if !waits {
			return ReplyChange{}
		}
		return ReplyChange{Status: memory.StatusAwaiting, WaitUntil: reply.Now.Add(waitsFor)}
	})
	return waits, err
}

// runCalls runs tools side by side. Each result is stored when it comes.
func (s *Service) runCalls(ctx context.Context, g *generation, calls []memory.Part) error {
	group, running := errgroup.WithContext(ctx)
	group.SetLimit(callsAtOnce)
	for _, call := range calls {
		group.Go(func() error {
			result, err := s.runCall(running, g, call)
			if err != nil {
				return err
			}
			return s.change(ctx, g, func(reply *LockedReply) ReplyChange {
				if partOf(reply.Parts, memory.PartResult, call.CallID) >= 0 {
					return ReplyChange{}
				}
				return ReplyChange{Parts: []memory.Part{result}}
			})
		})
	}
	return group.Wait()
}

func (s *Service) runCall(ctx context.Context, g *generation, call memory.Part) (memory.Part, error) {
	tool := s.serverTool(call.Name)
	if tool == nil {
		return failedCall(call.CallID, "There is no such tool any more."), nil
	}
	result, err := s.Runner.Run(ctx, tool, ToolRun{
		Arguments: call.Arguments, Token: g.user.Token, Key: g.started.MessageID.String() + ":" + call.CallID,
	})
	if cause := context.Cause(ctx); cause != nil && err != nil {
		err = cause
	}
	result.Type, result.CallID = memory.PartResult, call.CallID
	return result, err
}
