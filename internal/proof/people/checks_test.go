package people

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/streaming"
)

var limits = Limits{"threshold": 200, "tail": 2, "bridge": 6000, "least": 1, "prompt": 8000, "topic_most": 6, "topic_room": 20}

// testTalk is short talk of which everything is remembered.
func testTalk() *Talk {
	return &Talk{Subjects: Subjects{Words: []string{"spinnaker", "gherkin"}}, Words: Range{Least: 4, Most: 20}, Reply: Range{Least: 5, Most: 50}, Lists: true}
}

// story is a small project in which everything is as it must be, and the record of those who talked in it.
type story struct {
	conn    *pgx.Conn
	record  *Record
	user    uuid.UUID
	chats   [2]uuid.UUID
	asks    []*message
	replies []uuid.UUID
	prompts []Prompt
	ran     [][]any
}

// newStory has three turns in the first chat, two of them in the brief; the third was tried twice; then a fourth.
// In the second chat a question was deleted.
func newStory(t *testing.T) *story {
	t.Helper()
	database := testkit.NewDatabase(t)
	s := &story{record: &Record{Talk: testTalk()}, user: testkit.NewUser(t, database), chats: [2]uuid.UUID{uuid.New(), uuid.New()}}
	var err error
	if s.conn, err = pgx.Connect(t.Context(), database.AdminDSN); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.conn.Close(context.Background()) })
	s.exec(t, placesSQL)
	for _, chat := range s.chats {
		s.exec(t, `insert into public.chats (id, user_id) values ($1, $2)`, chat, s.user)
	}
	s.reply(t, s.ask(t, s.chats[0], 0), streaming.EventCompleted)
	s.call(t)
	s.reply(t, s.ask(t, s.chats[0], 1), streaming.EventCancelled)
	third := s.ask(t, s.chats[0], 2)
	s.reply(t, third, streaming.EventFailed)
	s.exec(t, `update public.messages set superseded_by = $1, token_count = 0 where id = $1`, s.replies[2])
	s.reply(t, third, streaming.EventCompleted)
	s.exec(t, `update public.messages set superseded_by = $2 where id = $1`, s.replies[2], s.replies[3])
	s.fold(t)
	fourth := s.ask(t, s.chats[0], 3)
	s.reply(t, fourth, streaming.EventCompleted)
	s.prompts = []Prompt{{fourth.clientID, []string{"ask1", "said1", "ask2", "said2", "ask3", "said3"}}}
	s.learn(t)
	s.sort(t)
	s.delete(t)
	return s
}

// ask stores a message and acknowledges it.
func (s *story) ask(t *testing.T, chat uuid.UUID, place int) *message {
	m := s.record.send(message{user: s.user, place: place})
	if place > 0 {
		m.parent = s.asks[len(s.asks)-1]
	}
	m.acknowledged, m.chatID, m.id, m.path.of = true, chat, uuid.New(), on
	s.exec(t, `insert into public.messages (id, chat_id, user_id, role, content, token_count, client_message_id) values ($1, $2, $3, 'user', $4, 1, $5)`,
		m.id, chat, s.user, s.record.Talk.Question(m.number), m.clientID)
	s.asks = append(s.asks, m)
	return m
}

// reply stores a reply with that end, and lets it be heard.
func (s *story) reply(t *testing.T, m *message, end string) {
	id, text, status := uuid.New(), s.record.Talk.ReplyTo(m.number), "complete"
	if end != streaming.EventCompleted {
		text = text[:strings.Index(text, " ")+1]
		status = map[string]string{streaming.EventFailed: "interrupted", streaming.EventCancelled: "cancelled"}[end]
	}
	s.exec(t, `insert into public.messages (id, chat_id, user_id, role, content, status, token_count, reply_to) values ($1, $2, $3, 'assistant', $4, $5, 1, $6)`,
		id, m.chatID, s.user, text, status, m.id)
	s.record.start(m, streaming.Started{ChatID: m.chatID, UserMessageID: m.id, MessageID: id}, "")
	chars := s.record.grow(streaming.Delta{MessageID: id, Delta: text})
	s.record.end(id, end, -1)
	s.record.replies[id].growth = []growth{{time.Now().Add(-time.Minute), chars}, {time.Now(), chars}} // heard long ago, and alive a moment ago
	s.replies = append(s.replies, id)
}

