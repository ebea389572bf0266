package postgres

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

func contents(messages []memory.Message) string {
	all := make([]string, len(messages))
	for i, m := range messages {
		all[i] = m.Content
	}
	return strings.Join(all, "|")
}

// say stores a message, as SQL by hand does.
func (b *bed) say(chatID uuid.UUID, role, content string) uuid.UUID {
	b.t.Helper()
	return ask[uuid.UUID](b, "insert into messages (chat_id, role, content, token_count) values ($1, $2, $3, $4) returning id", chatID, role, content, text.Tokens(content))
}

// peek starts a turn in a chat and deletes its messages, so that the chat stays as it was.
func (b *bed) peek(chatID uuid.UUID) memory.Chat {
	b.t.Helper()
	turn := turnIn(chatID, "What do you know?")
	started := b.start(turn)
	b.exec("delete from messages where id in ($1, $2)", turn.UserMessageID, turn.MessageID)
	return started.Chat
}

// A turn reads its chat's memory settings, and counts the turns without itself.
func TestTurnReadsItsChatsSettings(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.newChat(3)
	b.mustCommit(b.claim(chatID, brief.KindFold))
	b.exec("update chats set memory_strategy = 'hybrid', max_turns = 7, system_prompt = 'Be Bach.' where id = $1", chatID)
	for range 2 {
		turn := turnIn(chatID, "And then?")
		b.start(turn)
		b.reply(turn, "Then this.")
	}
	failing := turnIn(chatID, "Once more?")
	first := b.start(failing)
	b.fail(failing, "")
	second := b.start(repeatOf(failing))
	for _, started := range []chat.StartedTurn{first, second} {
		if started.Settings != (memory.Settings{Strategy: memory.StrategyHybrid, MaxTurns: 7}) || started.SystemPrompt != "Be Bach." {
			t.Errorf("%+v", started.Settings)
		}
		if started.PendingTurns != 2 || started.TotalTurns != 5 || strings.TrimRight(contents(started.Buffer), "|") != "And then?|Then this.|And then?|Then this." {
			t.Errorf("%d of %d turns pending, buffer %s", started.PendingTurns, started.TotalTurns, contents(started.Buffer))
		}
	}
	if started := b.start(firstTurn("Hello.")); started.PendingTurns != 0 || started.TotalTurns != 0 || started.Brief.Version != 0 {
		t.Errorf("a new chat remembers %+v", started.Chat)
	}
}

// A simple chat also shows what an earlier brief covers, but nothing from before a clear.
func TestSimpleChatReadsPastItsBrief(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	chatID := s.newChat(3)
	s.mustCommit(s.claim(chatID, brief.KindFold))
	s.exec("update chats set memory_strategy = 'simple' where id = $1", chatID)
	if got := s.peek(chatID); len(got.Buffer) != 6 || got.PendingTurns != 3 || got.TotalTurns != 3 || len(got.Kept) != 0 {
		t.Errorf("%d rows, %d of %d turns", len(got.Buffer), got.PendingTurns, got.TotalTurns)
	}
	s.clear(chatID)
	s.say(chatID, "user", "Hello again.")
	if got := s.peek(chatID); contents(got.Buffer) != "Hello again." || got.PendingTurns != 1 || got.TotalTurns != 1 {
		t.Errorf("after a clear: %s, %d of %d turns", contents(got.Buffer), got.PendingTurns, got.TotalTurns)
	}
}

// The buffer of a simple chat is bounded, and older turns are counted.
func TestSimpleChatReadsItsNewestRows(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.newChat(1)
	b.exec("update chats set memory_strategy = 'simple' where id = $1", chatID)
	b.exec("insert into messages (chat_id, role, content, token_count) select $1, case n % 2 when 1 then 'user' else 'assistant' end, 'line ' || n, 2 from generate_series(1, 500) n", chatID)
	got := b.peek(chatID)
	if len(got.Buffer) != 400 || got.Buffer[0].Content != "line 101" || got.PendingTurns != 251 || got.TotalTurns != 251 {
		t.Errorf("%d rows from %q, %d of %d turns", len(got.Buffer), got.Buffer[0].Content, got.PendingTurns, got.TotalTurns)
	}
}

