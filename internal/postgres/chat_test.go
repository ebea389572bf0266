package postgres

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/work"
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
	return ask[uuid.UUID](b, "insert into messages (chat_id, role, content, token_count) values ($1, $2, $3, $4) returning id", chatID, role, content,
		text.Tokens(content))
}

// peek starts a turn in a chat and deletes its messages, so that the chat stays as it was.
func (b *bed) peek(chatID uuid.UUID) memory.Chat {
	b.t.Helper()
	turn := turnIn(chatID, "What do you know?")
	started := b.start(turn)
	b.exec("delete from messages where id in ($1, $2)", turn.UserMessageID, turn.MessageID)
	return started.Chat
}

// A simple chat also shows what an earlier brief covers, but nothing from before a clear.
func TestSimpleChatReadsPastItsBrief(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	chatID := s.newChat(3)
	s.mustCommit(s.claim(chatID))
	s.exec("update chats set memory_strategy = 'simple' where id = $1", chatID)
	got := s.peek(chatID)
	is(t, tuple(len(got.Buffer), got.PendingTurns, got.TotalTurns, len(got.Kept)), tuple(6, 3, 3, 0), "rows, … of … turns")
	s.clear(chatID)
	s.say(chatID, "user", "Hello again.")
	got = s.peek(chatID)
	is(t, tuple(contents(got.Buffer), got.PendingTurns, got.TotalTurns), tuple("Hello again.", 1, 1), "after a clear: …, … of … turns")
	s.exec(`insert into messages (chat_id, role, content, token_count) select $1, case n % 2 when 1 then 'user' else 'assistant' end, 'line ' || n, 2
		from generate_series(1, 500) n`, chatID)
	got = s.peek(chatID)
	is(t, tuple(len(got.Buffer), got.Buffer[0].Content, got.PendingTurns, got.TotalTurns), tuple(501, "Hello again.", 251, 251), "rows from …, … of … turns")
}

// A chat reads the pinned messages that the brief covers, and a hybrid one the important ones as well: its own, after the
// clear, without superseded replies.
func TestAChatReadsWhatItKeeps(t *testing.T) {
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
	whole := s.repeatOf(failing)
	s.exchange(whole, "A whole word.")
	important, dull := s.say(chatID, "user", "Important."), s.say(chatID, "user", "Dull.")
	s.mustCommit(s.claim(chatID))
	later := s.say(chatID, "user", "Still in the buffer.")
	s.exec("update messages set pinned = true where id = any($1)", []uuid.UUID{failing.MessageID, whole.MessageID, later})
	s.exec("update messages set importance = case when id = $1 then 0.8 else 0.79 end where id in ($1, $2)", important, dull)

	is(t, contents(s.peek(chatID).Kept), "A whole word.", "a chat of another strategy keeps")
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
	b.exec(`insert into messages (chat_id, role, content, tool_calls) values ($1, 'assistant', '',
		'[{"id":"c1","type":"function","function":{"name":"search","arguments":"{\"q\":1}"}}]')`, chatID)
	b.exec(`insert into messages (chat_id, role, content, tool_call_id, name) values ($1, 'tool', 'Nothing.', 'c1', 'search')`, chatID)
	b.exec(`insert into messages (chat_id, role, content, pinned, parts) values
		($1, 'assistant', 'Wait.', true, $2), ($1, 'assistant', 'x', false, '[7]')`, chatID,
		`[{"type": "tool_call", "at": 5, "call_id": "a", "name": "search", "arguments": {"q": 2}}, {"type": "tool_result", "call_id": "a", "at": 5,
		   "status": "done", "output": "Two.\n[search] Three."}]`)
	const said = "Wait.\n[calls search({\"q\":2})]\n[search] Two.\n> [search] Three."
	const want = `Look it up.|[calls search({"q":1})]|[search] Nothing.|` + said + "|x"
	buffer := b.peek(chatID).Buffer
	folded := b.claim(chatID).Planned.Messages
	for _, read := range [][]memory.Message{buffer, folded} {
		is(t, contents(read[2:]), want, "read")
		turns := memory.Turns(read)
		assert.Truef(t, len(turns) == 2 && len(turns[1].Messages) == 5, "%d turns", len(turns))
	}
	b.exec("update chats set memory_strategy = 'simple' where id = $1", chatID)
	is(t, contents(b.peek(chatID).Buffer[2:]), want, "a simple chat reads")
	b.say(chatID, "user", "Thanks.")
	b.exec("update chats set memory_strategy = 'summary' where id = $1", chatID)
	b.exec("update conversation_briefs set covered_seq = 7 where chat_id = $1", chatID)
	is(t, contents(b.peek(chatID).Kept), said, "kept")
}