// call gives the first reply a call of each kind.
func (s *story) call(t *testing.T) {
	s.exec(t, `update public.messages set parts = '[{"type": "tool_call", "at": 2, "call_id": "a", "arguments": {"n": 1}},
		{"type": "tool_call", "at": 2, "call_id": "b"}, {"type": "tool_approval", "at": 2, "call_id": "a", "approved": true},
		{"type": "tool_result", "at": 2, "call_id": "b", "output": "seen"}, {"type": "tool_result", "at": 2, "call_id": "a", "output": 1}]'
		where id = $1`, s.replies[0])
	s.record.took(said{s.replies[0], "a", true})
	s.record.took(said{s.replies[0], "b", "seen"})
	s.ran = [][]any{{s.replies[0], "a", json.RawMessage(`{"n": 1}`)}}
}

// fold brings the first two turns into the first chat's brief.
func (s *story) fold(t *testing.T) {
	const summary = "Said so far: ask1 said1 ask2 said2."
	s.exec(t, `insert into public.conversation_brief_revisions (chat_id, user_id, version, kind, seq_from, seq_to, turns, global_summary,
		input_tokens, output_tokens, prompt_mode, prompt_ref, model, duration_ms, input_sha256)
		values ($1, $2, 1, 'fold', 1, 4, 2, $3, 1, 1, 'inline', 'x', 'x', 1, '')`,
		s.chats[0], s.user, summary)
	s.exec(t, `update public.conversation_briefs set brief = jsonb_build_object('global_summary', $2::text, 'last_summarized_message_id', null),
		version = 1, covered_seq = 4, brief_tokens = 9, pending_turns = 1,
		pending_tokens = (select sum(token_count) from public.messages where chat_id = $1 and seq > 4) where chat_id = $1`, s.chats[0], summary)
	s.exec(t, `select throughline.index_chat($1, 4)`, s.chats[0])
}

// learn makes memories of the first chat, two extractions of two turns; the town of the first is superseded by another.
func (s *story) learn(t *testing.T) {
	s.exec(t, `insert into public.memory_users (user_id, version) values ($1, 2)`, s.user)
	s.exec(t, `insert into public.memory_extractions (chat_id, user_id, seq_from, seq_to, turns, result, added, superseded)
		values ($1, $2, 1, 4, 2, 'done', 2, 0), ($1, $2, 5, (select max(seq) from public.messages where chat_id = $1), 2, 'done', 2, 1)`, s.chats[0], s.user)
	s.exec(t, `update public.conversation_briefs set extracted_seq = (select max(seq) from public.messages where chat_id = $1) where chat_id = $1`, s.chats[0])
	var memories []uuid.UUID
	for _, m := range s.asks {
		said := strings.TrimSpace(s.record.Talk.saying(m.number))
		memory := uuid.New()
		memories = append(memories, memory)
		s.exec(t, `insert into public.memories (id, user_id, content, source_session_id) values ($1, $2, $3, $4)`, memory, s.user, asTold(said), m.chatID)
		s.exec(t, `insert into public.memory_sources (memory_id, message_id, user_id, chat_id, seq, fact, quote, said_at)
			select $1, m.id, m.user_id, m.chat_id, m.seq, $3, $4, m.created_at from public.messages m where m.id = $2`, memory, m.id, asTold(said), said)
	}
	s.exec(t, `update public.memories set status = 'superseded', retracted_at = now(), superseded_by = $2 where id = $1`, memories[0], memories[1])
	s.exec(t, `with thing as (insert into public.memory_entities (user_id, name) values ($1, 'lantern') returning id)
		insert into public.memory_mentions (memory_id, entity_id, user_id) select $2, thing.id, $1 from thing`, s.user, memories[1])
}

