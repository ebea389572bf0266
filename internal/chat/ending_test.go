package chat

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/arcoscribe/throughline/streaming"
)

var errReset = errors.New("connection reset")

func TestCompleteReply(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		svc.model.setAnswer(answering("Hé", "llo ", "👋🏽"))
		reply := svc.send(t, Message{Content: "Hi."})
		content, end := readToEnd(t, reply)
		require.Truef(t, content == "Héllo 👋🏽" && end.Completed != nil, "%q, %+v", content, end)
		usage := streaming.Usage{InputTokens: 9, CachedTokens: 4, OutputTokens: 3}
		saved := svc.store.savedReplies()[0]
		want := FinishedReply{
			Server: svc.id, ChatID: reply.Started.ChatID, MessageID: reply.Started.MessageID, Status: memory.StatusComplete,
			Content: "Héllo 👋🏽", Tokens: text.Tokens("Héllo 👋🏽"),
			Metadata: ReplyMetadata{ModelVariant: "arco", Model: "gpt-exact-1", ResponseID: "resp_1", FinishReason: "length", Usage: &usage,
				Memory: &prompt.Receipt{Strategy: memory.StrategySummary, Sections: []prompt.Account{}}},
			Spent: &work.Spent{
				Purpose: work.PurposeReply, Model: "gpt-exact-1", Variant: "arco", UserID: ada.UserID, ChatID: reply.Started.ChatID,
				MessageID: reply.Started.MessageID, InputTokens: 9, CachedTokens: 4, OutputTokens: 3,
			},
		}
		assert.Equal(t, "", cmp.Diff(want, saved))
		done := *end.Completed
		if done.MessageID != saved.MessageID || done.ChatID != saved.ChatID || done.FinishReason != "length" || done.ModelVariant != "arco" ||
			done.Usage != usage || done.ContentLength != 8 {
			t.Errorf("%+v", done)
		}
	})
}

// How a reply can break off, its status then, and the event that its readers get.
func TestBrokenReplies(t *testing.T) {
	t.Parallel()
	overloaded := fault.Wrap(fault.UpstreamOverloaded, "The model has no room.", errors.New("status 429"))
	for _, c := range []struct {
		name      string
		play      func(*testService, *scriptedReply)
		text      string
		status    memory.Status
		code      fault.Code
		retryable bool
	}{
		{"the model breaks off", func(_ *testService, s *scriptedReply) { s.emit("Half a "); s.fail(overloaded) }, "Half a ", memory.StatusFailed,
			fault.UpstreamOverloaded, true},
		{"before a word", func(_ *testService, s *scriptedReply) { s.fail(overloaded) }, "", memory.StatusFailed, fault.UpstreamOverloaded, true},
		{"for an unknown reason", func(_ *testService, s *scriptedReply) { s.emit("Half"); s.fail(errReset) }, "Half", memory.StatusFailed,
			fault.UpstreamFailed, true},
		{"the model refuses the call", func(svc *testService, _ *scriptedReply) { svc.model.setAnswer(refusing(overloaded)) }, "", memory.StatusFailed,
			fault.UpstreamOverloaded, true},
		{"it takes too long", func(_ *testService, s *scriptedReply) { s.emit("Half") }, "Half", memory.StatusFailed, fault.UpstreamTimeout, true},
		{"it takes too long to begin", func(svc *testService, _ *scriptedReply) {
			svc.model.setAnswer(func(ctx context.Context) (ModelStream, error) { <-ctx.Done(); return nil, ctx.Err() })
		}, "", memory.StatusFailed, fault.UpstreamTimeout, true},
		{"Postgres is away", func(svc *testService, s *scriptedReply) {
			svc.store.save = func(context.Context, FinishedReply) (bool, error) { return false, errReset }
			s.emit("Lost")
			s.finish()
		}, "Lost", "", fault.NotReady, true},
		{"Postgres hangs", func(svc *testService, s *scriptedReply) {
			svc.store.save = func(ctx context.Context, _ FinishedReply) (bool, error) { <-ctx.Done(); return false, ctx.Err() }
			s.emit("Lost")
			s.finish()
		}, "Lost", "", fault.NotReady, true},
		{"the chat is deleted meanwhile", func(svc *testService, s *scriptedReply) {
			svc.store.save = func(_ context.Context, reply FinishedReply) (bool, error) {
				svc.store.remove(reply.MessageID)
				return false, nil
			}
			s.emit("Gone")
			s.finish()
		}, "Gone", "", fault.MessageNotFound, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inService(t, func(t *testing.T, svc *testService) {
				script := svc.scripted()
				c.play(svc, script)
				reply := svc.send(t, Message{Content: "Hi."})
				text, end := readToEnd(t, reply)
				if text != c.text || failureCode(end) != c.code || end.Failed.Retryable != c.retryable || end.Failed.MessageID != reply.Started.MessageID ||
					end.Failed.Message == "" {
					t.Errorf("%q, %+v", text, end.Failed)
				}
				synctest.Wait()
				svc.checkSaved(t, c.status, c.text, c.code)
				for _, saved := range svc.store.savedReplies() { // whoever breaks a reply off pays for it
					if c.name == "the model refuses the call" {
						assert.Nil(t, saved.Spent, "a refused call is free")
						continue
					}
					assert.Truef(t, saved.Spent.Estimated && saved.Spent.InputTokens > 0 && (saved.Spent.OutputTokens > 0) == (c.text != ""), "%+v", saved.Spent)
				}
				assert.True(t, value(t, svc.Metrics.Replies.WithLabelValues("arco", "failed")) == 1 && value(t, svc.Metrics.RunningReplies) == 0,
					"not counted as failed")
			})
		})
	}
}

