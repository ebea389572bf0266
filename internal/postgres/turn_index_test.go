package postgres

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// indexed returns the turns of a chat that recall can find, such as "1-2 3-4", and up to where it is indexed.
func (b *bed) indexed(chatID uuid.UUID) (turns string, upto int64) {
	b.t.Helper()
	return ask[string](b, "select coalesce(string_agg(seq || '-' || last_seq, ' ' order by seq), '') from turn_index where chat_id = $1", chatID),
		ask[int64](b, "select indexed_seq from conversation_briefs where chat_id = $1", chatID)
}

// wantIndexed compares indexed.
func (b *bed) wantIndexed(chatID uuid.UUID, turns string, upto int64) {
	b.t.Helper()
	if got, last := b.indexed(chatID); got != turns || last != upto {
		b.t.Errorf("indexed are %q up to %d, want %q up to %d", got, last, turns, upto)
	}
}

// checkIndex compares the index with one that is made anew, for all chats.
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
		with anew as (select chat_id, seq, user_id, last_seq, words_from, said_at, tokens, tsv, lexemes, second_seq from turn_index)
		select coalesce(array_agg(which || left(t::text, 300)), '{}')
		  from (select 'is ' as which, k.* from (table kept except table anew) k union all select 'should be ', a.* from (table anew except table kept) a) t`)
	if len(wrong) > 0 {
		b.t.Errorf("rows of the index are wrong:\n%s", strings.Join(wrong, "\n"))
	}
}

// holders returns the tables with a row that holds a word, in whatever column.
func (b *bed) holders(word string) []string {
	b.t.Helper()
	var found []string
	for _, table := range ask[[]string](b, `select array_agg(c.oid::regclass::text) from pg_class c
		where c.relkind in ('r', 'p') and c.relnamespace in ('public'::regnamespace, 'river'::regnamespace)`) {
		if ask[bool](b, fmt.Sprintf("select exists (select from %s t where t::text ilike '%%' || $1 || '%%')", table), word) {
			found = append(found, table)
		}
	}
	return found
}

// What a brief covers can be found from the moment on at which it is covered; so it is after a rebuild.
func TestCoveredTurnsAreIndexedInTheSameCommit(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.newChat(4)
	change := b.claim(chatID, brief.KindFold)
	change.Plan.SeqTo, change.Plan.LastSummarizedMessageID = 4, change.Planned.Messages[3].ID
	b.wantIndexed(chatID, "", 0)
	b.mustCommit(change)
	b.wantIndexed(chatID, "1-2 3-4", 4)
	b.mustCommit(b.claim(chatID, brief.KindFold))
	b.wantIndexed(chatID, "1-2 3-4 5-6 7-8", 8)
	b.exec("delete from messages where chat_id = $1 and seq = 3", chatID)
	b.exec("delete from turn_index where chat_id = $1 and seq > 1", chatID)
	b.exec("update conversation_briefs set indexed_seq = 2 where chat_id = $1", chatID)
	b.mustCommit(b.claim(chatID, brief.KindRebuild))
	b.wantIndexed(chatID, "1-2 4-4 5-6 7-8", 8)
	b.checkIndex()
}

// A commit that loses writes nothing, and the turns of another try are there once.
func TestLostFoldIndexesNothing(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.newChat(2)
	change := b.claim(chatID, brief.KindFold)
	b.exec("update messages set content = 'edited' where chat_id = $1 and seq = 1", chatID)
	if won, err := b.commit(change); won || err != nil {
		t.Fatalf("commit: %v, %v", won, err)
	}
	b.wantIndexed(chatID, "", 0)
	b.exec("update conversation_briefs set lease_token = null, lease_until = null")
	b.mustCommit(b.claim(chatID, brief.KindFold))
	b.wantIndexed(chatID, "1-2 3-4", 4)
}

// unindex makes a chat one of which nothing is indexed, as one that was folded before there was an index.
func (b *bed) unindex(chatID uuid.UUID) {
	b.t.Helper()
	b.exec("delete from turn_index where chat_id = $1", chatID)
	b.exec("update conversation_briefs set indexed_seq = 0, to_index = true where chat_id = $1", chatID)
}

// Of a chat that was folded and not indexed, the next fold indexes all that it covers.
func TestNextFoldCatchesUp(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.newChat(3)
	b.mustCommit(b.claim(chatID, brief.KindFold))
	b.unindex(chatID)
	b.wantIndexed(chatID, "", 0)
	for range 3 {
		turn := turnIn(chatID, "And now?")
		b.start(turn)
		b.reply(turn, "Now, too.")
	}
	b.mustCommit(b.claim(chatID, brief.KindFold))
	b.wantIndexed(chatID, "1-2 3-4 5-6 7-8 9-10 11-12", 12)
}

// newSimpleChat is newChat with the strategy that has no folds.
func (b *bed) newSimpleChat(turns int) uuid.UUID {
	b.t.Helper()
	first := firstTurn("question number 1")
	first.Strategy = memory.StrategySimple
	b.start(first)
	b.reply(first, "answer number 1")
	for range turns - 1 {
		turn := turnIn(first.ChatID, "another question")
		b.start(turn)
		b.reply(turn, "another answer")
	}
	return first.ChatID
}

// A simple chat has no folds. Its job is inserted with the reply of the fourth turn that is not indexed.
func TestSimpleChatIsIndexedAfterFourTurns(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.newSimpleChat(3)
	if len(b.indexes) != 0 {
		t.Fatal("a job after three turns")
	}
	turn := turnIn(chatID, "The fourth?")
	b.start(turn)
	b.reply(turn, "The fourth.")
	if got := testkit.Receive(t, "the job", b.indexes); got != chatID || len(b.indexes) != 0 {
		t.Fatalf("a job of %s, and %d more", got, len(b.indexes))
	}
	for range 2 { // twice is once
		if err := b.index.IndexTurns(t.Context(), chatID); err != nil {
			t.Fatal(err)
		}
	}
	b.wantIndexed(chatID, "1-2 3-4 5-6 7-8", 8)
	b.newChat(6)
	if len(b.indexes) != 0 || len(b.folds) != 0 {
		t.Error("a job of a chat that is not simple")
	}
	if err := b.index.IndexTurns(t.Context(), uuid.New()); err != nil {
		t.Errorf("a chat that is gone: %v", err)
	}
}

// An import of a simple chat, which may be long, is indexed by its job, and the rest by the sweep.
func TestLongChatIsIndexedInParts(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.newSimpleChat(1)
	b.exec(`insert into messages (chat_id, role, content, created_at)
		select $1, (array['user', 'assistant'])[1 + n % 2], 'word ' || n, now() - interval '1 day' from generate_series(0, 1199) n`, chatID)
	b.exec("update chats set last_message_at = now() - interval '1 day'")
	if err := b.index.IndexTurns(t.Context(), chatID); err != nil {
		t.Fatal(err)
	}
	if _, upto := b.indexed(chatID); upto != 500 {
		t.Errorf("indexed up to %d", upto)
	}
	chats, err := b.index.IndexRested(t.Context(), time.Minute, testkit.Patience)
	if err != nil || chats != 2 {
		t.Errorf("%d times, %v", chats, err)
	}
	if _, upto := b.indexed(chatID); upto != 1202 {
		t.Errorf("indexed up to %d", upto)
	}
	b.checkIndex()
}

// The sweep indexes the last turns of chats that rest, and only those.
func TestRestedChatsAreIndexed(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	rested, busy, empty, running := b.newChat(2), b.newChat(2), firstTurn("x").ChatID, b.newChat(1)
	b.exec("insert into chats (id, user_id, created_at) values ($1, $2, now() - interval '1 hour')", empty, b.user.UserID)
	covered := b.newChat(1)
	b.mustCommit(b.claim(covered, brief.KindFold))
	b.unindex(covered)
	wait := turnIn(running, "Wait.")
	b.start(wait)
	b.exec("update chats set last_message_at = now() - interval '61 seconds' where id = any($1)", []uuid.UUID{rested, running})

	if got := ask[[]string](b, "select array_agg(chat_id || ' ' || reason order by reason) from inspect.unindexed"); len(got) != 2 ||
		!strings.HasPrefix(got[0], covered.String()+" its brief covers them") || !strings.HasPrefix(got[1], rested.String()+" nobody has spoken for a minute") {
		t.Errorf("not indexed: %q", got)
	}
	if chats, err := b.index.IndexRested(t.Context(), time.Minute, testkit.Patience); err != nil || chats != 3 {
		t.Errorf("%d chats, %v", chats, err)
	}
	b.wantIndexed(rested, "1-2 3-4", 4)
	b.wantIndexed(covered, "1-2", 2)
	b.wantIndexed(busy, "", 0)
	b.wantIndexed(running, "", 0)
	if got := ask[int](b, "select count(*) from inspect.unindexed"); got != 0 {
		t.Errorf("%d chats are not indexed", got)
	}
	if chats, err := b.index.IndexRested(t.Context(), time.Minute, testkit.Patience); err != nil || chats != 0 {
		t.Errorf("once more: %d chats, %v", chats, err)
	}
	b.reply(wait, "Here it is.")
	b.exec("update chats set last_message_at = now() - interval '61 seconds' where id = $1", running)
	if chats, err := b.index.IndexRested(t.Context(), time.Minute, testkit.Patience); err != nil || chats != 1 {
		t.Errorf("after the reply: %d chats, %v", chats, err)
	}
	b.wantIndexed(running, "1-2 3-4", 4)
}

// A chat that somebody writes to at this moment is left to the next sweep.
func TestSweepWaitsForNoChat(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	locked, free := b.newChat(1), b.newChat(1)
	tx := b.begin()
	mustExec(t, tx, "select from conversation_briefs where chat_id = $1 for update", locked)
	if chats, err := b.index.IndexRested(t.Context(), -time.Minute, testkit.Patience); err != nil || chats != 1 {
		t.Errorf("%d chats, %v", chats, err)
	}
	b.wantIndexed(free, "1-2", 2)
	b.wantIndexed(locked, "", 0)
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
	if saved, err := b.turns.SaveReply(t.Context(), b.user, failed); err != nil || !saved {
		t.Fatal(saved, err)
	}
	if err := b.index.IndexTurns(t.Context(), turn.ChatID); err != nil {
		t.Fatal(err)
	}
	again := turnIn(turn.ChatID, "")
	again.UserMessageID, again.InPlaceOf = turn.UserMessageID, turn.MessageID
	b.start(again)
	b.reply(again, "Marimba")
	b.wantIndexed(turn.ChatID, "1-1", 2)
	if err := b.index.IndexTurns(t.Context(), turn.ChatID); err != nil {
		t.Fatal(err)
	}
	b.wantIndexed(turn.ChatID, "1-3", 3)
	if got := ask[string](b, "select string_agg(lexeme, ' ' order by lexeme) from turn_index, unnest(tsv) where weights <@ '{A,B}'"); got != "call is it marimba what" {
		t.Errorf("the words are %q", got)
	}
	// A server that was taken for dead stores the rest of a reply that is indexed.
	late := turnIn(turn.ChatID, "More?")
	b.start(late)
	b.exec("update messages set status = 'interrupted', content = 'First' where id = $1", late.MessageID)
	if err := b.index.IndexTurns(t.Context(), turn.ChatID); err != nil {
		t.Fatal(err)
	}
	b.reply(late, "First, second")
	if !ask[bool](b, "select exists (select from turn_index where seq = 4 and tsv @@ 'second')") {
		t.Error("the rest of the reply is not indexed")
	}
	b.checkIndex()
}

// The words of a vector are those of its row: when they change, it goes; when they do not, it stays.
func TestVectorsGoWithTheWords(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.newChat(3)
	if err := b.index.IndexTurns(t.Context(), chatID); err != nil {
		t.Fatal(err)
	}
	b.exec("update turn_index set embedding = ('[1' || repeat(',0', 511) || ']')::throughline.embedding, embedding_model = 'm'")
	b.exec("update messages set metadata = '{\"read\": true}', content = content")
	b.exec("update messages set content = 'The last answer' where seq = 6")
	if got := ask[string](b, "select string_agg(seq::text, ' ' order by seq) from turn_index where embedding is not null"); got != "1 3" {
		t.Errorf("vectors of %q are left", got)
	}
}

// Turns are those of which prompts and briefs are made. Only a late reply is a turn of its own here, because a row is a
// range of messages; it has what comes before the next question.
func TestIndexedTurnsAreMemorysTurns(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	random := seeded(t)
	for n := range races(t, 60) {
		chatID := ask[uuid.UUID](b, "insert into chats (user_id, title) values ($1, 'x') returning id", b.user.UserID)
		messages := b.writeAnyhow(random, chatID, 1+random.IntN(14))
		if err := b.index.IndexTurns(t.Context(), chatID); err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, turn := range memory.Turns(messages) {
			worded := slices.DeleteFunc(turn.Messages, func(m memory.Message) bool { return m.Blank() })
			want = append(want, fmt.Sprintf("%d-%d", worded[0].Seq, worded[len(worded)-1].Seq))
		}
		if got, _ := b.indexed(chatID); got != strings.Join(want, " ") {
			t.Fatalf("round %d: indexed are %q, want %q of %+v", n, got, want, messages)
		}
	}
	b.checkIndex()
}

// writeAnyhow stores messages of any kind: blank ones, several replies to a question, and replies to what was deleted. No
// reply comes late: only then are memory's turns no ranges.
func (b *bed) writeAnyhow(random *rand.Rand, chatID uuid.UUID, n int) []memory.Message {
	b.t.Helper()
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
	b.mustCommit(b.claim(chatID, brief.KindFold))
	assigned := func(want int64) {
		t.Helper()
		if got := ask[int64](b, "select assigned_seq from conversation_briefs where chat_id = $1", chatID); got != want {
			t.Errorf("topics are chosen up to %d, want %d", got, want)
		}
	}
	b.exec("update messages set content = '' where chat_id = $1 and seq in (3, 4)", chatID)
	b.exec("update conversation_briefs set assigned_seq = indexed_seq where chat_id = $1", chatID)
	b.wantIndexed(chatID, "1-2 5-6", 6)
	turn := turnIn(chatID, "one more")
	b.start(turn)
	b.reply(turn, "as well")
	b.exec("select throughline.index_chat($1, null)", chatID)
	b.wantIndexed(chatID, "1-2 5-6 7-8", 8)
	assigned(6)
	b.exec("update messages set content = 'It is back.' where chat_id = $1 and seq = 3", chatID)
	b.wantIndexed(chatID, "1-2 3-3 5-6 7-8", 8)
	assigned(2)
	b.checkIndex()
}