// A brief of the wrong form does not prevent replies. The sweep takes it back to what was recorded,
// in a chat of any size.
func TestUnreadableBriefIsDoneWithout(t *testing.T) {
	t.Parallel()
	b := newOwnBed(t)
	b.exec("alter table conversation_briefs drop constraint conversation_briefs_valid")
	for _, rubbish := range []string{
		`{}`, `[]`, `7`, `"text"`, `null`, `{"global_summary": 5, "last_summarized_message_id": null}`, `{"global_summary": "x"}`,
		`{"global_summary": null, "last_summarized_message_id": null}`, `{"global_summary": "x", "last_summarized_message_id": "not one"}`,
	} {
		chatID := b.newChat(2)
		b.mustCommit(b.claim(chatID))
		b.exec("update conversation_briefs set brief = $2 where chat_id = $1", chatID, rubbish)
		got := b.peek(chatID)
		is(t, tuple(got.Brief.Unreadable, got.Brief.Summary, got.Brief.CoveredSeq, got.TotalTurns, got.PendingTurns), tuple(true, "", 4, 2, 0), "%s: %+v",
			rubbish, got.Brief)
		is(t, must(NewMaintenance(b.pool, b.limits).RestoreBriefs(t.Context()))(t), 1, "%s: briefs were restored", rubbish)
		healed := b.peek(chatID).Brief
		is(t, tuple(healed.Unreadable, healed.Summary), tuple(false, "They talked."), "%s: healed to %+v", rubbish, healed)
	}
}

