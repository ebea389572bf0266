package chat

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/streaming"
)

// fakeRunner runs tools of the server as a test says.
type fakeRunner struct {
	run func(ctx context.Context, tool *ServerTool, call ToolRun) (memory.Part, error)

	mu  sync.Mutex
	ran []ToolRun
}

func (r *fakeRunner) Run(ctx context.Context, tool *ServerTool, call ToolRun) (memory.Part, error) {
	r.mu.Lock()
	r.ran = append(r.ran, call)
	r.mu.Unlock()
	return r.run(ctx, tool, call)
}

func (r *fakeRunner) runs() []ToolRun { return copied(&r.mu, &r.ran) }

// giving gives an output at once.
func giving(output string) func(context.Context, *ServerTool, ToolRun) (memory.Part, error) {
	return func(context.Context, *ServerTool, ToolRun) (memory.Part, error) {
		return memory.Part{Status: memory.ResultDone, Output: json.RawMessage(output)}, nil
	}
}

// withTools gives a service the server's tools roll, without approval, and order, with one.
func withTools(runner *fakeRunner) func(*Config) {
	return func(c *Config) {
		closed := json.RawMessage(`{"type":"object","properties":{}}`)
		c.Runner = runner
		c.Tools = []ServerTool{
			{Function: Function{Name: "roll", Parameters: closed}},
			{Function: Function{Name: "order", Parameters: closed}, Approval: true},
		}
	}
}

var photo = []ToolDeclaration{
	{Type: "function", Name: "photo", Parameters: json.RawMessage(`{"type":"object","properties":{}}`)},
	{Type: "server", Name: "roll"}, {Type: "server", Name: "order"},
}

// saying makes a step of texts, and calls such as `roll {"sides":6}`.
func saying(text string, calls ...Item) func(context.Context) (ModelStream, error) {
	return func(ctx context.Context) (ModelStream, error) {
		s := newScriptedReply()
		s.result = &ModelResult{Model: "gpt-exact-1", FinishReason: "stop", Usage: streaming.Usage{InputTokens: 5, OutputTokens: 2}}
		if text != "" {
			s.emit(text)
			s.result.Items = append(s.result.Items, Item{Type: ItemMessage, Text: text})
		}
		for _, call := range calls {
			s.result.FinishReason = "tool_calls"
			s.result.Items = append(s.result.Items, call)
		}
		s.finish()
		return s.stream(ctx)
	}
}

func calling(name, id, arguments string) Item {
	return Item{Type: ItemCall, Name: name, CallID: id, Arguments: arguments}
}

// inTurn answers one call after another.
func (m *fakeModel) inTurn(steps ...func(context.Context) (ModelStream, error)) {
	n := 0
	m.setAnswer(func(ctx context.Context) (ModelStream, error) {
		n++
		return steps[min(n, len(steps))-1](ctx)
	})
}

// readParts reads a reply to its end.
func readParts(t *testing.T, reply *Reply) (text string, parts []memory.Part, end streaming.Terminal) {
	for {
		chunk, err := reply.Next(t.Context())
		require.NoErrorf(t, err, "after %q", text)
		if chunk.End != nil {
			return text, parts, *chunk.End
		}
		if text += string(chunk.Text); chunk.Part != nil {
			parts = append(parts, *chunk.Part)
		}
	}
}

// kinds are the types and states of parts, in a word each.
func kinds(parts []memory.Part) (all []string) {
	for _, part := range parts {
		word := string(part.Type)
		if part.Status != "" {
			word += " " + string(part.Status)
		}
		all = append(all, word)
	}
	return all
}

