package chat

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// turnsOf makes a buffer of turns with this many tokens each.
func turnsOf(turns, tokens int) []memory.Message {
	var buffer []memory.Message
	for i := range turns {
		question := memory.Message{ID: uuid.New(), Seq: int64(2*i + 1), Role: memory.RoleUser, Content: fmt.Sprintf("Question %d?", i), Tokens: tokens / 2}
		answer := memory.Message{ID: uuid.New(), ReplyTo: question.ID, Seq: int64(2*i + 2), Role: memory.RoleAssistant,
			Content: fmt.Sprintf("Answer %d.", i), Tokens: tokens - tokens/2}
		buffer = append(buffer, question, answer)
	}
	return buffer
}

// Turns that the model should see and cannot are logged once, counted, and in the receipt.
func TestDroppedTurnsAreVisible(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name              string
		buffer            []memory.Message
		pending           int
		dropped, truncate float64
	}{
		{"all fit", turnsOf(5, 100), 5, 0, 0},
		{"the bridge is full", turnsOf(10, 1000), 10, 1, 0},
		{"older ones were not even read", turnsOf(5, 100), 25, 20, 0},
		{"both", turnsOf(10, 1000), 12, 3, 0},
		{"the counter lags behind", turnsOf(5, 100), 3, 0, 0},
		{"the last turn is huge", []memory.Message{{ID: uuid.New(), Seq: 1, Role: memory.RoleUser, Content: strings.Repeat("word ", 12000), Tokens: 12001}}, 1, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inService(t, func(t *testing.T, svc *testService) {
				svc.store.start = startWithChat(memory.Chat{Buffer: c.buffer, PendingTurns: c.pending})
				reply := svc.send(t, Message{ChatID: uuid.New(), Content: "And now?"})
				readToEnd(t, reply)
				synctest.Wait()
				receipt := svc.store.savedReplies()[0].Metadata.Memory
				if value(t, svc.Metrics.DroppedTurns) != c.dropped || float64(receipt.DroppedTurns) != c.dropped {
					t.Errorf("dropped %v, receipt %+v", value(t, svc.Metrics.DroppedTurns), receipt)
				}
				truncated := value(t, svc.Metrics.TruncatedPrompts.WithLabelValues("recent"))
				assert.Truef(t, truncated == c.truncate && receipt.Truncated == (c.truncate > 0),
					"truncated %v, receipt %+v", truncated, receipt)
				warnings := svc.logs.Lines(t, "prompt does not hold the whole conversation")
				require.Truef(t, len(warnings) == int(min(1, c.dropped+c.truncate)), "%d warnings", len(warnings))
				if len(warnings) == 1 && (warnings[0]["dropped_turns"] != c.dropped || warnings[0]["chat_id"] != reply.Started.ChatID.String() ||
					warnings[0]["level"] != "WARN") {
					t.Errorf("%v", warnings[0])
				}
			})
		})
	}
}

// The line about a shortened prompt names each part, with how much of it is missing.
func TestShortenedPartsAreNamed(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		huge := strings.Repeat("canary ", 12000)
		summary := strings.Repeat("The user plays the cello. ", 1000)
		chat := memory.Chat{
			Settings: memory.Settings{Strategy: memory.StrategyHybrid}, PendingTurns: 12, TotalTurns: 30,
			Brief:  memory.Brief{Version: 3, CoveredSeq: 36, Summary: summary, Tokens: text.Tokens(summary)},
			Buffer: append(turnsOf(11, 1000), memory.Message{ID: uuid.New(), Seq: 23, Role: memory.RoleUser, Content: huge, Tokens: text.Tokens(huge)}),
			Kept: []memory.Message{
				{ID: uuid.New(), Seq: 1, Role: memory.RoleUser, Content: huge, Tokens: text.Tokens(huge), Pinned: true},
				{ID: uuid.New(), Seq: 3, Role: memory.RoleUser, Content: huge, Tokens: text.Tokens(huge), Pinned: true},
			},
			Files: []memory.StoredFile{{Path: "canary.txt", Tokens: 1_000_000}},
		}
		svc.store.start = startWithChat(chat)
		_, receipt := svc.receipt(t, Message{ChatID: uuid.New(), Content: "And now?"})
		lines := svc.logs.Lines(t, "prompt does not hold the whole conversation")
		require.Truef(t, len(lines) == 1 && lines[0]["level"] == "WARN" && !strings.Contains(svc.logs.String(), "canary"),
			"%s", svc.logs)
		line := lines[0]
		cuts, _ := line["cut_tokens"].(map[string]any)
		for _, section := range []string{"brief", "recent", "kept"} {
			if tokens, _ := cuts[section].(float64); tokens <= 0 || value(t, svc.Metrics.TruncatedPrompts.WithLabelValues(section)) != 1 {
				t.Errorf("%s: cut by %v tokens, counted %v", section, cuts[section], value(t, svc.Metrics.TruncatedPrompts.WithLabelValues(section)))
			}
		}
		if line["dropped_turns"] != float64(receipt.DroppedTurns) || receipt.DroppedTurns == 0 || line["left_out_messages"] != float64(receipt.LeftOutMessages) ||
			receipt.LeftOutMessages == 0 || line["left_out_files"] != 1.0 {
			t.Errorf("%v, %+v", line, receipt)
		}
	})
}