func TestRecallTellsWhatTheNextPromptHolds(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	first := firstTurn("What is a fugue?")
	first.ToolName, first.TTLHours, first.MaxTurns = "tutor", memory.ToolTTLHours, memory.ToolMaxTurns
	first.Files = filesOf("fugue.txt", "A subject and its answer.")
	b.exchange(first, "A piece in several voices.")
	second := turnIn(first.ChatID, "And a canon?")
	second.ToolName = "composer"
	b.exchange(second, "A strict one.")
	got := must(b.turns.ReadChat(t.Context(), b.user, first.ChatID))(t)
	is(t, contents(got.Buffer), "What is a fugue?|A piece in several voices.|And a canon?|A strict one.", "the buffer")
	is(t, tuple(len(got.Files), got.ToolName, got.ToolsUsed, got.Messages, got.TotalTurns, got.PendingTurns, got.MaxTurns),
		tuple(1, "tutor", "[composer tutor]", 4, 2, 2, 50), "%+v", got)
	assert.Truef(t, !got.StartedAt.IsZero() && !got.LastMessageAt.Before(got.StartedAt),
		"from %s to %s", got.StartedAt, got.LastMessageAt)
	brief := b.brief(first.ChatID)
	is(t, tuple(brief.Leased, brief.Version), tuple(false, 0), "the look changed something: %+v", brief)
	wantFault(t, errOf(b.turns.ReadChat(t.Context(), b.newUser(), first.ChatID)), fault.ChatNotFound, "another user's")
	wantFault(t, errOf(b.turns.ReadChat(t.Context(), b.user, uuid.New())), fault.ChatNotFound, "none")
	if got, err := b.turns.ReadChat(t.Context(), b.user, b.emptyChat()); err != nil || !got.LastMessageAt.IsZero() || got.ToolName != "" ||
		len(got.ToolsUsed)+len(got.Buffer) > 0 || got.Strategy != memory.StrategySummary {
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
	for name, turn := range map[string]chat.NewTurn{"a new message": turnIn(failing.ChatID, "Hello?"), "a message tried again": b.repeatOf(failing)} {
		turn.SystemPromptRoom = len("Be Bäch.") - 1
		started, err := b.turns.StartTurn(t.Context(), b.user, turn)
		is(t, tuple(err, started.Started, started.Crowded, started.SystemPrompt), tuple(nil, false, true, "Be Bäch."), "%s: %+v", name, started)
		is(t, ask[int](b, "select message_count from chats where id = $1", failing.ChatID), said, "%s: messages of", name)
	}
	turn := b.repeatOf(failing)
	turn.SystemPromptRoom = len("Be Bäch.")
	is(t, b.start(turn).Crowded, false, "it has room")
}

// A chat created without a title gets it from its first message.
func TestFirstMessageGivesTheTitle(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	untitled := b.emptyChat()
	b.start(turnIn(untitled, "My cello\nis old"))
	titled := ask[uuid.UUID](b, "insert into chats (user_id, title) values ($1, 'Mine') returning id", b.user.UserID)
	b.start(turnIn(titled, "My cello"))
	got := ask[[]string](b, "select array[(select title from chats where id = $1), (select title from chats where id = $2)]", untitled, titled)
	is(t, tuple(got[0], got[1]), tuple("My cello", "Mine"), "titles")
}

// Go and Postgres agree on blanks: each character of Unicode alone.
func TestBlankIsTheSameInPostgresAndInGo(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	blank := ask[[]int](b, `select array_agg(n order by n) from generate_series(1, 1114111) n
		where n not between 55296 and 57343
		  and throughline.tokens_of(chr(n), null, null, 'user', null, false, 1) = 0`)
	var want []int
	for r := rune(1); r <= 0x10FFFF; r++ {
		if (r < 0xD800 || r > 0xDFFF) && (memory.Message{Content: string(r)}).Blank() {
			want = append(want, int(r))
		}
	}
	assert.Truef(t, len(want) >= 20 && fmt.Sprint(blank) == fmt.Sprint(want),
		"blank to Postgres are %v, to Go %v", blank, want)
}

// For any rows that SQL writes, the counters are the counts of Go in the rows that it reads, also after edits.
func TestCountersAreWhatGoCounts(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.emptyChat()
	dice := rand.New(rand.NewPCG(3, 3))
	contents := []string{"", " ", "\u00a0\n\u3000", "\u200b", "\ufeff", "words", " x "}
	calls := []*string{nil, nil, new("[]"), new(`[{"name": "f", "arguments": {"q": "bow"}}]`)}
	draw := func() []any {
		return []any{
			[]string{"user", "user", "assistant", "tool", "system"}[dice.IntN(5)], contents[dice.IntN(len(contents))], calls[dice.IntN(len(calls))],
			[]*string{nil, new("calculator")}[dice.IntN(2)],
		}
	}
	for round := range 60 {
		if row := draw(); round%3 == 2 {
			b.exec("update messages set role = $1, content = $2, tool_calls = $3, name = $4 where chat_id = $5 and seq = $6",
				append(row, chatID, 1+dice.IntN(2*(round/3)+1))...)
		} else {
			b.exec("insert into messages (role, content, tool_calls, name, chat_id) values ($1, $2, $3, $4, $5)", append(row, chatID)...)
		}
		stored := must(b.turns.ReadChat(t.Context(), b.user, chatID))(t)
		turns, tokens := 0, 0
		for _, turn := range memory.Turns(stored.Buffer) {
			turns += turn.UserMessages()
			tokens += turn.Tokens()
		}
		if brief := b.brief(chatID); turns != brief.PendingTurns || turns != stored.PendingTurns || turns != stored.TotalTurns || tokens != brief.PendingTokens {
			t.Fatalf("round %d: Go counts %d turns and %d tokens, the brief has %d and %d, the chat %d", round, turns, tokens,
				brief.PendingTurns, brief.PendingTokens, stored.TotalTurns)
		}
	}
	b.checkCounters()
}

// filesOf returns files, given path, content, path, content …
func filesOf(pathsAndContents ...string) []chat.NewFile {
	var files []chat.NewFile
	for pair := range slices.Chunk(pathsAndContents, 2) {
		files = append(files, chat.NewFile{File: memory.File{Path: pair[0], Content: pair[1]}, SHA256: sha256.Sum256([]byte(pair[1])), Tokens: text.Tokens(pair[1])})
	}
	return files
}

// read returns the paths and contents that a turn found.
func read(files []memory.StoredFile) string {
	var all []string
	for _, f := range files {
		all = append(all, f.Path+": "+f.Content)
	}
	return strings.Join(all, "; ")
}

func (b *bed) sendFiles(chatID uuid.UUID, pathsAndContents ...string) chat.StartedTurn {
	b.t.Helper()
	turn := turnIn(chatID, "Look at these.")
	turn.Files = filesOf(pathsAndContents...)
	started := b.start(turn)
	b.reply(turn, "Seen.")
	return started
}

// A chat stores each content once, however often and under any paths it was sent. A turn reads all
// sendings, newest first, with its own and without those of other chats.
func TestFilesAreStoredOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	first := firstTurn("Look.")
	first.Files = filesOf("a.txt", "alpha", "b.txt", "beta", "c.txt", "alpha")
	started := b.start(first)
	b.reply(first, "Seen.")
	is(t, read(started.Files), "c.txt: alpha; b.txt: beta; a.txt: alpha", "the first turn reads")
	f := started.Files[1]
	is(t, tuple(f.SHA256, f.Tokens), tuple(sha256.Sum256([]byte("beta")), text.Tokens("beta")), "%+v", f)
	b.sendFiles(b.newChat(1), "elsewhere.txt", "alpha")
	started = b.sendFiles(first.ChatID, "a.txt", "alpha 2", "d.txt", "beta")
	is(t, read(started.Files), "d.txt: beta; a.txt: alpha 2; c.txt: alpha; b.txt: beta; a.txt: alpha", "the second turn reads")
	is(t, read(b.peek(first.ChatID).Files), read(started.Files), "the third turn reads")
	is(t, b.count("chat_files where chat_id = $1", first.ChatID), 3, "contents are stored")
	is(t, b.count("message_files where message_id = $1 and place between 1 and 3", first.UserMessageID), 3, "sendings are stored")
}