func TestAToolOfTheServerRuns(t *testing.T) {
	t.Parallel()
	runner := &fakeRunner{run: giving("4")}
	inService(t, func(t *testing.T, svc *testService) {
		svc.model.inTurn(saying("Let me roll.", calling("roll", "c1", `{"sides":6}`)), saying("It is a four."))
		reply := svc.send(t, Message{Content: "Roll!", ToolChoice: ChoiceRequired})
		text, parts, end := readParts(t, reply)
		assert.Equal(t, "Let me roll.\n\nIt is a four.", text)
		assert.Equal(t, []string{"tool_call", "tool_result done"}, kinds(parts))
		assert.Equal(t, []int{12, 12}, []int{parts[0].At, parts[1].At})
		assert.Equal(t, streaming.Usage{InputTokens: 10, OutputTokens: 4}, end.Completed.Usage)
		assert.Equal(t, 2, end.Completed.Parts)
		assert.Equal(t, []ToolRun{{Arguments: json.RawMessage(`{"sides":6}`), Key: reply.Started.MessageID.String() + ":c1"}}, runner.runs())

		asked := svc.model.requests()
		assert.Equal(t, []ToolChoice{ChoiceRequired, ChoiceAuto}, []ToolChoice{asked[0].Choice, asked[1].Choice})
		require.Len(t, asked[1].Steps, 1)
		assert.Equal(t, []ModelOutput{{CallID: "c1", Output: "4"}}, asked[1].Steps[0].Outputs)
		saved := svc.store.savedReplies()[0]
		assert.Equal(t, parts, saved.Parts)
		assert.NotEqual(t, svc.store.charged[0].ID, saved.Spent.ID, "each step is charged")
	}, withTools(runner))
}

func TestACallOfAClientWaits(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		svc.model.inTurn(saying("Let me look: ", calling("photo", "c1", `{}`)), saying("A nice cat."))
		first := svc.send(t, Message{Content: "What is this?", Tools: &photo})
		text, parts, end := readParts(t, first)
		require.NotNil(t, end.Awaiting)
		assert.Equal(t, []streaming.OpenCall{{CallID: "c1", Name: "photo", Run: memory.RunClient}}, end.Awaiting.Open)
		assert.Equal(t, time.Now().Add(waitsFor), end.Awaiting.ExpiresAt)
		assert.Equal(t, []string{"tool_call"}, kinds(parts))
		assert.Equal(t, "Let me look: ", text)
		assert.Equal(t, 13, parts[0].At)
		assert.Equal(t, parts, svc.store.replies[0].Parts, "with the place in the text, also where less of that was recorded")
		synctest.Wait()
		assert.Empty(t, svc.runningIDs(), "nothing runs while it waits")

		cursor := Cursor{MessageID: first.Started.MessageID, After: 13, Parts: 1}
		_, err := svc.Resume(t.Context(), ada, first.Started.ChatID, &cursor)
		require.ErrorIs(t, err, ErrNothingToStream)

		answer := CallAnswer{MessageID: first.Started.MessageID, CallID: "c1", Output: json.RawMessage(`{"seen":"cat"}`)}
		reply, err := svc.AnswerCall(t.Context(), ada, answer)
		require.NoError(t, err)
		text, parts, end = readParts(t, reply)
		assert.Equal(t, "A nice cat.", text)
		assert.Equal(t, []string{"tool_result done"}, kinds(parts))
		assert.NotNil(t, end.Completed)

		answer.Output = json.RawMessage(`{ "seen" : "cat" }`)
		again, err := svc.AnswerCall(t.Context(), ada, answer)
		require.NoError(t, err, "the same answer again")
		text, _, _ = readParts(t, again)
		assert.Equal(t, "A nice cat.", text)
		answer.Output = json.RawMessage(`"dog"`)
		_, err = svc.AnswerCall(t.Context(), ada, answer)
		wantFault(t, err, fault.CallSettled)
		answer.CallID = "c2"
		_, err = svc.AnswerCall(t.Context(), ada, answer)
		wantFault(t, err, fault.CallNotFound)
	}, withTools(&fakeRunner{}))
}

// Who was cut off by a crash does not know whether the answer arrived, and gives it again.
func TestTheSameAnswerAgainGoesOnWithAReplyThatStopped(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		broken := newScriptedReply()
		broken.emit("A ni")
		broken.fail(fault.New(fault.UpstreamFailed, "The model broke off."))
		svc.model.inTurn(saying("", calling("photo", "c1", `{}`)), broken.stream, saying("A nice cat."))
		waiting := svc.send(t, Message{Content: "What is this?", Tools: &photo})
		_, _, _ = readParts(t, waiting)
		answer := CallAnswer{MessageID: waiting.Started.MessageID, CallID: "c1", Output: json.RawMessage(`1`)}
		for _, want := range []string{"A ni", "A nice cat.", "A nice cat."} {
			reply, err := svc.AnswerCall(t.Context(), ada, answer)
			require.NoError(t, err)
			text, parts, _ := readParts(t, reply)
			assert.Equal(t, want, text)
			assert.Equal(t, []string{"tool_result done"}, kinds(parts))
		}
		assert.Len(t, svc.model.requests(), 3, "a reply that is complete is only read")
	}, withTools(&fakeRunner{}))
}