// sort makes a topic of each indexed turn of the first chat. The first is packed and summarized.
func (s *story) sort(t *testing.T) {
	s.exec(t, `with made as (
		insert into public.topics (chat_id, user_id, number, title, title_seq, message_count, created_at, last_active_at, first_seq, last_seq)
		select i.chat_id, i.user_id, row_number() over (order by i.seq), left(m.content, 80), i.seq, 2, i.said_at, i.said_at, i.seq, i.last_seq
		  from public.turn_index i join public.messages m using (chat_id, seq) where i.chat_id = $1
		returning id, chat_id, first_seq)
		update public.turn_index i set topic_id = made.id, topic_model = 'x' from made where made.chat_id = i.chat_id and made.first_seq = i.seq`, s.chats[0])
	s.exec(t, `update public.topics set compacted_seq = 2, compacted_messages = 2,
		summary = 'Said so far: ask1 said1.', summary_tokens = 9, summary_seq = 2 where chat_id = $1 and number = 1`, s.chats[0])
}

// delete deletes the question of the second chat's turn, once its place was seen.
func (s *story) delete(t *testing.T) {
	m := s.ask(t, s.chats[1], 0)
	s.reply(t, m, streaming.EventCompleted)
	require.NoError(t, keepPlaces(t.Context(), s.conn))
	s.exec(t, `delete from public.messages where id = $1`, m.id)
	s.record.deleting(&m.deletion, done)
	s.exec(t, `insert into public.memory_extractions (chat_id, user_id, seq_from, seq_to, result) values ($1, $2, 1, 2, 'skipped')`, s.chats[1], s.user)
	s.exec(t, `insert into river.river_job (kind, queue, state, max_attempts, args) -- of a chat that is gone
		select 'fold_brief', 'memory', state::river.river_job_state, 1, jsonb_build_object('chat_id', gen_random_uuid())
		  from unnest('{scheduled,available,running}'::text[]) state`)
	s.exec(t, `update public.conversation_briefs set extracted_seq = 2 where chat_id = $1`, s.chats[1])
}

func (s *story) exec(t *testing.T, sql string, args ...any) {
	_, err := s.conn.Exec(t.Context(), sql, args...)
	require.NoErrorf(t, err, "%s", sql)
}

// found breaks the story with a statement, in a transaction that is rolled back, and gives the rows that a check finds.
func (s *story) found(t *testing.T, prompts []Prompt, statement string, checks []Check) []Violation {
	t.Helper()
	tx, evidence, err := gather(t.Context(), s.conn, s.record, prompts)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	evidence.ran = s.ran
	// What triggers and constraints forbid is what the checks are for, should one of those be missing.
	broken := strings.NewReplacer("$chat", quoted(s.chats[0]), "$user", quoted(s.user), "$ask1", quoted(s.asks[0].id), "$ask2", quoted(s.asks[1].id),
		"$gone", quoted(s.asks[4].id), "$said1", quoted(s.replies[0]), "$said2", quoted(s.replies[1]),
		"$first3", quoted(s.replies[2]), "$said3", quoted(s.replies[3])).Replace(statement)
	if _, err := tx.Exec(t.Context(), "set local session_replication_role = replica; "+broken); err != nil {
		t.Fatalf("%s: %v", broken, err)
	}
	violations, err := examine(t.Context(), tx, evidence, limits, checks)
	require.NoError(t, err)
	return violations
}

func quoted(id uuid.UUID) string { return "'" + id.String() + "'" }