// A hybrid chat reads the pinned and important messages that the brief covers: its own, after the clear,
// without superseded replies.
func TestHybridChatReadsWhatItKeeps(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	other := s.newChat(1)
	s.exec("update chats set memory_strategy = 'hybrid' where id = $1", other)
	s.exec("update messages set pinned = true where chat_id = $1", other)
	chatID := s.newChat(1)
	s.exec("update messages set pinned = true where chat_id = $1", chatID)
	s.clear(chatID)
	failing := turnIn(chatID, "Try this.")
	s.start(failing)
	s.fail(failing, "half a wo")
	whole := repeatOf(failing)
	s.start(whole)
	s.reply(whole, "A whole word.")
	important, dull := s.say(chatID, "user", "Important."), s.say(chatID, "user", "Dull.")
	s.mustCommit(s.claim(chatID, brief.KindFold))
	later := s.say(chatID, "user", "Still in the buffer.")
	s.exec("update messages set pinned = true where id = any($1)", []uuid.UUID{failing.MessageID, whole.MessageID, later})
	s.exec("update messages set importance = case when id = $1 then 0.8 else 0.79 end where id in ($1, $2)", important, dull)

	if got := s.peek(chatID); len(got.Kept) != 0 {
		t.Errorf("a chat of another strategy keeps %s", contents(got.Kept))
	}
	s.exec("update chats set memory_strategy = 'hybrid' where id = $1", chatID)
	got := s.peek(chatID)
	if contents(got.Kept) != "A whole word.|Important." || !got.Kept[0].Pinned || got.Kept[1].Importance != 0.8 {
		t.Errorf("it keeps %s", contents(got.Kept))
	}
	if contents(got.Buffer) != "Still in the buffer." || !got.Buffer[0].Pinned {
		t.Errorf("the buffer is %s", contents(got.Buffer))
	}
}

// Messages of tools are read with the tool's name and its calls, for the prompt and for the fold.
func TestToolRowsKeepTheirCalls(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.newChat(1)
	b.say(chatID, "user", "Look it up.")
	b.exec(`insert into messages (chat_id, role, content, tool_calls) values ($1, 'assistant', '', '[{"id":"c1","type":"function","function":{"name":"search","arguments":"{\"q\":1}"}}]')`, chatID)
	b.exec(`insert into messages (chat_id, role, content, tool_call_id, name) values ($1, 'tool', 'Nothing.', 'c1', 'search')`, chatID)
	const want = `Look it up.|[calls search({"q":1})]|[search] Nothing.`
	buffer := b.peek(chatID).Buffer
	folded := b.claim(chatID, brief.KindFold).Planned.Messages
	for _, read := range [][]memory.Message{buffer, folded} {
		if got := contents(read[2:]); got != want {
			t.Errorf("read %s", got)
		}
		if turns := memory.Turns(read); len(turns) != 2 || len(turns[1].Messages) != 3 {
			t.Errorf("%d turns", len(turns))
		}
	}
	b.exec("update chats set memory_strategy = 'simple' where id = $1", chatID)
	if got := contents(b.peek(chatID).Buffer[2:]); got != want {
		t.Errorf("a simple chat reads %s", got)
	}
}

// A brief of the wrong form does not prevent replies. The sweep finds it, whatever the chat's size, and a
// rebuild repairs it.
func TestUnreadableBriefIsDoneWithout(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.exec("alter table conversation_briefs drop constraint conversation_briefs_valid")
	for _, rubbish := range []string{
		`{}`, `[]`, `7`, `"text"`, `null`, `{"global_summary": 5, "last_summarized_message_id": null}`, `{"global_summary": "x"}`,
		`{"global_summary": null, "last_summarized_message_id": null}`, `{"global_summary": "x", "last_summarized_message_id": "not one"}`,
	} {
		chatID := b.newChat(2)
		b.mustCommit(b.claim(chatID, brief.KindFold))
		b.exec("update conversation_briefs set brief = $2 where chat_id = $1", chatID, rubbish)
		got := b.peek(chatID)
		if !got.Brief.Unreadable || got.Brief.Summary != "" || got.Brief.CoveredSeq != 4 || got.TotalTurns != 2 || got.PendingTurns != 0 {
			t.Errorf("%s: %+v", rubbish, got.Brief)
		}
		folds, rebuilds, err := NewMaintenance(b.pool, b.limits).DueChats(t.Context())
		if err != nil || len(folds) != 0 || !slices.Equal(rebuilds, []uuid.UUID{chatID}) {
			t.Fatalf("%s: folds of %v, rebuilds of %v, %v", rubbish, folds, rebuilds, err)
		}
		if got := ask[string](b, "select chat_id || ' ' || reason from inspect.late_folds"); got != chatID.String()+" the brief cannot be read" {
			t.Errorf("%s: people see %s", rubbish, got)
		}
		b.mustCommit(b.claim(chatID, brief.KindRebuild))
		if healed := b.peek(chatID).Brief; healed.Unreadable || healed.Summary != "They talked." {
			t.Errorf("%s: healed to %+v", rubbish, healed)
		}
	}
}

