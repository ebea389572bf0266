package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// indexed returns the turns of a chat that recall can find, such as "1-2 3-4", and up to where it is indexed.
func (b *bed) indexed(chatID uuid.UUID) (turns string, upto int64) {
	return ask[string](b, "select coalesce(string_agg(seq || '-' || last_seq, ' ' order by seq), '') from turn_index where chat_id = $1", chatID),
		ask[int64](b, "select indexed_seq from conversation_briefs where chat_id = $1", chatID)
}

// wantIndexed compares indexed.
func (b *bed) wantIndexed(chatID uuid.UUID, turns string, upto int64) {
	got, last := b.indexed(chatID)
	assert.Truef(b.t, got == turns && last == upto, "indexed are %q up to %d, want %q up to %d", got, last, turns, upto)
}

// checkIndex compares the index with one that is made again, for all chats.
func (b *bed) checkIndex() {
	b.t.Helper()
	tx := b.begin()
	defer func() { _ = tx.Rollback(b.t.Context()) }()
	for _, sql := range []string{
		"create temp table kept on commit drop as select chat_id, seq, user_id, last_seq, words_from, said_at, tokens, tsv, lexemes, second_seq from turn_index",
		"delete from turn_index",
		"select throughline.write_turn_index(chat_id, 1, indexed_seq) from conversation_briefs",
	} {
		mustExec(b.t, tx, sql)
	}
	wrong := testkit.Ask[[]string](b.t, tx, `
		with again as (select chat_id, seq, user_id, last_seq, words_from, said_at, tokens, tsv, lexemes, second_seq from turn_index)
		select coalesce(array_agg(which || left(t::text, 300)), '{}')
		  from (select 'is ' as which, k.* from (table kept except table again) k union all select 'should be ', a.* from (table again except table kept) a) t`)
	is(b.t, len(wrong), 0, "rows of the index are wrong:\n%s", strings.Join(wrong, "\n"))
}

// holders returns the tables with a row that holds a word, in any column.
func (b *bed) holders(word string) []string {
	var found []string
	for _, table := range ask[[]string](b, `select array_agg(c.oid::regclass::text) from pg_class c
		where c.relkind in ('r', 'p') and c.relnamespace in ('public'::regnamespace, 'river'::regnamespace)`) {
		if ask[bool](b, fmt.Sprintf("select exists (select from %s t where t::text ilike '%%' || $1 || '%%')", table), word) {
			found = append(found, table)
		}
	}
	return found
}

// What a brief covers can be found from the moment on at which it is covered; so it is when it is folded again. Of a chat that was folded
// and not indexed, the next fold indexes all that it covers.
func TestCoveredTurnsAreIndexedInTheSameCommit(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.newChat(4)
	change := b.claim(chatID)
	change.Plan.SeqTo, change.Plan.LastSummarizedMessageID = 4, change.Planned.Messages[3].ID
	b.wantIndexed(chatID, "", 0)
	b.mustCommit(change)
	b.wantIndexed(chatID, "1-2 3-4", 4)
	b.unindex(chatID)
	b.mustCommit(b.claim(chatID))
	b.wantIndexed(chatID, "1-2 3-4 5-6 7-8", 8)
	b.exec("delete from messages where chat_id = $1 and seq = 3", chatID)
	b.exec("delete from turn_index where chat_id = $1 and seq > 1", chatID)
	b.exec("update conversation_briefs set indexed_seq = 2 where chat_id = $1", chatID)
	b.mustCommit(b.claim(chatID))
	b.wantIndexed(chatID, "1-2 4-4 5-6 7-8", 8)
	// The words of a vector are those of its row: when they change, it goes; when they do not, it stays.
	b.exec("update turn_index set embedding = ('[1' || repeat(',0', 511) || ']')::throughline.embedding, embedding_model = 'm'")
	b.exec("update messages set metadata = '{\"read\": true}', content = content")
	b.exec("update messages set content = 'The last answer' where seq = 8")
	is(t, ask[string](b, "select string_agg(seq::text, ' ' order by seq) from turn_index where embedding is not null"), "1 4 5", "vectors of … are left")
	b.checkIndex()
}