// checkSaved checks the only saved reply; an empty status is for none.
func (svc *testService) checkSaved(t *testing.T, status memory.Status, text string, code fault.Code) {
	t.Helper()
	saved := svc.store.savedReplies()
	if status == "" {
		assert.Equalf(t, 0, len(saved), "saved %+v", saved)
		return
	}
	if len(saved) != 1 || saved[0].Status != status || saved[0].Content != text || saved[0].Metadata.Failure == nil ||
		saved[0].Metadata.Failure.Code != string(code) || saved[0].Metadata.Model != "gpt-small" || saved[0].Metadata.Memory == nil {
		t.Errorf("saved %+v", saved)
	}
}

// A server that did not renew its lease in time may find its reply ended by another one. Its readers hear that end.
func TestReplyThatAnotherServerInterrupted(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		svc.store.save = func(_ context.Context, reply FinishedReply) (bool, error) {
			svc.store.put(StoredReply{ChatID: reply.ChatID, MessageID: reply.MessageID, Status: memory.StatusInterrupted})
			return false, nil
		}
		_, end := readToEnd(t, svc.send(t, Message{Content: "Hi."}))
		assert.Truef(t, failureCode(end) == fault.Interrupted && end.Failed.Retryable, "%+v", end)
	})
}

// No reader gets the completion of a reply before it is stored.
func TestTheEndComesAfterTheCommit(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		commit := make(chan struct{})
		svc.store.save = func(context.Context, FinishedReply) (bool, error) { <-commit; return true, nil }
		reply := svc.send(t, Message{Content: "Hi."})
		chunk, err := reply.Next(t.Context())
		require.Truef(t, err == nil && string(chunk.Text) == "Fine.", "%q, %v", chunk.Text, err)
		heard := make(chan streaming.Terminal, 1)
		go func() {
			_, end := readToEnd(t, reply)
			heard <- end
		}()
		synctest.Wait()
		assert.Equal(t, 0, len(heard), "told before the commit")
		close(commit)
		end := <-heard
		assert.Truef(t, end.Completed != nil, "%+v", end)
	})
}

func TestWaitOpen(t *testing.T) {
	t.Parallel()
	overloaded := fault.New(fault.UpstreamOverloaded, "The model has no room.")
	for _, c := range []struct {
		name string
		play func(*testService, *scriptedReply)
		want fault.Code
	}{
		{"speaking", func(_ *testService, s *scriptedReply) { s.emit("a") }, ""},
		{"refused", func(svc *testService, _ *scriptedReply) { svc.model.setAnswer(refusing(overloaded)) }, fault.UpstreamOverloaded},
		{"broken after a word", func(_ *testService, s *scriptedReply) { s.emit("a"); s.fail(overloaded) }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inService(t, func(t *testing.T, svc *testService) {
				script := svc.scripted()
				c.play(svc, script)
				reply := svc.send(t, Message{Content: "Hi."})
				err := reply.WaitOpen(t.Context())
				wantFault(t, err, c.want)
				if refused, ok := errors.AsType[*fault.Error](err); ok && refused.Details["message_id"] != reply.Started.MessageID {
					t.Errorf("details %v", refused.Details)
				}
			})
		})
	}
}