func TestApprovals(t *testing.T) {
	t.Parallel()
	runner := &fakeRunner{run: giving(`"ordered"`)}
	inService(t, func(t *testing.T, svc *testService) {
		svc.model.inTurn(saying("", calling("order", "c1", `{}`), calling("order", "c2", `{}`), calling("roll", "c3", `{}`)), saying("One is on its way."))
		first := svc.send(t, Message{Content: "Order two."})
		_, parts, end := readParts(t, first)
		require.NotNil(t, end.Awaiting)
		assert.Equal(t, []string{"tool_call", "tool_call", "tool_call", "tool_result done"}, kinds(parts))
		assert.Len(t, runner.runs(), 1, "what needs no approval has run")

		answer := CallAnswer{MessageID: first.Started.MessageID, CallID: "c1", Output: json.RawMessage(`1`)}
		_, err := svc.AnswerCall(t.Context(), ada, answer)
		wantFault(t, err, fault.ValidationFailed)
		denied, err := svc.AnswerCall(t.Context(), ada, CallAnswer{MessageID: answer.MessageID, CallID: "c1", Approved: new(false), Reason: "Too dear."})
		require.NoError(t, err)
		_, parts, end = readParts(t, denied)
		assert.Equal(t, []string{"tool_approval", "tool_result denied"}, kinds(parts))
		require.NotNil(t, end.Awaiting, "the other one is open")

		approved, err := svc.AnswerCall(t.Context(), ada, CallAnswer{MessageID: answer.MessageID, CallID: "c2", Approved: new(true)})
		require.NoError(t, err)
		text, parts, _ := readParts(t, approved)
		assert.Equal(t, "One is on its way.", text)
		assert.Equal(t, []string{"tool_approval", "tool_result done"}, kinds(parts))
		outputs := svc.model.requests()[1].Steps[0].Outputs
		assert.Contains(t, outputs[0].Output, "Too dear.")
		assert.Equal(t, "ordered", outputs[1].Output)
	}, withTools(runner))
}

func TestClaims(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		svc.model.inTurn(saying("", calling("photo", "c1", `{}`)), saying("Seen."))
		reply := svc.send(t, Message{Content: "Look.", Tools: &photo})
		readParts(t, reply)
		phone, tablet := uuid.New(), uuid.New()
		answer := CallAnswer{MessageID: reply.Started.MessageID, CallID: "c1", Claim: phone}
		until, err := svc.ClaimCall(t.Context(), ada, answer)
		require.NoError(t, err)
		assert.Equal(t, time.Now().Add(time.Minute), until)
		answer.Claim = tablet
		_, err = svc.ClaimCall(t.Context(), ada, answer)
		wantFault(t, err, fault.CallClaimed)
		answer.Output = json.RawMessage(`1`)
		_, err = svc.AnswerCall(t.Context(), ada, answer)
		wantFault(t, err, fault.CallClaimed)
		time.Sleep(time.Minute)
		_, err = svc.AnswerCall(t.Context(), ada, answer)
		require.NoError(t, err, "the claim has ended")
		answer.Output, answer.Claim = nil, phone
		_, err = svc.ClaimCall(t.Context(), ada, answer)
		wantFault(t, err, fault.CallSettled)
	}, withTools(&fakeRunner{}))
}