// unindex makes a chat one of which nothing is indexed, as one that was folded before there was an index.
func (b *bed) unindex(chatID uuid.UUID) {
	b.exec("delete from turn_index where chat_id = $1", chatID)
	b.exec("update conversation_briefs set indexed_seq = 0, to_index = true where chat_id = $1", chatID)
}

// A simple chat has no folds. Its job is inserted with the reply of the fourth turn that is not indexed.
func TestSimpleChatIsIndexedAfterFourTurns(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.newChatOf(memory.StrategySimple, 3)
	require.Equal(t, 0, len(b.indexes), "a job after three turns")
	b.exchange(turnIn(chatID, "The fourth?"), "The fourth.")
	got := testkit.Receive(t, "the job", b.indexes)
	mustBe(t, tuple(got, len(b.indexes)), tuple(chatID, 0), "a job of …, and … more")
	for range 2 { // twice is once
		noError(t, b.index.RunIndexTurns(t.Context(), chatID, 0))
	}
	b.wantIndexed(chatID, "1-2 3-4 5-6 7-8", 8)
	b.newChat(6)
	is(t, tuple(len(b.indexes), len(b.folds)), tuple(0, 0), "a job of a chat that is not simple")
	fine(t, b.index.RunIndexTurns(t.Context(), uuid.New(), 0), "a chat that is gone")
}

// An import of a simple chat, which may be long, is indexed by its job, and the rest by the sweep.
func TestLongChatIsIndexedInParts(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.newChatOf(memory.StrategySimple, 1)
	b.exec(`insert into messages (chat_id, role, content, created_at)
		select $1, (array['user', 'assistant'])[1 + n % 2], 'word ' || n, now() - interval '1 day' from generate_series(0, 1199) n`, chatID)
	b.exec("update chats set last_message_at = now() - interval '1 day'")
	noError(t, b.index.RunIndexTurns(t.Context(), chatID, 0))
	_, upto := b.indexed(chatID)
	assert.Truef(t, upto == 500, "indexed up to %d", upto)
	chats, err := b.index.IndexRested(t.Context(), time.Minute, testkit.Patience)
	is(t, tuple(err, chats), tuple(nil, 2), "times")
	_, upto = b.indexed(chatID)
	assert.Truef(t, upto == 1202, "indexed up to %d", upto)
	b.checkIndex()
}

// The sweep indexes the last turns of chats that rest, and only those. A chat that somebody writes to at this moment is left to
// the next sweep.
func TestRestedChatsAreIndexed(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	rested, busy, empty, running := b.newChat(2), b.newChat(2), b.emptyChat(), b.newChat(1)
	covered := b.newChat(1)
	b.mustCommit(b.claim(covered))
	b.unindex(covered)
	wait := turnIn(running, "Wait.")
	b.start(wait)
	b.exec("update chats set last_message_at = now() - interval '61 seconds' where id = any($1)", []uuid.UUID{rested, running})
	b.exec("update chats set created_at = now() - interval '1 hour' where id = $1", empty)
	if got := ask[[]string](b, "select array_agg(chat_id || ' ' || reason order by reason) from inspect.unindexed"); len(got) != 2 ||
		!strings.HasPrefix(got[0], covered.String()+" its brief covers them") || !strings.HasPrefix(got[1], rested.String()+" nobody has spoken for a minute") {
		t.Errorf("not indexed: %q", got)
	}
	sweep := func(want int) {
		t.Helper()
		is(t, must(b.index.IndexRested(t.Context(), time.Minute, testkit.Patience))(t), want, "chats")
	}
	writing := b.begin()
	mustExec(t, writing, "select from conversation_briefs where chat_id = $1 for update", rested)
	sweep(2)
	b.wantIndexed(rested, "", 0)
	noError(t, writing.Commit(t.Context()))
	sweep(1)
	b.wantIndexed(rested, "1-2 3-4", 4)
	b.wantIndexed(covered, "1-2", 2)
	b.wantIndexed(busy, "", 0)
	b.wantIndexed(running, "", 0)
	is(t, b.count("inspect.unindexed"), 0, "chats are not indexed")
	sweep(0)
	b.reply(wait, "Here it is.")
	b.exec("update chats set last_message_at = now() - interval '61 seconds' where id = $1", running)
	sweep(1)
	b.wantIndexed(running, "1-2 3-4", 4)
}

