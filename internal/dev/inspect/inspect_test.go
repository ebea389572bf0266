package inspect_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/dev/inspect"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// story is a chat of six turns: two folds took in the first four, the last two are in the buffer.
type story struct {
	database testkit.Database
	chat     string
	reply    string // the last assistant message
	user     string
	memory   string // that she plays the cello, which the reply was shown
}

func execute(t *testing.T, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func connect(t *testing.T, database testkit.Database) *pgx.Conn {
	t.Helper()
	return testkit.Connect(t, database.DSN)
}

func tell(t *testing.T) story {
	t.Helper()
	s := story{database: testkit.NewDatabase(t), chat: uuid.NewString(), memory: uuid.NewString()}
	user := testkit.NewUser(t, s.database)
	s.user = user.String()
	conn := connect(t, s.database)
	execute(t, conn, "insert into chats (id, user_id, title) values ($1, $2, $3)", s.chat, user, "Scales\x1b[2J and arpeggios")
	for turn := 1; turn <= 6; turn++ {
		question := uuid.NewString()
		s.reply = uuid.NewString()
		execute(t, conn, "insert into messages (id, chat_id, role, content, token_count) values ($1, $2, 'user', $3, 100)",
			question, s.chat, fmt.Sprintf("question %d", turn))
		execute(t, conn, `insert into messages (id, chat_id, role, content, token_count, reply_to, metadata) values ($1, $2, 'assistant', $3, 200, $4, $5)`,
			s.reply, s.chat, fmt.Sprintf("answer %d", turn), question, `{"model_variant": "arco-pro", "model": "big", "finish_reason": "stop",
			 "usage": {"input_tokens": 900, "cached_tokens": 512, "output_tokens": 200}, "memory": {"brief_version": 2, "brief_tokens": 40,
			 "covered_through_seq": 8, "bridge_turns": 0, "bridge_tokens": 0, "tail_turns": 1, "tail_tokens": 300, "dropped_turns": 0, "truncated": false}}`)
	}
	revise := `insert into conversation_brief_revisions (chat_id, user_id, version, kind, seq_from, seq_to, turns, global_summary,
		input_tokens, output_tokens, prompt_mode, prompt_ref, model, duration_ms, input_sha256, details)
		values ($1, $2, $3, 'fold', $4, $5, 2, $6, 1000, 30, 'inline', 'summary@1', 'small', 1200, '', $7)`
	execute(t, conn, revise, s.chat, user, 1, 1, 4, "She plays the cello. She practises at night.", `{"tokens_before": 0, "tokens_after": 30, "turns_tokens": 600, "calls": 1}`)
	execute(t, conn, revise, s.chat, user, 2, 5, 8, "She plays the cello. She practises at noon.", `{"tokens_before": 30, "tokens_after": 40, "turns_tokens": 600, "calls": 1}`)
	execute(t, conn, `update conversation_briefs set version = 2, covered_seq = 8, brief_tokens = 40, pending_tokens = 600, pending_turns = 2,
		brief = jsonb_build_object('global_summary', 'She plays the cello. She practises at noon.', 'last_summarized_message_id', $2::uuid) where chat_id = $1`, s.chat, uuid.NewString())
	s.rememberCello(t, conn)
	s.talkAboutCello(t, conn)
	return s
}

// talkAboutCello makes a topic of the chat's first turn, which was packed three days ago.
func (s story) talkAboutCello(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	execute(t, conn, `insert into topics (chat_id, user_id, number, title, title_seq, importance, access_count, message_count, created_at, last_active_at,
		first_seq, last_seq, compacted_seq, archive, archive_messages, archive_raw_bytes, archive_sha256, state)
		values ($1, $2, 1, 'Cello', 1, 0.5, 0, 2, now() - interval '3 days', now() - interval '12 hours', 1, 2, 2, 'packed', 2, 15, 'x', 'archived')`, s.chat, s.user)
	execute(t, conn, `insert into turn_index (chat_id, user_id, seq, last_seq, words_from, segment, said_at, tokens, tsv, lexemes, topic_id, topic_model, resting)
		select chat_id, user_id, 1, 2, 1, 1, created_at, 1, '', 0, id, 'm', true from topics where chat_id = $1`, s.chat)
	execute(t, conn, `insert into turn_index (chat_id, user_id, seq, last_seq, words_from, segment, said_at, tokens, tsv, lexemes)
		values ($1, $2, 3, 4, 1, 1, now(), 1, '', 0)`, s.chat, s.user)
}

// rememberCello stores what the first four messages are remembered for: an instrument that took the place of another, twice.
func (s story) rememberCello(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	execute(t, conn, "insert into memory_users (user_id) values ($1)", s.user)
	execute(t, conn, `insert into memory_extractions (chat_id, user_id, seq_from, seq_to, turns, result, candidates, added, superseded, dropped, calls,
		input_tokens, output_tokens, model, prompt_ref, duration_ms) values ($1, $2, 1, 4, 2, 'done', 5, 2, 1, '{"secret": 1, "no_quote": 2}', 2, 1400, 90, 'small', 'extract@1', 800)`, s.chat, s.user)
	execute(t, conn, "update conversation_briefs set extracted_seq = 4 where chat_id = $1", s.chat)
	execute(t, conn, `insert into memories (id, user_id, content, status, superseded_by, valid_to) values (gen_random_uuid(), $1, 'Plays the viola', 'superseded', $2, '2026-02-01')`, s.user, s.memory)
	execute(t, conn, `insert into memories (id, user_id, content, memory_type, source_session_id, valid_from, valid_precision)
		select $1, $2, 'Plays the cello', 'fact', $3, '2026-02-01', 'month' from (select throughline.note_change('ADD', 'nothing like it', 'model', 'small', 'consolidate@1')) noted`, s.memory, s.user, s.chat)
	execute(t, conn, `insert into memories (user_id, content, origin) values ($1, 'At noon (plays) the cello', 'user')`, s.user)
	execute(t, conn, "update memories set confidence = 0.9, content = 'Plays the cello at noon' where id = $1", s.memory)
	execute(t, conn, `insert into memory_sources (memory_id, message_id, user_id, chat_id, seq, fact, quote, said_at, extraction_id)
		select $1, m.id, m.user_id, m.chat_id, m.seq, 'Plays the cello at noon', 'I play the cello', '2026-03-14', e.id
		  from messages m join memory_extractions e using (chat_id) where m.chat_id = $2 and m.seq = 3`, s.memory, s.chat)
	execute(t, conn, "insert into memory_entities (user_id, name, entity_type, is_user) values ($1, 'User', 'person', true), ($1, 'cello', 'tool', false)", s.user)
	execute(t, conn, "insert into memory_mentions (memory_id, entity_id, user_id) select $1, id, user_id from memory_entities where user_id = $2", s.memory, s.user)
	execute(t, conn, `insert into memory_relationships (user_id, source_entity_id, target_entity_id, relationship, memory_id, valid_from)
		select u.user_id, u.id, c.id, 'plays', $1, '2026-02-01' from memory_entities u join memory_entities c using (user_id) where u.is_user and not c.is_user and u.user_id = $2`, s.memory, s.user)
	execute(t, conn, `update messages set metadata = jsonb_set(jsonb_set(metadata, '{memory,memories}', jsonb_build_array($2::text, gen_random_uuid(), 'no id', 7)), '{memory,recalled}', '[1, 999, "x", 1e300]') where id = $1`, s.reply, s.memory)
}

func (s story) print(t *testing.T, limits memory.Limits) string {
	t.Helper()
	var out strings.Builder
	if err := inspect.Print(t.Context(), &out, s.database.DSN, s.chat, limits); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func wantLines(t *testing.T, report string, lines ...string) {
	t.Helper()
	rest := report
	for _, line := range lines {
		_, after, found := strings.Cut(rest, line)
		if !found {
			t.Errorf("there is no %q, or not in this place, in:\n%s", line, report)
			continue
		}
		rest = after
	}
}

func TestReportOnAChat(t *testing.T) {
	t.Parallel()
	s := tell(t)
	report := s.print(t, memory.DefaultLimits())
	wantLines(t, report,
		"Chat "+s.chat+", 12 messages: Scales [2J and arpeggios\n",
		"BRIEF  version 2, just now, 40 tokens, covers 4 turns up to message 8\n",
		"  | She plays the cello. She practises at noon.\n",
		"CHUNK BUFFER  2 turns, 600 tokens, the oldest from just now\n",
		"  the next fold is 5361 tokens and 2 turns away\n",
		"REVISIONS  newest first\n",
		"  version 2, fold at ", "2 turns (messages 5 to 8), 30 to 40 tokens, small, summary@1, 1200 ms\n",
		"    - She practises at night.\n",
		"    + She practises at noon.\n",
		"  version 1, fold at ",
		"    + She plays the cello.\n",
		"RECEIPTS", "6     "+s.reply+"  complete  arco-pro  version 2, 40 tokens  0 turns, 0 tokens  1 turns, 300 tokens  0        900/512/200\n",
		"MEMORIES", "  Plays the cello at noon  (fact, active, confidence 0.90, said in 1 message, since 2026-02)\n",
		"  not read yet: 4 turns: nothing is due",
	)
	if strings.Contains(report, "\x1b") {
		t.Error("a title can steer the terminal")
	}
	if strings.Contains(report, "question 6") {
		t.Error("the report quotes a message, which nobody asked for")
	}
}

func TestReportSaysHowFarTheFoldIs(t *testing.T) {
	t.Parallel()
	s := tell(t)
	for want, limits := range map[string]memory.Limits{
		"a fold is due":                  {ChunkThreshold: 639, KRawTurns: 1},
		"the next fold is 1 tokens away": {ChunkThreshold: 640, KRawTurns: 1},
		"the next fold is 1 turn away":   {ChunkThreshold: 100, KRawTurns: 2},
	} {
		wantLines(t, s.print(t, limits), want)
	}
}

// A chat's own rules are part of what its memory is, and of when it is folded.
func TestReportSaysByWhichRules(t *testing.T) {
	t.Parallel()
	s := tell(t)
	conn := connect(t, s.database)
	wantLines(t, s.print(t, memory.DefaultLimits()), "  strategy summary\n")
	execute(t, conn, "update chats set memory_strategy = 'hybrid', max_turns = 1 where id = $1", s.chat)
	wantLines(t, s.print(t, memory.DefaultLimits()), "  strategy hybrid, at most 1 turn out of the brief\n", "a fold is due")
	execute(t, conn, "update chats set memory_strategy = 'simple', max_turns = null where id = $1", s.chat)
	wantLines(t, s.print(t, memory.DefaultLimits()), "  strategy simple\n", "it is never folded")
	execute(t, conn, "update conversation_briefs set cleared_seq = 4 where chat_id = $1", s.chat)
	execute(t, conn, "update chats set memory_strategy = 'summary', ttl_hours = 1, created_at = now() - interval '1 day', last_message_at = now() - interval '2 hours' where id = $1", s.chat)
	wantLines(t, s.print(t, memory.DefaultLimits()), "  strategy summary, cleared up to message 4, expired\n", "covers 2 turns up to message 8")
}

func TestReportOnAStaleChatWithAJob(t *testing.T) {
	t.Parallel()
	s := tell(t)
	conn := connect(t, s.database)
	execute(t, conn, "delete from messages where chat_id = $1 and seq = 1", s.chat)
	execute(t, conn, "update conversation_brief_revisions set global_summary = null where chat_id = $1 and version = 1", s.chat)
	execute(t, conn, "update conversation_briefs set lease_token = gen_random_uuid(), lease_until = now() + '1 minute', pending_tokens = 1 where chat_id = $1", s.chat)
	execute(t, conn, `insert into river.river_job (kind, state, attempt, args, errors) values ('rebuild_brief', 'retryable', 3, jsonb_build_object('chat_id', $1::text),
		array[jsonb_build_object('error', 'the model is away')])`, s.chat)
	wantLines(t, s.print(t, memory.DefaultLimits()),
		"stale: a message that it covers was edited or deleted", "a rebuild is due", "the counters are wrong", "a fold is at work",
		"job rebuild_brief is retryable, attempt 3, last error: the model is away", "version 1", "redacted")
}

// A chat whose rebuild was refused shows that, how far it came, and that it has no brief meanwhile.
func TestReportOnAChatThatIsPutOff(t *testing.T) {
	t.Parallel()
	s := tell(t)
	conn := connect(t, s.database)
	execute(t, conn, "delete from messages where chat_id = $1 and seq = 1", s.chat)
	execute(t, conn, `update conversation_briefs set brief = jsonb_set(brief, '{global_summary}', '""'), fold_failures = 3, fold_failure = 'refused: none',
		failing_since = now(), retry_at = now() + interval '21 minutes' where chat_id = $1`, s.chat)
	execute(t, conn, `insert into conversation_brief_drafts (chat_id, user_id, plan_sha256, pieces_done, pieces, global_summary, tokens, stats, duration_ms)
		select id, user_id, '', 2, 5, '', 0, '{}', 1 from chats where id = $1`, s.chat)
	wantLines(t, s.print(t, memory.DefaultLimits()), "its text is deleted, because it could not be written anew", "2 of its 5 pieces are done",
		"put off after 3 failures (refused: none), not tried again for 20 minutes")
}

func TestReportOnANewChat(t *testing.T) {
	t.Parallel()
	s := story{database: testkit.NewDatabase(t), chat: uuid.NewString()}
	execute(t, connect(t, s.database), "insert into chats (id, user_id, title) values ($1, $2, 'New')", s.chat, testkit.NewUser(t, s.database))
	wantLines(t, s.print(t, memory.DefaultLimits()), "0 messages: New", "BRIEF  none yet", "0 turns, 0 tokens, the oldest from never", "REVISIONS", "none yet", "RECEIPTS", "none yet")
}

func TestListOfChats(t *testing.T) {
	t.Parallel()
	s := tell(t)
	connect(t, s.database)
	var out strings.Builder
	if err := inspect.Print(t.Context(), &out, s.database.DSN+"&pgbouncer=true&pool_max_conns=3", "", memory.DefaultLimits()); err != nil {
		t.Fatal(err)
	}
	wantLines(t, out.String(), "chat ", "title\n", s.chat+"  just now      12        version 2  2 turns, 600 tokens  Scales")
	empty := testkit.NewDatabase(t)
	out.Reset()
	if err := inspect.Print(t.Context(), &out, empty.DSN, "", memory.DefaultLimits()); err != nil || out.String() != "There are no chats yet.\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestWhatIsNoChat(t *testing.T) {
	t.Parallel()
	database := testkit.NewDatabase(t)
	for chatID, want := range map[string]fault.Code{
		"'; drop table chats; --": fault.BadUUID,
		uuid.NewString():          fault.ChatNotFound,
	} {
		var out strings.Builder
		err := inspect.Print(t.Context(), &out, database.DSN, chatID, memory.DefaultLimits())
		if fault.CodeOf(err) != want || out.Len() > 0 {
			t.Errorf("%s: %v, %q", chatID, err, out.String())
		}
	}
}

func TestWhereThereIsNoDatabase(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{"postgres://%zz", "postgres://nobody@127.0.0.1:1/nothing?connect_timeout=1"} {
		if err := inspect.Print(t.Context(), &strings.Builder{}, dsn, "", memory.DefaultLimits()); err == nil {
			t.Errorf("%s: no error", dsn)
		}
	}
	unmigrated := testkit.NewEmptyDatabase(t)
	for _, chatID := range []string{"", uuid.NewString()} {
		err := inspect.Print(t.Context(), &strings.Builder{}, unmigrated.DSN, chatID, memory.DefaultLimits())
		if fault.CodeOf(err) != fault.MigrationsPending || !strings.Contains(err.Error(), "throughline migrate") {
			t.Errorf("without the views, chat %q: %v", chatID, err)
		}
	}
}