// Calls that cannot be made have failed, under ids that are new in the reply, and the model learns why.
func TestCallsThatCannotBeMade(t *testing.T) {
	t.Parallel()
	runner := &fakeRunner{run: giving("1")}
	inService(t, func(t *testing.T, svc *testService) {
		calls := []Item{calling("roll", "c1", `{`), calling("unheard_of", "c1", `{}`), calling("roll", "no id!", ``)}
		for len(calls) < maxCalls+1 {
			calls = append(calls, calling("roll", "", `{}`))
		}
		svc.model.inTurn(saying("", calls...), saying("", calling("unheard_of", "", `{}`)), saying("Sorry."))
		text, parts, _ := readParts(t, svc.send(t, Message{Content: "Roll."}))
		assert.Equal(t, "Sorry.", text, "also where all calls of a step have failed at once")
		ids := map[string]bool{}
		for _, call := range callsOf(parts) {
			assert.Regexp(t, callID, call.CallID)
			ids[call.CallID] = true
		}
		assert.Len(t, ids, maxCalls+2)
		assert.JSONEq(t, `"{"`, string(parts[0].Arguments))
		assert.JSONEq(t, `{"error":"The arguments are not a JSON object."}`, string(memory.Results(parts)["c1"].Output))
		assert.JSONEq(t, `{"error":"There is no such tool."}`, string(memory.Results(parts)["call_2"].Output))
		assert.Equal(t, memory.ResultDone, memory.Results(parts)["call_3"].Status, "no arguments are an empty object")
		assert.JSONEq(t, `{"error":"This reply has made too many calls."}`, string(memory.Results(parts)["call_33"].Output))
		assert.Len(t, runner.runs(), maxCalls-2)
	}, withTools(runner))
}

// A step whose calls all have failed is not the end: the model learns why.
func TestAStepOfFailedCallsIsFollowedByAnother(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		svc.model.inTurn(saying("Let me see.", calling("unheard_of", "c1", `{}`)), saying("I cannot."))
		text, parts, _ := readParts(t, svc.send(t, Message{Content: "Roll."}))
		assert.Equal(t, "Let me see.\n\nI cannot.", text)
		assert.Equal(t, []string{"tool_call", "tool_result failed"}, kinds(parts))
		require.Len(t, svc.model.requests(), 2)
		assert.Contains(t, svc.model.requests()[1].Steps[0].Outputs[0].Output, "There is no such tool.")
	}, withTools(&fakeRunner{}))
}

func TestTheLastStepHasNoTools(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		svc.model.inTurn(saying("Again.", calling("roll", "", `{}`)))
		text, parts, end := readParts(t, svc.send(t, Message{Content: "Roll for ever."}))
		assert.Equal(t, "stop", end.Completed.FinishReason)
		assert.Len(t, callsOf(parts), maxSteps)
		asked := svc.model.requests()
		assert.Len(t, asked, maxSteps+1)
		assert.Equal(t, ChoiceNone, asked[maxSteps].Choice)
		assert.Equal(t, "Again.", text[len(text)-6:])
	}, withTools(&fakeRunner{run: giving("1")}))
}

func TestTheFallbackAnswers(t *testing.T) {
	t.Parallel()
	overloaded := fault.New(fault.UpstreamOverloaded, "Later.")
	fallingBack := func(c *Config) { c.Variants[0].Fallback = "arco-pro" }
	inService(t, func(t *testing.T, svc *testService) {
		svc.model.inTurn(refusing(overloaded), saying("From the other."))
		text, end := readToEnd(t, svc.send(t, Message{Content: "Hello"}))
		assert.Equal(t, "From the other.", text)
		assert.Equal(t, "arco arco-pro", end.Completed.ModelVariant+" "+end.Completed.AnsweredBy)
		asked := svc.model.requests()
		assert.Equal(t, []any{"arco", true, "arco-pro", false}, []any{asked[0].Variant, asked[0].Once, asked[1].Variant, asked[1].Once})

		svc.model.inTurn(refusing(overloaded))
		_, end = readToEnd(t, svc.send(t, Message{Content: "Hello"}))
		assert.Equal(t, fault.UpstreamOverloaded, failureCode(end))
		assert.Len(t, svc.model.requests(), 4, "a fallback is tried once")

		broken := newScriptedReply()
		broken.emit("Well, ")
		broken.fail(overloaded)
		svc.model.setAnswer(broken.stream)
		_, end = readToEnd(t, svc.send(t, Message{Content: "Hello"}))
		assert.Equal(t, fault.UpstreamOverloaded, failureCode(end))
		assert.Len(t, svc.model.requests(), 5, "not after the first word")
	}, fallingBack)
}