// A reply that was broken off is indexed as such; another takes its place in the turn.
func TestRegeneratedReplyReplacesTheWords(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	turn := firstTurn("What is it called?")
	turn.ClientMessageID = uuid.New()
	b.start(turn)
	failed := finished(turn, "It is called Xylophon")
	failed.Status = memory.StatusInterrupted
	saved, err := b.turns.SaveReply(t.Context(), b.user, failed)
	require.Truef(t, err == nil && saved, "%v %v", saved, err)
	noError(t, b.index.RunIndexTurns(t.Context(), turn.ChatID, 0))
	b.exchange(b.repeatOf(turn), "Marimba")
	b.wantIndexed(turn.ChatID, "1-1", 2)
	noError(t, b.index.RunIndexTurns(t.Context(), turn.ChatID, 0))
	b.wantIndexed(turn.ChatID, "1-3", 3)
	is(t, ask[string](b, "select string_agg(lexeme, ' ' order by lexeme) from turn_index, unnest(tsv) where weights <@ '{A,B}'"),
		"call is it marimba what", "the words")
	// A server that was taken for dead stores the rest of a reply that is indexed.
	late := turnIn(turn.ChatID, "More?")
	b.start(late)
	b.exec("update messages set status = 'interrupted', content = 'First' where id = $1", late.MessageID)
	noError(t, b.index.RunIndexTurns(t.Context(), turn.ChatID, 0))
	b.reply(late, "First, second")
	is(t, ask[bool](b, "select exists (select from turn_index where seq = 4 and tsv @@ 'second')"), true, "the rest of the reply is not indexed")
	b.checkIndex()
}

// Turns are those of which prompts and briefs are made. Only a late reply is a turn of its own here, because a row is a
// range of messages; it has what comes before the next question.
func TestIndexedTurnsAreMemorysTurns(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	random := seeded(t)
	for n := range races(60) {
		chatID := b.emptyChat()
		messages := b.writeAnyhow(random, chatID, 1+random.IntN(14))
		noError(t, b.index.RunIndexTurns(t.Context(), chatID, 0))
		var want []string
		for _, turn := range memory.Turns(messages) {
			worded := slices.DeleteFunc(turn.Messages, func(m memory.Message) bool { return m.Blank() })
			want = append(want, fmt.Sprintf("%d-%d", worded[0].Seq, worded[len(worded)-1].Seq))
		}
		got, _ := b.indexed(chatID)
		require.Truef(t, got == strings.Join(want, " "), "round %d: indexed are %q, want %q of %+v", n, got, want, messages)
	}
	b.checkIndex()
}

// writeAnyhow stores messages of any kind: blank ones, several replies to a question, and replies to deleted messages. No
// reply comes late: only then are memory's turns no ranges.
func (b *bed) writeAnyhow(random *rand.Rand, chatID uuid.UUID, n int) []memory.Message {
	var messages []memory.Message
	var asked uuid.UUID
	for seq := range int64(n) {
		m := memory.Message{ID: uuid.New(), Seq: seq + 1, Role: memory.RoleUser, Content: fmt.Sprint("word", seq)}
		switch kind := random.IntN(10); {
		case seq == 0 || kind < 4:
			asked = m.ID
		case kind < 7:
			m.Role, m.ReplyTo = memory.RoleAssistant, asked
		case kind < 8:
			m.Role, m.ReplyTo, asked = memory.RoleAssistant, uuid.New(), uuid.Nil
		case kind < 9:
			m.Role = memory.RoleTool
		default:
			m.Role = memory.RoleAssistant
		}
		if m.Role == memory.RoleAssistant && (m.ReplyTo == uuid.Nil || m.ReplyTo == asked) && random.IntN(5) == 0 {
			m.Content = " \n"
		}
		b.exec("insert into messages (id, chat_id, role, content, reply_to) values ($1, $2, $3, $4, $5)", m.ID, chatID, m.Role, m.Content, nullID(m.ReplyTo))
		messages = append(messages, m)
	}
	return messages
}