// A turn that does not start stores no files: because a reply is running, because the message was sent before, or because the
// chat is another user's.
func TestFilesOfNoTurnAreNotStored(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	turn := turnIn(b.newChat(1), "Look.")
	turn.ClientMessageID, turn.Files = uuid.New(), filesOf("a.txt", "alpha")
	b.start(turn)
	busy, repeated := turnIn(turn.ChatID, "And this."), turn
	busy.Files = filesOf("b.txt", "beta")
	repeated.UserMessageID, repeated.MessageID = uuid.New(), uuid.New()
	is(t, must(b.turns.StartTurn(t.Context(), b.user, busy))(t).Started, false, "over a running reply")
	is(t, must(b.turns.StartTurn(t.Context(), b.user, repeated))(t).Started, false, "a second time")
	is(t, must(b.turns.StartTurn(t.Context(), b.newUser(), busy))(t), chat.StartedTurn{}, "as a stranger")
	b.fail(turn, "")
	retried := b.start(b.repeatOf(turn))
	is(t, read(retried.Files), "a.txt: alpha", "tried again it reads")
	is(t, ask[int](b, "select (select count(*) from chat_files) + (select count(*) from message_files)"), 2, "rows of one file")
}

// Files from before a clear are in no prompt. Of files too far back not even the content is read.
func TestFilesThatNoPromptShowsAreNotRead(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	chatID := s.newChat(1)
	s.sendFiles(chatID, "before.txt", "from before")
	s.clear(chatID)
	large := func(first string) string { return first + strings.Repeat(" word", 40_000) }
	s.sendFiles(chatID, "1.txt", large("one"))
	s.sendFiles(chatID, "2.txt", large("two"), "again.txt", large("two"))
	s.sendFiles(chatID, "3.txt", large("three"), "empty.txt", "")
	got := s.peek(chatID).Files
	paths := make([]string, len(got))
	for i, f := range got {
		paths[i] = f.Path
		assert.Truef(t, (f.Content == "") == (f.Path == "1.txt" || f.Path == "empty.txt") && (f.Path != "1.txt" || f.Tokens == 40_001),
			"%s has %d bytes, %d tokens", f.Path, len(f.Content), f.Tokens)
	}
	want := "empty.txt 3.txt again.txt 2.txt 1.txt"
	is(t, strings.Join(paths, " "), want, "read")
}