// A constraint refuses such a brief.
func TestUnreadableBriefIsRefused(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.newChat(1)
	_, err := b.pool.Exec(t.Context(), `update conversation_briefs set brief = '{"global_summary": 5}'`)
	if sqlState(err) != "23514" {
		t.Errorf("refused with %v", err)
	}
}

func TestRecallTellsWhatTheNextPromptHolds(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	first := firstTurn("What is a fugue?")
	first.ToolName, first.TTLHours, first.MaxTurns = "tutor", memory.ToolTTLHours, memory.ToolMaxTurns
	first.Files = filesOf("fugue.txt", "A subject and its answer.")
	b.start(first)
	b.reply(first, "A piece in several voices.")
	second := turnIn(first.ChatID, "And a canon?")
	second.ToolName = "composer"
	b.start(second)
	b.reply(second, "A strict one.")
	person := turnIn(first.ChatID, "Thank you.")
	b.start(person)
	b.reply(person, "With pleasure.")
	got, err := b.turns.ReadChat(t.Context(), b.user, first.ChatID)
	if err != nil {
		t.Fatal(err)
	}
	if contents(got.Buffer) != "What is a fugue?|A piece in several voices.|And a canon?|A strict one.|Thank you.|With pleasure." || len(got.Files) != 1 {
		t.Errorf("%s with %d files", contents(got.Buffer), len(got.Files))
	}
	if got.ToolName != "tutor" || fmt.Sprint(got.ToolsUsed) != "[composer tutor]" || got.Messages != 6 || got.TotalTurns != 3 || got.PendingTurns != 3 || got.MaxTurns != 50 {
		t.Errorf("%+v", got)
	}
	if got.StartedAt.IsZero() || got.LastMessageAt.Before(got.StartedAt) {
		t.Errorf("from %s to %s", got.StartedAt, got.LastMessageAt)
	}
	if version := b.brief(first.ChatID); version.Leased || version.Version != 0 {
		t.Errorf("the look changed something: %+v", version)
	}
}

func TestRecallOfNoChat(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	chatID := s.newChat(1)
	if _, err := s.turns.ReadChat(t.Context(), s.newUser(), chatID); fault.CodeOf(err) != fault.ChatNotFound {
		t.Errorf("another user's: %v", err)
	}
	if _, err := s.turns.ReadChat(t.Context(), s.user, uuid.New()); fault.CodeOf(err) != fault.ChatNotFound {
		t.Errorf("none: %v", err)
	}
	empty := ask[uuid.UUID](s.bed, "insert into chats (user_id) values ($1) returning id", s.user.UserID)
	if got, err := s.turns.ReadChat(t.Context(), s.user, empty); err != nil || !got.LastMessageAt.IsZero() || got.ToolName != "" || len(got.ToolsUsed)+len(got.Buffer) > 0 || got.Strategy != memory.StrategySummary {
		t.Errorf("an empty one: %+v, %v", got, err)
	}
}

// A turn for which the chat's system prompt is too long stores nothing, and names it.
func TestTurnWithoutRoomForTheSystemPromptStoresNothing(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	failing := b.startWithID("Hello?")
	b.fail(failing, "")
	b.exec("update chats set system_prompt = 'Be Bäch.' where id = $1", failing.ChatID)
	said := ask[int](b, "select message_count from chats where id = $1", failing.ChatID)
	for name, turn := range map[string]chat.NewTurn{"a new message": turnIn(failing.ChatID, "Hello?"), "a message tried again": repeatOf(failing)} {
		turn.SystemPromptRoom = len("Be Bäch.") - 1
		started, err := b.turns.StartTurn(t.Context(), b.user, turn)
		if err != nil || started.Started || !started.Crowded || started.SystemPrompt != "Be Bäch." {
			t.Errorf("%s: %+v, %v", name, started, err)
		}
		if now := ask[int](b, "select message_count from chats where id = $1", failing.ChatID); now != said {
			t.Errorf("%s: %d messages of %d", name, now, said)
		}
	}
	turn := repeatOf(failing)
	turn.SystemPromptRoom = len("Be Bäch.")
	if started := b.start(turn); started.Crowded {
		t.Error("it has room")
	}
}