// A turn that appears among those whose topics were chosen has none, so topics are chosen from there on. New turns at the end
// leave that place alone.
func TestTurnAmongOlderOnesHasNoTopicYet(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.newChat(3)
	b.mustCommit(b.claim(chatID))
	assigned := func(want int64) {
		t.Helper()
		is(t, ask[int64](b, "select assigned_seq from conversation_briefs where chat_id = $1", chatID), want, "topics are chosen up to")
	}
	b.exec("update messages set content = '' where chat_id = $1 and seq in (3, 4)", chatID)
	b.exec("update conversation_briefs set assigned_seq = indexed_seq where chat_id = $1", chatID)
	b.wantIndexed(chatID, "1-2 5-6", 6)
	b.exchange(turnIn(chatID, "one more"), "as well")
	b.exec("select throughline.index_chat($1, null)", chatID)
	b.wantIndexed(chatID, "1-2 5-6 7-8", 8)
	assigned(6)
	b.exec("update messages set content = 'It is back.' where chat_id = $1 and seq = 3", chatID)
	b.wantIndexed(chatID, "1-2 3-3 5-6 7-8", 8)
	assigned(2)
	b.checkIndex()
}

// What a tool said is where the reply is, and nowhere else: not in the index, in topics, or found by search.
func TestOutputsOfToolsAreNotIndexed(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.newChat(1)
	b.say(chatID, "user", "Read my list.")
	b.exec(`insert into messages (chat_id, role, content, parts) values ($1, 'assistant', 'Done.', $2)`, chatID,
		`[{"type": "tool_call", "at": 0, "call_id": "a", "name": "list", "arguments": {"of": "`+canary+`"}, "run": "client", "approval": false},
		  {"type": "tool_result", "at": 0, "call_id": "a", "status": "done", "output": "a `+canary+`"}, {"type": "source", "at": 0, "title": "`+canary+`"}]`)
	b.say(chatID, "user", "Thanks.")
	noError(t, b.index.RunIndexTurns(t.Context(), chatID, 0))
	b.wantIndexed(chatID, "1-2 3-4 5-5", 5)
	is(t, b.holders(canary), []string{"messages"}, "who holds it")
	is(t, b.recalled(b.user, recall.Query{Text: canary}), nil, "recalled")
	b.exec("delete from messages where chat_id = $1 and seq = 4", chatID)
	is(t, b.holders(canary), nil, "who holds it later")
}

// Whoever indexes, and whoever edits or deletes at that moment: no word of a message outlives it in any table, and every
// other one can be found.
func TestNoWordOutlivesItsMessage(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	random := seeded(t)
	changes := []string{
		"delete from messages where id = any($1)",
		"update messages set content = 'I own a drum' where id = any($1)",
		"update messages set content = '' where id = any($1)",
		"update messages set superseded_by = id, token_count = 0, content = '' where id = any($1)",
	}
	for n := range races(100) { // 25 in short mode
		chatID := b.newChat(2)
		said := b.exchange(turnIn(chatID, "I own a "+canary), "A "+canary+"!")
		b.exchange(turnIn(chatID, "And more?"), "Nothing.")
		change := b.claim(chatID)
		if random.IntN(2) == 0 { // a changed turn is indexed already, with the words of the turn after it
			noError(t, b.index.RunIndexTurns(t.Context(), chatID, 0))
		}
		what := changes[random.IntN(len(changes))]
		b.atOnce(n, random, []func() error{
			func() error { return errOf(b.commit(change)) },
			func() error { return b.index.RunIndexTurns(t.Context(), chatID, 0) },
			func() error { return errOf(b.index.IndexRested(t.Context(), -time.Minute, testkit.Patience)) },
			func() error {
				return errOf(b.pool.Exec(t.Context(), what, []uuid.UUID{said.UserMessageID, said.MessageID}))
			},
		})
		noError(t, b.index.RunIndexTurns(t.Context(), chatID, 0))
		mustBe(t, len(b.holders(canary)), 0, "round %d: after %s … hold it", n, what)
		mustBe(t, b.count("conversation_briefs where indexed_seq < covered_seq or to_index"), 0, "round %d: chats are not indexed to their end", n)
	}
	b.checkIndex()
	b.checkCounters()
}