// A file without room is named to the model, and no reason for a warning.
func TestFileWithoutRoomIsLogged(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		svc.store.start = startWithChat(memory.Chat{Files: []memory.StoredFile{{Path: "large.txt", Tokens: 1_000_000}}})
		_, _ = svc.receipt(t, Message{ChatID: uuid.New(), Content: "And now?"})
		lines := svc.logs.Lines(t, "prompt does not hold the whole conversation")
		assert.Truef(t, len(lines) == 1 && lines[0]["level"] == "INFO" && lines[0]["left_out_files"] == 1.0 && lines[0]["cut_tokens"] == nil,
			"%v", lines)
	})
}

func TestOneLinePerReply(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		reply := svc.send(t, Message{Content: "Hello."})
		readToEnd(t, reply)
		svc.model.setAnswer(refusing(fault.New(fault.UpstreamOverloaded, "No room.")))
		readToEnd(t, svc.send(t, Message{Content: "Hello.", Variant: "arco-pro"}))
		synctest.Wait()
		lines := svc.logs.Lines(t, "reply ended")
		require.Truef(t, len(lines) == 2, "%d lines", len(lines))
		good, bad := lines[0], lines[1]
		if good["level"] != "INFO" || good["status"] != "complete" || good["message_id"] != reply.Started.MessageID.String() ||
			good["input_tokens"] != 9.0 || good["model"] != "gpt-exact-1" || good["error"] != nil {
			t.Errorf("%v", good)
		}
		if bad["level"] != "WARN" || bad["status"] != "failed" || bad["model_variant"] != "arco-pro" || bad["error"] != "upstream_overloaded: No room." {
			t.Errorf("%v", bad)
		}
		tokens := svc.Metrics.Tokens
		for direction, want := range map[string]float64{"input": 9, "cached": 4, "output": 3} {
			got := value(t, tokens.WithLabelValues("reply", direction))
			assert.Truef(t, got == want, "%v %s tokens", got, direction)
		}
		if value(t, svc.Metrics.Replies.WithLabelValues("arco", "complete")) != 1 || value(t, svc.Metrics.Replies.WithLabelValues("arco-pro", "failed")) != 1 {
			t.Error("replies are not counted")
		}
		calls := value(t, svc.Metrics.Overhead)
		assert.Truef(t, calls == 2, "overhead of %v calls", calls)
	})
}

// Whatever happens to a reply, no log line and no metric holds what people and models wrote.
func TestNoContentInLogs(t *testing.T) {
	t.Parallel()
	const canary = "canary-9d1c"
	synctest.Test(t, func(t *testing.T) {
		svc := newTestService(t, func(c *Config) { c.Instructions = canary })
		buffer := turnsOf(20, 1000)
		for i := range buffer {
			buffer[i].Content += canary
		}
		svc.store.start = startWithChat(memory.Chat{
			SystemPrompt: canary, Brief: memory.Brief{Summary: canary, Tokens: 5, Version: 1}, Buffer: buffer, PendingTurns: 30,
		})
		svc.store.renew = func(context.Context) error { return errReset }
		message := Message{Content: canary, Sources: []prompt.Source{{Title: canary, Content: canary, URL: canary}}, Metadata: map[string]any{canary: canary}}
		ends := map[string]func(*scriptedReply){
			"complete": func(s *scriptedReply) { s.finish() },
			"failed":   func(s *scriptedReply) { s.fail(fault.New(fault.UpstreamFailed, "The model failed.")) },
		}
		for _, play := range ends {
			script := svc.scripted()
			script.emit(canary)
			play(script)
			readToEnd(t, svc.send(t, message))
		}
		svc.store.save = func(context.Context, FinishedReply) (bool, error) { return false, errReset }
		svc.model.setAnswer(answering(canary))
		readToEnd(t, svc.send(t, message))
		svc.model.setAnswer(func(ctx context.Context) (ModelStream, error) {
			s := newScriptedReply()
			s.emit(canary)
			return s.stream(ctx)
		})
		readToEnd(t, svc.send(t, message)) // until it takes too long
		synctest.Wait()
		logs := svc.logs.String()
		assert.Truef(t, !strings.Contains(logs, canary) && strings.Count(logs, "reply ended") == 4 && strings.Contains(logs, "lease not renewed"),
			"%s", logs)
		families, err := svc.Metrics.Registry.Gather()
		assert.Truef(t, err == nil && !strings.Contains(fmt.Sprint(families), canary), "in a metric, or %v", err)
	})
}
