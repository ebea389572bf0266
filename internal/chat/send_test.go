package chat

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

func TestSendStartsATurn(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		clientID := uuid.New()
		reply := svc.send(t, Message{Content: "  Hello there.\nSecond line ", ClientMessageID: clientID, Metadata: map[string]any{"screen": "home"}})
		require.NoError(t, reply.WaitOpen(t.Context()))
		turn := svc.store.turns[0]
		want := NewTurn{
			ChatID: turn.ChatID, NewChat: true, Settings: Settings{Strategy: memory.StrategySummary}, UserMessageID: turn.UserMessageID, MessageID: turn.MessageID,
			Content: "Hello there.\nSecond line", ContentTokens: text.Tokens("Hello there.\nSecond line"),
			Metadata: map[string]any{"screen": "home"}, ClientMessageID: clientID, Variant: "arco", Server: svc.id, Lease: 15 * time.Second,
			SystemPromptRoom: turn.SystemPromptRoom, Variants: []string{"arco", "arco-pro"},
		}
		assert.Equal(t, "", cmp.Diff(want, turn))
		for _, id := range []uuid.UUID{turn.ChatID, turn.UserMessageID, turn.MessageID} {
			assert.Truef(t, id.Version() == 7, "%s is no UUIDv7", id)
		}
		begin := reply.Started
		if begin.ChatID != turn.ChatID || begin.UserMessageID != turn.UserMessageID || begin.MessageID != turn.MessageID || begin.ModelVariant != "arco" ||
			begin.Resumed || begin.Offset != 0 {
			t.Errorf("%+v", begin)
		}
	})
}

// What the model is asked: the variant's model, our instructions and the chat's, the prompt that memory
// builds.
func TestSendAsksTheModel(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		brief := memory.Brief{Summary: "The user likes trains.", Tokens: 5, Version: 2, CoveredSeq: 4}
		buffer := []memory.Message{
			{ID: uuid.New(), Seq: 5, Role: memory.RoleUser, Content: "Which train?", Tokens: 3},
			{ID: uuid.New(), Seq: 6, Role: memory.RoleAssistant, Content: "The slow one.", Tokens: 4},
		}
		sources := []prompt.Source{{Title: "Timetable", Content: "Trains run."}}
		svc.store.start = startWithChat(memory.Chat{SystemPrompt: "Speak like a conductor.", Brief: brief, Buffer: buffer, PendingTurns: 1})
		chatID := uuid.New()
		_, end := readToEnd(t, svc.send(t, Message{ChatID: chatID, Content: "When?", Variant: "arco-pro", Sources: sources}))
		prompt := prompt.Build(memory.Chat{Brief: brief, Buffer: buffer}, prompt.Question{Content: "When?", Sources: sources}, memory.DefaultLimits())
		want := ModelRequest{
			Model: "gpt-large", Variant: "arco-pro", Instructions: "Be kind.\n\nSpeak like a conductor.", Input: prompt.Input, ChatID: chatID, UserID: ada.UserID,
		}
		assert.Equal(t, "", cmp.Diff([]ModelRequest{want}, svc.model.requests()))
		turn := svc.store.turns[0]
		assert.Truef(t, !turn.NewChat && turn.ChatID == chatID && turn.Title == "" && turn.Variant == "arco-pro",
			"%+v", turn)
		if !strings.Contains(string(end.Completed.Memory), `"brief_version":2`) || !cmp.Equal(*svc.store.savedReplies()[0].Metadata.Memory, prompt.Receipt) {
			t.Errorf("receipt %s", end.Completed.Memory)
		}
		synctest.Wait()
		assert.True(t, value(t, svc.Metrics.DroppedTurns) == 0 && len(svc.logs.Lines(t, "prompt does not hold the whole conversation")) == 0,
			"nothing was dropped")
	})
}