// breaks has for each check what it must find.
var breaks = map[string]string{
	"acknowledged": `delete from public.messages where id = $ask1`,
	"sent_once": `insert into public.messages (id, chat_id, user_id, seq, role, content, token_count)
		select gen_random_uuid(), chat_id, user_id, 99, role, content, 1 from public.messages where id = $ask1`,
	"nothing_invented":      `update public.messages set content = 'ask1 and no more' where id = $ask1`,
	"answer_fits":           `update public.messages set content = left(content, -1) where id = $said1`,
	"reply_kept":            `delete from public.messages where id = $said2`,
	"heard_is_stored":       `update public.messages set status = 'failed', content = left(content, 3) where id = $said1`,
	"last_moment_only":      `update public.messages set content = '' where id = $first3`,
	"end_is_true":           `update public.messages set status = 'interrupted' where id = $said2`,
	"one_result_a_call":     `update public.messages set parts = parts - 4 where id = $said1`,
	"parts_in_place":        `update public.messages set parts = jsonb_set(parts, '{1,at}', '1') where id = $said1`,
	"answers_kept":          `update public.messages set parts = jsonb_set(parts, '{2,approved}', 'false') where id = $said1`,
	"only_calls_run":        `update public.messages set parts = jsonb_set(parts, '{0,arguments,n}', '2') where id = $said1`,
	"no_state_of_the_ended": `insert into public.message_deltas values ($said1, $user, -1, '', '{}')`,
	"awaits_in_time":        `update public.messages set status = 'awaiting', lease_until = now() where id = $said1`,
	"deleted_stays_deleted": `insert into public.messages (id, chat_id, user_id, seq, role, content, token_count)
		values ($gone, $chat, $user, 99, 'user', 'back again', 1)`,
	"deleted_leaves_no_word":     `insert into river.river_job (kind, max_attempts, args) values ('x', 1, '{"said": "ask5 words"}')`,
	"superseded_leaves_no_word":  `update public.messages set superseded_by = $said1 where id = $ask2`,
	"path_as_chosen":             `update public.messages set superseded_by = $said1 where id = $ask1`,
	"path_is_a_line":             `update public.messages set parent_id = null where id = $said1`,
	"one_winner":                 `update public.messages set parent_id = $ask1 where id = $ask2`,
	"superseded_by_another":      `update public.messages set token_count = 3 where id = $first3`,
	"one_reply_stands":           `update public.messages set superseded_by = null where id = $first3`,
	"reply_after_question":       `update public.messages set seq = 99 where id = $ask1`,
	"order_of_sending":           `update public.messages set seq = 99 where id = $ask1`,
	"place_for_good":             `update public.messages set seq = 99 where id = $ask1`,
	"no_gaps":                    `update public.chats set last_seq = last_seq + 1 where id = $chat`,
	"chat_counters":              `update public.chats set turn_count = turn_count + 1 where id = $chat`,
	"token_counts":               `update public.messages set token_count = 0 where id = $ask1`,
	"brief_counters":             `update public.conversation_briefs set pending_tokens = pending_tokens + 1 where chat_id = $chat`,
	"ledger_versions":            `update public.conversation_briefs set version = 2 where chat_id = $chat`,
	"ledger_ranges":              `update public.conversation_brief_revisions set seq_from = 2`,
	"brief_is_its_last_revision": `update public.conversation_briefs set covered_seq = 3 where chat_id = $chat`,
	"ledger_turns":               `update public.conversation_brief_revisions set turns = 1`,
	"folded_once": `update public.conversation_briefs set brief = jsonb_set(brief, '{global_summary}',
		'"ask1 ask2 ask3 said1 said2 said2"') where chat_id = $chat`,
	"covered_is_indexed":      `delete from public.turn_index where chat_id = $chat and seq = 1`,
	"indexed_words_are_there": `update public.messages set content = 'ask1, otherwise' where id = $ask1`,
	"extraction_ranges":       `update public.memory_extractions set seq_from = 2 where seq_from = 1`,
	"extracted_once":          `delete from public.memory_sources where message_id = $ask1`,
	"only_what_users_said":    `update public.memories set content = 'The user has the number said1.' where content like '%lantern number 2.'`,
	"memory_has_source":       `delete from public.memory_sources where message_id = $ask2`,
	"source_is_true":          `update public.memory_sources set quote = 'I never said that.' where message_id = $ask1`,
	"one_of_a_key": `drop index public.memories_content_key_key; insert into public.memories (user_id, content) select user_id, content from public.memories
		where status = 'active'`,
	"closed_has_successor": `update public.memories set retracted_at = null where status = 'superseded'`,
	"memory_revisions":     `delete from public.memory_revisions where version = 2`,
	"hands_off": `insert into public.memory_revisions (memory_id, version, user_id, action, actor)
		select id, 8 + n, user_id, case n when 0 then 'EDIT' else 'UPDATE' end, case n when 0 then 'user' else 'model' end
		  from public.memories cross join generate_series(0, 1) n`,
	"memory_versions":      `update public.memory_users set version = 1`,
	"mentions_are_counted": `update public.memory_entities set mentions = 7`,
	"topic_of_its_chat":    `update public.turn_index set topic_id = gen_random_uuid() where seq = 1`,
	"topic_counters":       `update public.topics set message_count = 3 where number = 1`,
	"topic_messages_agree": `alter view throughline.messages_of_topics rename to hidden;
		create view throughline.messages_of_topics as select * from throughline.hidden where seq > 1`,
	"topic_numbers":            `alter table public.topics drop constraint topics_chat_id_number_key; update public.topics set number = 1`,
	"topic_accesses":           `update public.topics set access_count = 5 where number = 1`,
	"packed_are_counted":       `update public.topics set compacted_messages = 1 where number = 1`,
	"topic_says_what_is_there": `update public.topics set summary = 'Said so far: ask1 said1 ask77.' where number = 1`,
	"topic_title":              `update public.topics set title_seq = 99 where number = 1`,
	"summarized_once":          `update public.topics set summary = 'Said so far: ask1 ask1 said1.' where number = 1`,
	"merged_is_empty": `update public.topics t set state = 'merged', merged_into = (select o.id from public.topics o where o.number = 2)
		where number = 1`,
	"resting_without_vector": `update public.turn_index set resting = true where seq = 1`,
	"all_assigned":           `update public.turn_index set topic_id = null where seq = 1`,
	"topics_are_repaired":    `update public.topics set stale = true where number = 1`,
	"owner_is_there":         `update public.topics set chat_id = gen_random_uuid() where number = 1`,
	"paused_learns_nothing": `insert into crash.pauses (user_id, off_at) values ($user, '-infinity');
		update public.memory_extractions set result = 'done'`,
	"all_extracted":     `update public.conversation_briefs set extract_due_at = now() where chat_id = $chat`,
	"nothing_streaming": `update public.messages set status = 'streaming' where id = $said1`,
	"no_deltas":         `insert into public.message_deltas values ($said1, $user, 0, 'left')`,
	"nothing_due":       `update public.conversation_briefs set pending_tokens = 90000, pending_turns = 90 where chat_id = $chat`,
	"no_job_left":       `insert into river.river_job (kind, queue, state, max_attempts, args) values ('fold_brief', 'memory', 'running', 1, '{}')`,
	"no_lease_left": `insert into throughline.work (kind, key, user_id, lease_token, lease_until)
		values ('fold', $chat, $user, gen_random_uuid(), now())`,
	"remembered": `update public.messages set content = 'said77 ' where id = $said1`,
}

