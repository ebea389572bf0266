package postgres

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// toolRound is what an app stores when its own tool was asked.
func toolRound() history.NewMessages {
	return history.NewMessages{Messages: []history.NewMessage{
		{Role: "user", Content: "Is my A in tune?", ClientMessageID: new(uuid.NewString())},
		{Role: "assistant", ClientMessageID: new(uuid.NewString()), ToolCalls: []map[string]any{
			{"id": "c1", "type": "function", "function": map[string]any{"name": "tuner", "arguments": `{"string": "A"}`}, "n": 1.0},
		}},
		{Role: "tool", Name: "tuner", ToolCallID: "c1", Content: "441 Hz", ClientMessageID: new(uuid.NewString())},
		{Role: "assistant", Content: "  Nearly.\n", Metadata: map[string]any{"from": "phone"}, ClientMessageID: new(uuid.NewString())},
		{Role: "system", Content: "The lesson is over.", ClientMessageID: new(uuid.NewString())},
	}}
}

func (s shelf) store(chatID uuid.UUID, messages history.NewMessages) []history.Message {
	s.t.Helper()
	stored := must(s.StoreMessages(s.t.Context(), s.user, chatID, messages))(s.t)
	return stored.Messages
}

// said describes a chat's messages, one per line.
func (s shelf) said(chatID uuid.UUID) string {
	s.t.Helper()
	return ask[string](s, `select coalesce(string_agg(concat_ws('|', m.seq, m.role, m.content, m.status, a.seq, m.name, m.tool_call_id,
		jsonb_array_length(m.tool_calls), nullif(m.metadata, '{}')), E'\n' order by m.seq), '')
		from messages m left join messages a on a.id = m.reply_to where m.chat_id = $1`, chatID)
}

func TestMessagesAreStoredAtTheEndOfAChat(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	chatID := s.newChat(1)
	sent := toolRound()
	first := s.store(chatID, sent)
	want := strings.Join([]string{
		"3|user|Is my A in tune?|complete", "4|assistant||complete|1", "5|tool|441 Hz|complete|tuner|c1",
		"6|assistant|  Nearly.\n|complete|3|{\"from\": \"phone\"}", "7|system|The lesson is over.|complete",
	}, "\n")
	if got := s.said(chatID); !strings.HasSuffix(got, want) {
		t.Errorf("the chat holds\n%s", got)
	}
	for i, message := range first {
		if message.Seq != int64(3+i) || message.ChatID != chatID || message.TokenCount == 0 || message.CreatedAt.IsZero() || message.Files == nil {
			t.Errorf("message %d: %+v", i, message)
		}
	}
	peeked := s.peek(chatID)
	if turns := peeked.PendingTurns; turns != 2 || len(peeked.Buffer) != 7 || !strings.Contains(peeked.Buffer[3].Content, "[calls tuner(") {
		t.Errorf("the next prompt knows %d turns, %+v", turns, peeked.Buffer)
	}
	// A message that is sent again is stored once, together with new ones or not, also while a reply runs.
	sent.Messages = append(sent.Messages, history.NewMessage{Role: "assistant", Content: "Sharper.", ClientMessageID: new(uuid.NewString())})
	second := s.store(chatID, sent)
	before := s.said(chatID)
	if len(second) != 6 || second[0].ID != first[0].ID || second[5].Content != "Sharper." || *second[5].ReplyTo != first[0].ID {
		t.Errorf("then %+v", second)
	}
	s.start(turnIn(chatID, "And my D?"))
	if again := s.store(chatID, sent); len(again) != 6 || again[5].ID != second[5].ID {
		t.Errorf("while a reply runs: %+v", again)
	}
	if got := s.said(chatID); !strings.HasPrefix(got, before) || strings.Count(got, "\n") != 10 {
		t.Errorf("the chat holds\n%s", got)
	}
	s.checkCounters()
}

func TestStoringRefusals(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	chatID, other, expired, busy := s.newChat(1), s.newChat(1), s.newChat(1), s.newChat(1)
	sent := toolRound()
	s.store(chatID, sent)
	s.expire(expired)
	running := turnIn(busy, "And my D?")
	s.start(running)
	change := func(alter func(messages []history.NewMessage)) history.NewMessages {
		again := history.NewMessages{Messages: append([]history.NewMessage{{Role: "system", Content: "New."}}, sent.Messages...)}
		alter(again.Messages)
		return again
	}
	before := s.everything()
	for name, c := range map[string]struct {
		chatID uuid.UUID
		sent   history.NewMessages
		code   fault.Code
	}{
		"no chat":              {uuid.New(), toolRound(), fault.ChatNotFound},
		"expired":              {expired, toolRound(), fault.ChatExpired},
		"busy":                 {busy, toolRound(), fault.GenerationInProgress},
		"in another chat":      {other, sent, fault.IdempotencyMismatch},
		"other content":        {chatID, change(func(m []history.NewMessage) { m[1].Content = "x" }), fault.IdempotencyMismatch},
		"another role":         {chatID, change(func(m []history.NewMessage) { m[1].Role = "system" }), fault.IdempotencyMismatch},
		"another tool":         {chatID, change(func(m []history.NewMessage) { m[3].Name = "x" }), fault.IdempotencyMismatch},
		"another call":         {chatID, change(func(m []history.NewMessage) { m[3].ToolCallID = "x" }), fault.IdempotencyMismatch},
		"other calls":          {chatID, change(func(m []history.NewMessage) { m[2].ToolCalls = []map[string]any{{"id": "c2"}} }), fault.IdempotencyMismatch},
		"calls become content": {chatID, change(func(m []history.NewMessage) { m[2].ToolCalls, m[2].Content = nil, "x" }), fault.IdempotencyMismatch},
	} {
		_, err := s.StoreMessages(t.Context(), s.user, c.chatID, c.sent)
		is(t, fault.CodeOf(err), c.code, "%s: %v", name, err)
	}
	wantFault(t, errOf(s.StoreMessages(t.Context(), s.newUser(), chatID, toolRound())), fault.ChatNotFound, "somebody else")
	is(t, s.everything(), before, "something was stored:\n…\n\n")
}

// Requests at once are stored one after the other, none within another. What they make due is folded.
func TestStoringAtOnce(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	chats, same := []uuid.UUID{s.newChat(1), s.newChat(1)}, toolRound()
	together(t, 20, func(n int) error {
		round := toolRound()
		if n%4 == 0 {
			round = same // the same messages, to either chat: one of them gets them
		}
		if err := errOf(s.StoreMessages(t.Context(), s.user, chats[n/4%2], round)); fault.CodeOf(err) != fault.IdempotencyMismatch {
			return err
		}
		return nil
	})
	is(t, s.count("messages where seq > 2"), 16*5, "messages are stored")
	is(t, s.count(`messages where role = 'tool' and (select role from messages c where c.chat_id = messages.chat_id
		and c.seq = messages.seq - 1) <> 'assistant'`), 0, "answers of tools are apart from their calls")
	s.checkCounters()
	is(t, len(s.folds), 0, "folds of short messages")
	long := history.NewMessages{}
	for range 5 {
		long.Messages = append(long.Messages, history.NewMessage{Role: "user", Content: "Look it up."},
			history.NewMessage{Role: "tool", Name: "lookup", Content: strings.Repeat("word ", 2000)})
	}
	s.store(chats[0], long)
	is(t, testkit.Receive(t, "the fold", s.folds), chats[0], "the fold of … was enqueued")
}