func TestSendRefuses(t *testing.T) {
	t.Parallel()
	running := uuid.New()
	down := errors.New("postgres is away")
	for _, c := range []struct {
		name    string
		message Message
		started StartedTurn
		err     error
		want    fault.Code
		detail  string
	}{
		{"nothing to say", Message{}, StartedTurn{Started: true}, nil, fault.ValidationFailed, "content"},
		{"more than the model's window", Message{Content: strings.Repeat("word ", 4000), Variant: "tiny"}, StartedTurn{Started: true}, nil,
			fault.ValidationFailed, "content"},
		{"a tool with too many instructions", Message{Content: "x", ToolInstructions: strings.Repeat("word ", 4000), Variant: "tiny"},
			StartedTurn{Started: true}, nil, fault.ValidationFailed, "content"},
		{"a system prompt too long for the window", Message{Content: "x", ChatID: uuid.New(), Variant: "tiny"}, StartedTurn{
			Crowded: true, Chat: memory.Chat{SystemPrompt: strings.Repeat("word ", 4000)},
		}, nil, fault.ValidationFailed, "system_prompt"},
		{"an unknown variant", Message{Content: "x", Variant: "gpt-large"}, StartedTurn{Started: true}, nil, fault.UnknownModelVariant, "model_variants"},
		{"a chat that is not there", Message{Content: "x", ChatID: uuid.New()}, StartedTurn{}, nil, fault.ChatNotFound, ""},
		{"a busy chat", Message{Content: "x", ChatID: uuid.New()}, StartedTurn{Running: running}, nil, fault.GenerationInProgress, "message_id"},
		{"no Postgres", Message{Content: "x"}, StartedTurn{}, down, fault.Internal, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				svc := newTestService(t, func(c *Config) {
					c.Variants = append(c.Variants, Variant{Name: "tiny", Model: "gpt-tiny", Window: 4000})
				})
				svc.store.start = func(context.Context, NewTurn) (StartedTurn, error) { return c.started, c.err }
				_, err := svc.Send(t.Context(), ada, c.message)
				wantFault(t, err, c.want)
				if refused, ok := errors.AsType[*fault.Error](err); ok && c.detail != "" && refused.Details[c.detail] == nil {
					t.Errorf("details %v", refused.Details)
				}
				synctest.Wait()
				assert.True(t, len(svc.model.requests()) == 0 && value(t, svc.Metrics.RunningReplies) == 0,
					"the model was asked")
			})
		})
	}
}

// A system prompt of many bytes, but few enough tokens, has room once its tokens were counted.
func TestSystemPromptIsCountedWhereItMightNotFit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		svc := newTestService(t, func(c *Config) {
			c.Variants = append(c.Variants, Variant{Name: "tiny", Model: "gpt-tiny", Window: 4000})
		})
		chat, tries := memory.Chat{SystemPrompt: strings.Repeat("word ", 700)}, 0
		svc.store.start = func(_ context.Context, turn NewTurn) (StartedTurn, error) {
			tries++
			fits := len(chat.SystemPrompt) <= turn.SystemPromptRoom
			return StartedTurn{Started: fits, Crowded: !fits, Chat: chat}, nil
		}
		svc.send(t, Message{ChatID: uuid.New(), Content: "Hello.", Variant: "tiny"})
		synctest.Wait()
		asked := svc.model.requests()
		assert.Truef(t, tries == 2 && len(asked) == 1 && strings.Contains(asked[0].Instructions, chat.SystemPrompt),
			"%d tries, %d requests", tries, len(asked))
	})
}

// The reader is one thing, the reply another: a phone that leaves does not stop it.
func TestReplyGoesOnWithoutItsReader(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		script := svc.scripted()
		request, leave := context.WithCancel(t.Context())
		reply, err := svc.Send(request, ada, Message{Content: "Hello."})
		require.NoError(t, err)
		leave()
		reply.Close()
		script.emit("Still ")
		script.emit("here.")
		script.finish()
		synctest.Wait()
		saved := svc.store.savedReplies()
		assert.Truef(t, len(saved) == 1 && saved[0].Content == "Still here." && saved[0].Status == memory.StatusComplete,
			"%+v", saved)
	})
}

// A request that is given up while its turn is stored still gets its reply: it is asked for again.
func TestTurnIsStoredWithoutTheRequest(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		svc.store.start = func(ctx context.Context, _ NewTurn) (StartedTurn, error) {
			synctest.Wait() // the request is over by now
			return StartedTurn{Started: true}, ctx.Err()
		}
		request, leave := context.WithCancel(t.Context())
		leave()
		reply, err := svc.Send(request, ada, Message{Content: "Hello."})
		require.NoError(t, err)
		defer reply.Close()
		synctest.Wait()
		saved := svc.store.savedReplies()
		assert.Truef(t, len(saved) == 1 && saved[0].Status == memory.StatusComplete, "%+v", saved)
	})
}

func TestStoringATurnIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		svc := newTestService(t, func(c *Config) { c.SaveTimeout = 3 * time.Second })
		svc.store.start = func(ctx context.Context, _ NewTurn) (StartedTurn, error) {
			<-ctx.Done()
			return StartedTurn{}, ctx.Err()
		}
		begin := time.Now()
		_, err := svc.Send(t.Context(), ada, Message{Content: "Hello."})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 3*time.Second {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
	})
}