func TestChecks(t *testing.T) {
	t.Parallel()
	checks := Checks()
	s := newStory(t)
	found := s.found(t, s.prompts, "", checks)
	require.Truef(t, len(found) == 0, "nothing is broken yet: %+v", found)
	var names []string
	for _, c := range checks {
		names = append(names, c.Name)
		found := s.found(t, s.prompts, breaks[c.Name], []Check{c})
		assert.Truef(t, len(found) == 1 && found[0].Name == c.Name && len(found[0].Rows) != 0,
			"%s does not notice %q: %+v", c.Name, breaks[c.Name], found)
	}
	slices.Sort(names)
	tested := slices.Sorted(maps.Keys(breaks))
	assert.Truef(t, slices.Equal(tested, names), "checks %v, tested %v", names, tested)
}

// A place that only the past knows is not given again, a mark that is missing in a prompt is missed.
func TestChecksOfThePastAndThePrompt(t *testing.T) {
	t.Parallel()
	checks := Checks()
	named := func(name string) []Check {
		return checks[slices.IndexFunc(checks, func(c Check) bool { return c.Name == name }):][:1]
	}
	s := newStory(t)
	reused := `update public.messages set seq = 1 where reply_to = $gone` // where the deleted question stood
	found := s.found(t, nil, reused, named("place_for_good"))
	assert.Equalf(t, 1, len(found), "the place of a deleted message was given again: %+v", found)
	forgetful := []Prompt{{s.prompts[0].clientID, s.prompts[0].marks[1:]}}
	found = s.found(t, forgetful, "", named("remembered"))
	assert.Equalf(t, 1, len(found), "a prompt forgot something: %+v", found)
	twice := []Prompt{{s.prompts[0].clientID, append(slices.Clone(s.prompts[0].marks), "ask1")}}
	found = s.found(t, twice, "", named("remembered"))
	assert.Equalf(t, 1, len(found), "a prompt showed something twice: %+v", found)
	s.record.complain("something odd")
	found = s.found(t, nil, "", nil)
	assert.Truef(t, len(found) == 1 && found[0].Name == "answers", "an odd answer: %+v", found)
}