// A reader that joins gets a failure as an event, so it is open at once.
func TestWaitOpenOfAResumedReply(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		svc.model.setAnswer(refusing(errReset))
		first := svc.send(t, Message{Content: "Hi."})
		readToEnd(t, first)
		again, err := svc.Resume(t.Context(), ada, first.Started.ChatID, &Cursor{})
		require.NoError(t, err)
		defer again.Close()
		assert.NoError(t, again.WaitOpen(t.Context()))
		_, end := readToEnd(t, again)
		assert.Equalf(t, fault.UpstreamFailed, failureCode(end), "%+v", end)
	})
}

func TestWaitGivesTheWholeReply(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		svc.model.setAnswer(answering("One ", "two."))
		whole, err := svc.send(t, Message{Content: "Hi."}).Wait(t.Context())
		assert.Truef(t, err == nil && whole.Content == "One two." && whole.ContentLength == 8 && whole.FinishReason == "length",
			"%+v, %v", whole, err)

		svc.model.setAnswer(refusing(fault.New(fault.UpstreamTimeout, "Too late.")))
		_, err = svc.send(t, Message{Content: "Hi."}).Wait(t.Context())
		wantFault(t, err, fault.UpstreamTimeout)

		svc.model.setAnswer(newScriptedReply().stream)
		late, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err = svc.send(t, Message{Content: "Hi."}).Wait(late); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}

func TestWaitOfACancelledReply(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		script := svc.scripted()
		script.emit("One ")
		reply := svc.send(t, Message{Content: "Hi."})
		synctest.Wait()
		if _, err := svc.Cancel(t.Context(), ada, reply.Started.ChatID); err != nil {
			t.Fatal(err)
		}
		whole, err := reply.Wait(t.Context())
		if err != nil || whole.Content != "One " || whole.FinishReason != "cancelled" || whole.ContentLength != 4 || string(whole.Memory) != "null" ||
			whole.MessageID != reply.Started.MessageID {
			t.Errorf("%+v, %v", whole, err)
		}
	})
}

// What stands under our keys and is not ours counts as absent, and hides nothing that is.
func TestForeignMetadataIsNotRead(t *testing.T) {
	t.Parallel()
	all := ReplyMetadata{
		ModelVariant: "arco", Model: "gpt", ResponseID: "r", FinishReason: "length", Usage: &streaming.Usage{InputTokens: 1},
		Memory: &prompt.Receipt{TailTurns: 2, Sections: []prompt.Account{}}, Failure: &Failure{Code: "upstream_failed", Message: "No."},
	}
	whole, err := json.Marshal(all)
	require.NoError(t, err)
	for given, want := range map[string]ReplyMetadata{
		string(whole): all, `{}`: {}, `null`: {},
		`{"model_variant":7,"model":"gpt","usage":[],"memory":"none","failure":"no","finish_reason":{}}`: {Model: "gpt"},
		`{"usage":{"input_tokens":"many","output_tokens":3},"memory":{"tail_turns":1},"failure":{}}`:     {},
		`{"usage":{"input_tokens":1e300},"memory":{"tail_turns":1,"sections":[{"items":"x"}]}}`:          {},
		`{"finish_reason":"tool_calls","response_id":"r","usage":null,"memory":null}`:                    {ResponseID: "r"},
	} {
		var got ReplyMetadata
		assert.NoErrorf(t, json.Unmarshal([]byte(given), &got), "%s", given)
		assert.Equalf(t, "", cmp.Diff(want, got), "%s", given)
	}
}

func TestUsageThatTheModelDoesNotReportIsCounted(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		script := svc.scripted()
		script.result = &ModelResult{Model: "gpt-exact-1", FinishReason: "stop"}
		script.emit("One, two.")
		script.finish()
		_, end := readToEnd(t, svc.send(t, Message{Content: "Count."}))
		usage, spent := end.Completed.Usage, svc.store.savedReplies()[0].Spent
		assert.True(t, usage.Estimated && usage.InputTokens > 0, "%+v", usage)
		assert.Equal(t, 4, usage.OutputTokens)
		assert.Equal(t, usage, streaming.Usage{InputTokens: spent.InputTokens, OutputTokens: spent.OutputTokens, Estimated: spent.Estimated})
	})
}