// The reply of a turn that failed but may be stored has no server. Its lease is ended until it has ended by itself, and also
// if Postgres is away at first.
func TestFailedStartsAreAbandoned(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		var failed NewTurn
		svc.store.start = func(_ context.Context, turn NewTurn) (StartedTurn, error) {
			failed = turn
			return StartedTurn{}, fault.New(fault.NotReady, "The database is not available.")
		}
		back := time.Now().Add(svc.Lease / 2)
		svc.store.renew = func(context.Context) error {
			if time.Now().Before(back) {
				return errReset
			}
			return nil
		}
		_, err := svc.Send(t.Context(), ada, Message{Content: "Hello."})
		require.Equalf(t, fault.NotReady, fault.CodeOf(err), "%v", err)
		time.Sleep(10 * svc.Lease) // of the synthetic clock
		synctest.Wait()
		got := svc.store.abandonments()
		assert.Truef(t, len(got) >= 2 && len(got) <= 3 && slices.Equal(got[1], []uuid.UUID{failed.MessageID}),
			"abandoned %v, want %s", got, failed.MessageID)
	})
}

// A turn that was refused is not stored, and one that was started has a server.
func TestOtherStartsAreNotAbandoned(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		script := svc.scripted()
		reply := svc.send(t, Message{Content: "Hello."})
		svc.store.start = func(context.Context, NewTurn) (StartedTurn, error) {
			return StartedTurn{}, fault.New(fault.ForbiddenByPolicy, "No.")
		}
		_, err := svc.Send(t.Context(), ada, Message{Content: "Hello."})
		require.Equalf(t, fault.ForbiddenByPolicy, fault.CodeOf(err), "%v", err)
		time.Sleep(2 * svc.Lease) // of the synthetic clock
		synctest.Wait()
		got := svc.store.abandonments()
		assert.Equalf(t, 0, len(got), "abandoned %v", got)
		script.finish()
		readToEnd(t, reply)
	})
}

// forgetfulStore does not keep the turns that it stores.
type forgetfulStore struct{ *fakeStore }

func (forgetfulStore) StartTurn(context.Context, auth.Principal, NewTurn) (StartedTurn, error) {
	return StartedTurn{Started: true}, nil
}

// What was sent, perhaps megabytes of files, can be collected while the reply is still being generated.
func TestMessageIsReleasedWhenItsReplyBegins(t *testing.T) {
	t.Parallel()
	script := newScriptedReply()
	svc := newTestService(t, func(c *Config) { c.Store = forgetfulStore{newFakeStore()} })
	svc.model.setAnswer(script.stream)
	collected := make(chan struct{})
	reply := sendToForget(t, svc, collected)
	defer reply.Close()
	for deadline := time.Now().Add(30 * time.Second); ; {
		runtime.GC()
		select {
		case <-collected:
			script.finish()
			return
		case <-time.After(10 * time.Millisecond):
		}
		require.False(t, time.Now().After(deadline), "the message is kept")
	}
}

// sendToForget sends a message and closes collected when the garbage collector has taken a part of it.
func sendToForget(t *testing.T, svc *testService, collected chan<- struct{}) *Reply {
	importance := &new([100]float64)[0] // not one of the small objects that are collected together
	runtime.AddCleanup(importance, func(done chan<- struct{}) { close(done) }, collected)
	reply, err := svc.Send(t.Context(), ada, Message{Content: "hello", Importance: importance})
	require.NoError(t, err)
	return reply
}

// A turn that is downgraded is answered by the other variant, and the client is told.
func TestADowngradedTurn(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		svc.store.start = func(context.Context, NewTurn) (StartedTurn, error) {
			return StartedTurn{Started: true, Variant: "arco"}, nil
		}
		reply := svc.send(t, Message{Content: "Hello.", Variant: "arco-pro"})
		_, end := readToEnd(t, reply)
		assert.Equal(t, []string{"arco", "arco"}, []string{reply.Started.ModelVariant, end.Completed.ModelVariant})
		assert.Equal(t, "gpt-small", svc.model.requests()[0].Model)
		saved := svc.store.savedReplies()[0]
		assert.Equal(t, []string{"arco", "arco"}, []string{saved.Metadata.ModelVariant, saved.Spent.Variant})
	})
}