// Deleting a user, a chat, or hundreds of messages while workers index ends, and leaves nothing.
func TestBulkDeletionWhileWorkersIndex(t *testing.T) {
	t.Parallel()
	b, random := newBed(t), seeded(t)
	for n := range races(40) {
		b.user = b.newUser()
		chats := []uuid.UUID{b.newChat(1), b.newChatOf(memory.StrategySimple, 1)}
		b.exec(`insert into messages (chat_id, role, content) select id, (array['user', 'assistant'])[1 + n % 2], 'xylophon ' || n
			from chats, generate_series(0, 399) n where user_id = $1`, b.user.UserID)
		deletion := []string{
			"delete from auth.users where id = $1", "delete from chats where user_id = $1",
			"delete from messages where user_id = $1", "delete from messages where user_id = $1 and content like 'xylophon%'",
		}[n%4]
		b.atOnce(n, random, []func() error{
			func() error { return b.index.RunIndexTurns(t.Context(), chats[0], 0) },
			func() error { return b.index.RunIndexTurns(t.Context(), chats[1], 0) },
			func() error { return errOf(b.index.IndexRested(t.Context(), -time.Minute, testkit.Patience)) },
			func() error {
				return inTx(t.Context(), b.pool, func(tx pgx.Tx) error { return errOf(tx.Exec(t.Context(), deletion, b.user.UserID)) })
			},
		})
	}
	is(t, len(b.holders("xylophon")), 0, "hold the deleted word")
	b.checkIndex()
}

// Expired chats are deleted after their retention time, and idle ones, in many small transactions. One with a running reply stays.
// A message or a revival counts as activity.
func TestOldChatsAreDeleted(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	m := NewMaintenance(s.pool, s.limits)
	living, recent, expired, revived, busy := s.newChat(1), s.newChat(1), s.newChat(1), s.newChat(1), s.newChat(1)
	s.start(turnIn(busy, "Wait for me."))
	for id, ago := range map[uuid.UUID]string{recent: "28 days", expired: "32 days", busy: "32 days"} {
		s.expire(id)
		s.age(id, ago)
	}
	s.age(living, "400 days")
	is(t, must(m.DeleteExpired(t.Context(), 30))(t), 1, "deleted")
	is(t, tuple(s.count("chats"), s.count("chats where id = $1", expired)), tuple(4, 0), "left")
	is(t, must(m.DeleteExpired(t.Context(), 1<<40))(t), 0, "deleted after an age")
	s.age(revived, "400 days")
	s.exec("update chats set revived_at = now() where id = $1", revived)
	s.exec("insert into chats (user_id, created_at) select $1, now() - interval '33 days' from generate_series(1, $2)", s.user.UserID, 2*deletedAtOnce)
	is(t, must(m.DeleteIdle(t.Context(), 31))(t), 2*deletedAtOnce+1, "idle ones deleted")
	is(t, tuple(s.count("chats"), s.count("chats where id = $1", living)), tuple(3, 0), "left")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := m.DeleteIdle(ended, 1)
	assert.Error(t, err, "an error was kept quiet")
}