// An expired chat takes no message and reports since when. Once revived it continues with its brief, and one that lives is not
// changed by that.
func TestExpiredChatTakesNoTurn(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	chatID := s.newChat(3)
	s.mustCommit(s.claim(chatID))
	failing := turnIn(chatID, "This fails.")
	s.start(failing)
	s.fail(failing, "")
	s.expire(chatID)
	since := ask[time.Time](s, "select expires_at from chats where id = $1", chatID)
	turn := turnIn(chatID, "Are you there?")
	turn.Files = filesOf("a.txt", "alpha")
	for _, refused := range []chat.NewTurn{turn, s.repeatOf(failing)} {
		started, err := s.turns.StartTurn(t.Context(), s.user, refused)
		require.Truef(t, err == nil && !started.Started && started.Expired.Equal(since) && time.Since(since) >= 30*time.Minute,
			"%+v, %v", started.Expired, err)
	}
	is(t, ask[int](s, "select count(*) + (select count(*) from chat_files) from messages where chat_id = $1", chatID), 8, "rows after the refusals")
	is(t, must(s.turns.StartTurn(t.Context(), s.newUser(), turn))(t), chat.StartedTurn{}, "another user learns of it")
	turn.Revive = true
	revived := s.start(turn)
	is(t, tuple(revived.Brief.Summary, revived.TotalTurns, revived.PendingTurns, revived.Expired.IsZero()), tuple("They talked.", 4, 1, true),
		"brought back it remembers %+v", revived.Chat)
	s.fail(turn, "")
	s.expire(chatID)
	retried := s.repeatOf(turn)
	is(t, s.start(retried).PendingTurns, 1, "a reply is tried again in a chat that expired")
	busy := turnIn(chatID, "Hello?")
	busy.Revive = true
	got := must(s.turns.StartTurn(t.Context(), s.user, busy))(t)
	is(t, tuple(got.Started, got.Running), tuple(false, retried.MessageID), "%+v", got)
	s.reply(retried, "I am.")
	s.start(busy)
}

// More turns than max_turns make a fold due as soon as the reply is saved, however short they are.
func TestTurnLimitEnqueuesAFold(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.newChat(1)
	b.exec("update chats set max_turns = 2 where id = $1", chatID)
	for turns := 2; turns <= 4; turns++ {
		b.exchange(turnIn(chatID, "Next."), "There.")
		folds := must(NewMaintenance(b.pool, b.limits).DueChats(t.Context()))(t)
		is(t, tuple(len(b.folds), slices.Contains(folds, chatID)), tuple(max(0, turns-2), (turns > 2)), "%d turns: folds enqueued, the sweep finds", turns)
	}
	b.exec("update chats set memory_strategy = 'simple' where id = $1", chatID)
	b.exchange(turnIn(chatID, "Next."), "There.")
	is(t, len(b.folds), 2, "a simple chat is folded")
}

// What calls have cost is summed by day, purpose and model, stays when the chat goes, and is forgotten after 400 days. A user who
// is gone has spent nothing, and that is no failure.
func TestUsage(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	var log bytes.Buffer
	usage := &Usage{Pool: b.server, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	chat := b.newChat(1)
	for _, one := range []work.Spent{
		{Purpose: "extract", Model: "m", UserID: b.user.UserID, ChatID: chat, InputTokens: 90, CachedTokens: 64, OutputTokens: 7},
		{Purpose: "extract", Model: "m", UserID: b.user.UserID, ChatID: chat, InputTokens: 10, Estimated: true},
		{Purpose: "entities", Model: "m", UserID: b.user.UserID, InputTokens: 5, OutputTokens: 1},
		{Purpose: "extract", Model: "m", UserID: uuid.New(), InputTokens: 1},
	} {
		usage.Record(t.Context(), one)
	}
	b.exec("delete from chats where id = $1", chat)
	sums := func() string {
		return ask[string](b, `select coalesce(string_agg(format('%s %s %s: %s %s %s', purpose, model, calls, input_tokens, cached_tokens, output_tokens), ', '
			order by purpose), '') from inspect.tokens_by_day where purpose <> 'reply'`)
	}
	is(t, sums(), "entities m 1: 5 0 1, extract m 2: 100 64 7", "spent")
	is(t, log.String(), "", "logged")
	b.exec("update usage_events set created_at = now() - interval '401 days' where purpose = 'extract'")
	noError(t, NewMaintenance(b.pool, b.limits).DeleteOldUsage(t.Context()))
	is(t, sums(), "entities m 1: 5 0 1", "after 400 days")
}