// holding runs a tool until it is told to end, or its reply is.
func holding(ctx context.Context, _ *ServerTool, _ ToolRun) (memory.Part, error) {
	<-ctx.Done()
	return memory.Part{}, ctx.Err()
}

func TestCancelWhileAToolRuns(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		svc.model.inTurn(saying("", calling("roll", "c1", `{}`)))
		reply := svc.send(t, Message{Content: "Roll."})
		synctest.Wait()
		stopped, err := svc.Cancel(t.Context(), ada, reply.Started.ChatID)
		require.NoError(t, err)
		assert.Equal(t, memory.StatusCancelled, stopped.Status)
		_, parts, _ := readParts(t, reply)
		assert.Equal(t, []string{"tool_call", "tool_result skipped"}, kinds(parts))
	}, withTools(&fakeRunner{run: holding}))
}

func TestCancelWhatWaits(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		svc.model.inTurn(saying("", calling("photo", "c1", `{}`)))
		reply := svc.send(t, Message{Content: "Look.", Tools: &photo})
		readParts(t, reply)
		stopped, err := svc.Cancel(t.Context(), ada, reply.Started.ChatID)
		require.NoError(t, err)
		assert.Equal(t, memory.StatusCancelled, stopped.Status)
	}, withTools(&fakeRunner{}))
}

// A reply whose server went away while a tool ran goes on in its row when the message is sent again. The tool gets the same key.
func TestAnInterruptedCallRunsAgainWithItsKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		runner := &fakeRunner{run: holding}
		first := newTestService(t, withTools(runner))
		first.model.inTurn(saying("Rolling.", calling("roll", "c1", `{}`)))
		message := Message{Content: "Roll.", ClientMessageID: uuid.New()}
		reply := first.send(t, message)
		synctest.Wait()
		now, cancel := context.WithCancel(t.Context())
		cancel()
		first.Close(now)
		_, parts, end := readParts(t, reply)
		assert.Equal(t, fault.Interrupted, failureCode(end))
		assert.Equal(t, []string{"tool_call"}, kinds(parts))

		second := newTestService(t, withTools(runner), func(c *Config) { c.Store = first.store })
		runner.run = giving("6")
		second.model.inTurn(saying("A six."))
		started := reply.Started
		first.store.start = func(context.Context, NewTurn) (StartedTurn, error) {
			return StartedTurn{Earlier: &EarlierTurn{
				ChatID: started.ChatID, UserMessageID: started.UserMessageID, Content: message.Content, MessageID: started.MessageID,
				Status: memory.StatusInterrupted, Variant: "arco", Ends: true, Continues: true,
			}}, nil
		}
		again := second.send(t, message)
		text, parts, _ := readParts(t, again)
		assert.Equal(t, started.MessageID, again.Started.MessageID)
		assert.Equal(t, "Rolling.\n\nA six.", text)
		assert.Equal(t, []string{"tool_call", "tool_result done"}, kinds(parts))
		runs := runner.runs()
		assert.Equal(t, runs[0].Key, runs[1].Key)
		assert.Len(t, second.model.requests(), 1, "the recorded step is not made again")
	})
}

// What a server said of a step that it did not end is said again, once, by the one that goes on.
func TestAStepThatDidNotEndIsMadeAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		runner := &fakeRunner{run: giving("6")}
		first := newTestService(t, withTools(runner))
		half := newScriptedReply()
		half.emit("A s")
		first.model.inTurn(saying("Rolling.", calling("roll", "c1", `{}`)), half.stream)
		reply := first.send(t, Message{Content: "Roll."})
		synctest.Wait()
		now, cancel := context.WithCancel(t.Context())
		cancel()
		first.Close(now)
		text, _, _ := readParts(t, reply)
		assert.Equal(t, "Rolling.\n\nA s", text)
		second := newTestService(t, withTools(runner), func(c *Config) { c.Store = first.store })
		second.model.inTurn(saying("A six."))
		again, err := second.takeOver(t.Context(), ada, time.Now(), EarlierTurn{ChatID: reply.Started.ChatID, MessageID: reply.Started.MessageID})
		require.NoError(t, err)
		text, _, _ = readParts(t, again)
		assert.Equal(t, "Rolling.\n\nA six.", text)
		assert.Len(t, runner.runs(), 1)
	})
}