// What a request may have changed that was not answered, or was answered while the snapshot was taken, may be so or not; what came off
// the path with it is no more there.
func TestPathAsChosen(t *testing.T) {
	t.Parallel()
	first := &message{}
	second, edited := &message{parent: first}, &message{}
	third := &message{parent: second}
	chat, r := []*message{first, second, third, edited}, &Record{}
	for _, c := range []struct {
		ends []*message
		want []whether
	}{
		{[]*message{third}, []whether{on, on, on, off}},
		{[]*message{third, edited}, []whether{unsure, unsure, unsure, unsure}},
		{[]*message{third, second}, []whether{on, on, unsure, off}},
		{[]*message{edited}, []whether{off, off, off, on}},
	} {
		r.lead(chat, c.ends...)
		for i, m := range chat {
			assert.Equalf(t, c.want[i], m.path.of, "message %d of a path to %d ends", i, len(c.ends))
		}
	}
	s := newStory(t)
	fourth, check := s.asks[3], slices.DeleteFunc(Checks(), func(c Check) bool { return c.Name != "path_as_chosen" })
	for _, c := range []struct {
		ends           []*message
		kept, replaced int // violations where the last turn is on the path, and where it is not
	}{{[]*message{fourth}, 0, 1}, {[]*message{fourth, fourth.parent}, 0, 0}, {[]*message{fourth.parent}, 1, 0}} {
		s.record.lead(s.asks[:4], c.ends...)
		assert.Lenf(t, s.found(t, nil, "", check), c.kept, "kept, %d ends", len(c.ends))
		assert.Lenf(t, s.found(t, nil, `update public.messages m set superseded_by = $said1 from public.messages o
			where o.id = $said3 and m.chat_id = o.chat_id and m.seq > o.seq`, check), c.replaced, "replaced, %d ends", len(c.ends))
	}
}

// A result that comes before its call, twice, or without one is no more a result than none; a place after the end of the text is none.
func TestChecksOfCalls(t *testing.T) {
	t.Parallel()
	s, checks := newStory(t), Checks()
	for name, parts := range map[string]string{
		"before": `(parts - 0) || (parts -> 0)`, "twice": `parts || (parts -> 3)`, "without a call": `parts - 1`, "beyond": `jsonb_set(parts, '{4,at}', '9999')`,
	} {
		found := s.found(t, nil, `update public.messages set parts = `+parts+` where id = $said1`, checks)
		want := "one_result_a_call"
		if name == "beyond" {
			want = "parts_in_place"
		}
		assert.Truef(t, slices.ContainsFunc(found, func(v Violation) bool { return v.Name == want }), "%s: %+v", name, found)
	}
}

// Each row with words of a deleted message is found, packed or not.
func TestTraces(t *testing.T) {
	t.Parallel()
	checks := Checks()
	s := newStory(t)
	s.record.deleting(&s.asks[0].deletion, done) // nothing was
	traces := slices.DeleteFunc(checks, func(c Check) bool { return !strings.HasSuffix(c.Name, "leaves_no_word") })
	found := s.found(t, nil, "", traces)
	require.Truef(t, len(found) == 1 && found[0].Name == "deleted_leaves_no_word", "%+v", found)
	for _, place := range []string{
		"public.messages.content", "public.topics.title", "public.topics.summary", "public.turn_index.tsv",
		"public.conversation_briefs.brief", "public.conversation_brief_revisions.global_summary",
	} {
		assert.Containsf(t, strings.Join(found[0].Rows, "\n"), `"`+place+`"`,
			"not searched: %s, only %s", place, found[0].Rows)
	}
}

func TestBrokenChecks(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no query":     "-- check: a, always\n-- Sentence.",
		"no sentence":  "-- check: a, always\nselect 1\n;",
		"another time": "-- check: a, never\n-- Sentence.\nselect 1",
	} {
		checks, err := parseChecks(text)
		assert.Errorf(t, err, "%s: %+v", name, checks)
	}
}
