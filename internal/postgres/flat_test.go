package postgres

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/testkit"
)

// fillRest stores so many chats that rest, with the users, memories, topics and indexed turns that such chats have: every
// state in which something was due once, is due later, or would be if somebody had not switched it off.
func (b *bed) fillRest(chats int) {
	b.t.Helper()
	admin := testkit.Connect(b.t, b.db.AdminDSN)
	const vector = `('[' || repeat('0.04,', 511) || '0.04]')::throughline.embedding`
	for _, sql := range []string{
		"set session_replication_role = replica", // no triggers and no checks of foreign keys
		// Of ten chats: 0 to 3 ordinary ones with a brief, 4 young ones, 5 with topics on, 6 off, 7 cleared while a topic was to be chosen
		// again, 8 off with topics that were due, 9 with three long turns.
		`create temp table wanted as
			select n, n % 10 as kind, ('00000000-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid as id,
			       ('00000000-0000-4000-9000-' || lpad(to_hex(n / 20), 12, '0'))::uuid as user_id
			  from generate_series(1, $1::int) n`,
		`insert into chats (id, user_id, topics, last_seq, created_at, last_message_at)
			select id, user_id, case when kind = 5 then 'on' when kind in (6, 8) then 'off' else 'auto' end, 8, now() - interval '20 days', now() - interval '20 days' from wanted`,
		`insert into conversation_briefs (chat_id, user_id, version, covered_seq, indexed_seq, assigned_seq, to_index, topics, cleared_seq, pending_tokens, pending_turns, settled_tokens, settled_turns)
			select id, user_id, 1, case when kind in (4, 5, 9) then 0 else 4 end, 8, case when kind in (4, 6, 9) then 0 else 8 end, false,
			       case when kind = 5 then 'on' when kind in (6, 8) then 'off' else 'auto' end, case when kind = 7 then 8 else 0 end,
			       case when kind = 9 then 9000 else 100 end, case when kind = 9 then 3 else 2 end, case when kind = 9 then 9000 end, case when kind = 9 then 3 end from wanted`,
		`update conversation_briefs b set assigned_seq = 8, topics_fade_at = now() + interval '10 days' from wanted w where w.id = b.chat_id and w.kind = 9`,
		`insert into messages (chat_id, user_id, seq, role, content, token_count)
			select id, user_id, s, case when s = 1 then 'user' else 'assistant' end, 'some words', 6 from wanted, generate_series(1, 2) s where n % 5 = 0`,
		// Two topics each, the second of which was unpacked when the conversation came back to it.
		`insert into topics (id, chat_id, user_id, number, title, title_seq, message_count, centroid, embedding_model, centroid_turns, created_at, last_active_at,
			    first_seq, last_seq, state, stale, rehydrated, paused, retry_at, compacted_messages, compacted_seq)
			select gen_random_uuid(), id, user_id, t, 'Topic ' || t, t * 2 - 1, 40, ` + vector + `, 'a model', 1, now(), now(), t * 2 - 1, t * 2,
			       case when kind = 8 and t = 1 then 'archived' else 'active' end, kind = 8, t = 2, kind in (6, 8), case when kind = 8 then now() - interval '1 day' end,
			       case when t = 1 and kind <> 8 then 40 else 0 end,
			       case when t = 1 then 2 else 0 end
			  from wanted, generate_series(1, 2) t where kind not in (4, 9)`,
		`insert into turn_index (chat_id, seq, user_id, last_seq, words_from, segment, said_at, tokens, tsv, lexemes, embedding, embedding_model, topic_id, topic_model)
			select w.id, 1, w.user_id, 2, 1, 1, now(), 12, '', 1, ` + vector + `, 'a model', t.id, case when w.kind not in (7, 8) then 'a model' end
			  from wanted w join topics t on t.chat_id = w.id and t.number = 1`,
		`insert into memory_users (user_id, enabled, fades_at, archived_from)
			select u, n % 10 > 0, case when n % 10 = 0 then now() - interval '1 day' when n % 3 > 0 then now() + interval '7 days' end, case when n % 10 = 0 then now() - interval '1 year' else now() end
			  from (select user_id as u, row_number() over () as n from (select distinct user_id from wanted) d) users`,
		`insert into memories (user_id, content, status, durable, last_accessed, confidence, embedding, embedding_model, graph_version)
			select user_id, 'Memory ' || n, (array['active', 'active', 'archived', 'superseded', 'inbox'])[1 + n % 5], n % 2 = 0, now() - interval '10 days', 0.5, ` + vector + `, 'a model', 1
			  from wanted`,
		`insert into river.river_job (kind, queue, max_attempts, args, state, finalized_at)
			select k, q, 20, jsonb_build_object('chat_id', id), 'completed', now()
			  from wanted, (values ('fold_brief', 'memory'), ('assign_topics', 'topics'), ('embed_turns', 'vectors')) kinds (k, q) where n % 10 = 0`,
		"vacuum analyze chats", "vacuum analyze conversation_briefs", "vacuum analyze messages", "vacuum analyze topics", "vacuum analyze turn_index",
		"vacuum analyze memory_users", "vacuum analyze memories", "vacuum analyze river.river_job",
	} {
		testkit.Exec(b.t, admin, strings.ReplaceAll(sql, "$1", strconv.Itoa(chats)))
	}
}

// readAtRest returns how many pages each statement reads that runs by itself, by its name and the mode of its plan.
func readAtRest(t *testing.T, chats int) (pages map[string]int, plans map[string]string) {
	t.Helper()
	b := newBed(t)
	b.fillRest(chats)
	pages, plans = map[string]int{}, map[string]string{}
	tx := b.begin()
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		testkit.Exec(t, tx, "select set_config('plan_cache_mode', $1, true)", mode)
		for name, query := range periodic(b.user.UserID, uuid.New()) {
			_, _ = blocksRead(t, tx, query) // loads what a connection reads once
			pages[name+", "+mode], plans[name+", "+mode] = blocksRead(t, tx, query)
		}
	}
	return pages, plans
}

// What servers and workers run by themselves reads as much with ten times as many chats, topics, users and memories that rest.
// A step more of a tree is allowed.
func TestWhatRunsByItselfDoesNotGrow(t *testing.T) {
	t.Parallel()
	chats := 2_000
	if wanted, err := strconv.Atoi(os.Getenv("RESTING_CHATS")); err == nil { // 100000 for docs/scale.md: takes minutes and 10 GB
		chats = wanted
	}
	few, _ := readAtRest(t, chats)
	many, plans := readAtRest(t, 10*chats)
	for name, pages := range many {
		t.Logf("%s: %d and %d pages", name, few[name], pages)
		if pages > few[name]+10 {
			t.Errorf("%s reads %d pages, and %d with ten times as much that rests:\n%s", name, few[name], pages, plans[name])
		}
	}
}
