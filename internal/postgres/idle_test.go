package postgres

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// fillIdle stores chats that need nothing, from one number to another, with the users, memories, topics and indexed turns that
// such chats have: in every state in which something was due once, is due later, or would be if it were not switched off.
func (b *bed) fillIdle(from, to int) {
	b.t.Helper()
	admin := testkit.Connect(b.t, b.db.AdminDSN)
	const vector = `('[' || repeat('0.04,', 511) || '0.04]')::throughline.embedding`
	for _, sql := range []string{
		"set session_replication_role = replica", // no triggers and no checks of foreign keys
		// Of twenty chats: 0 to 3 ordinary ones with a brief, 4 young ones, 5 with topics on, 6 off, 7 cleared while a topic was to be
		// chosen again, 8 off with topics that were due, 9 with three long turns. Then those that are almost due: 10 to 14 of tools, at
		// their turn limit, expired but kept, 15 to 17 simple ones far beyond all limits, 18 just below the threshold, 19 over it with
		// a single turn.
		`create temp table wanted as
			select n, n % 20 as kind, ('00000000-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid as id,
			       ('00000000-0000-4000-9000-' || lpad(to_hex(n / 20), 12, '0'))::uuid as user_id, now() - interval '1 day' * (n % 29) as last
			  from generate_series($1::int, $2::int) n`,
		`insert into chats (id, user_id, topics, last_seq, created_at, last_message_at, memory_strategy, max_turns, tool_name, ttl_hours, expires_at)
			select id, user_id, case when kind = 5 then 'on' when kind in (6, 8) then 'off' else 'auto' end, 8, now() - interval '60 days', last,
			       case when kind between 15 and 17 then 'simple' else 'summary' end, case when kind between 10 and 14 then 50 when kind = 15 then 1 end,
			       case when kind between 10 and 14 then 'editor' end, case when kind between 10 and 14 then 3 end, case when kind between 10 and 14 then last end
			  from wanted`,
		`insert into conversation_briefs (chat_id, user_id, version, covered_seq, indexed_seq, assigned_seq, to_index, topics, cleared_seq, memory_strategy,
			    max_turns, topics_fade_at, pending_tokens, pending_turns, settled_tokens, settled_turns)
			select w.id, w.user_id, 1, case when kind in (4, 5, 9) then 0 else 4 end, 8, case when kind in (4, 6) then 0 else 8 end, false,
			       c.topics, case when kind = 7 then 8 else 0 end, c.memory_strategy, c.max_turns, case when kind = 9 then now() + interval '10 days' end,
			       case when kind = 9 then 9000 when kind < 10 then 100 when kind in (15, 16, 17) then 90000 when kind = 19 then 9000 else 5999 end,
			       case when kind = 9 then 3 when kind < 10 then 2 when kind in (15, 16, 17) then 40 when kind = 19 then 1 else 50 end,
			       case when kind = 9 then 9000 end, case when kind = 9 then 3 end
			  from wanted w join chats c on c.id = w.id`,
		`insert into messages (chat_id, user_id, seq, role, content, token_count)
			select id, user_id, s, case when s = 1 then 'user' else 'assistant' end, 'some words', 6 from wanted, generate_series(1, 2) s where n % 5 = 0`,
		// Two topics each, the second of which was unpacked when the conversation came back to it.
		`insert into topics (id, chat_id, user_id, number, title, title_seq, message_count, centroid, embedding_model, centroid_turns, created_at,
			    last_active_at, first_seq, last_seq, state, stale, rehydrated, paused, compacted_messages, compacted_seq, summary_seq)
			select gen_random_uuid(), id, user_id, t, 'Topic ' || t, t * 2 - 1, 40, ` + vector + `, 'a model', 1, now(), now(), t * 2 - 1, t * 2,
			       case when kind = 8 and t = 1 then 'archived' else 'active' end, kind = 8, t = 2, kind in (6, 8),
			       case when t = 1 and kind <> 8 then 40 else 0 end, case when t = 1 then 2 else 0 end, case when t = 1 then 2 else 0 end
			  from wanted, generate_series(1, 2) t where kind < 9 and kind <> 4`,
		`insert into turn_index (chat_id, seq, user_id, last_seq, words_from, segment, said_at, tokens, tsv, lexemes, embedding, embedding_model,
			    topic_id, topic_model)
			select w.id, 1, w.user_id, 2, 1, 1, now(), 12, '', 1, ` + vector + `, 'a model', t.id, case when w.kind not in (7, 8) then 'a model' end
			  from wanted w join topics t on t.chat_id = w.id and t.number = 1`,
		`insert into memory_users (user_id, enabled, fades_at, archived_from)
			select u, n % 10 > 0, case when n % 10 = 0 then now() - interval '1 day' when n % 3 > 0 then now() + interval '7 days' end,
			       case when n % 10 = 0 then now() - interval '1 year' else now() end
			  from (select user_id as u, row_number() over () as n from (select distinct user_id from wanted) d) users on conflict do nothing`,
		`insert into memories (user_id, content, status, durable, last_accessed, confidence, embedding, embedding_model, graph_version)
			select user_id, 'Memory ' || n, (array['active', 'active', 'archived', 'superseded', 'inbox'])[1 + n % 5], n % 2 = 0,
			       now() - interval '10 days', 0.5, ` + vector + `, 'a model', 1 from wanted where kind < 10`,
		`insert into river.river_job (kind, queue, max_attempts, args, state, finalized_at)
			select k, q, 20, jsonb_build_object('chat_id', id), 'completed', now()
			  from wanted, (values ('fold_brief', 'memory'), ('assign_topics', 'topics'), ('embed_turns', 'vectors')) kinds (k, q) where n % 10 = 0`,
		"vacuum analyze chats", "vacuum analyze conversation_briefs", "vacuum analyze messages", "vacuum analyze topics", "vacuum analyze turn_index",
		"vacuum analyze memory_users", "vacuum analyze memories", "vacuum analyze river.river_job", "vacuum analyze message_deltas",
	} {
		testkit.Exec(b.t, admin, strings.NewReplacer("$1", strconv.Itoa(from), "$2", strconv.Itoa(to)).Replace(sql))
	}
}

// fewIdleChats is how many chats rest at first. 100000 in RESTING_CHATS, for docs/results/scale.md, takes minutes and 10 GB.
func fewIdleChats() int {
	if chats, err := strconv.Atoi(os.Getenv("RESTING_CHATS")); err == nil {
		return chats
	}
	return 2_000
}

// readByItself returns how many pages each statement reads that runs by itself, by its name and the mode of its plan, and the plans.
func (b *bed) readByItself(chatID uuid.UUID) (pages map[string]int, plans map[string]string) {
	b.t.Helper()
	pages, plans = map[string]int{}, map[string]string{}
	tx := b.begin()
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		testkit.Exec(b.t, tx, "select set_config('plan_cache_mode', $1, true)", mode)
		for name, query := range periodic(b.user.UserID, chatID) {
			key := name + ", " + mode
			pages[key] = math.MaxInt
			for range 3 { // the first loads what a connection reads once, or again after somebody else's vacuum
				if read, plan := blocksRead(b.t, tx, query); read < pages[key] {
					pages[key], plans[key] = read, plan
				}
			}
		}
	}
	noError(b.t, tx.Rollback(b.t.Context()))
	return pages, plans
}

// What servers and workers run by themselves, every few seconds, reads as much with ten times as many chats, topics, users and
// memories that rest, and finds what is due among them. A step more of a tree is allowed.
func TestWhatRunsByItselfDoesNotGrow(t *testing.T) {
	t.Parallel()
	b, chats := newOwnBed(t), fewIdleChats()
	b.fillIdle(1, chats)
	due, limited := b.newChat(4), b.newChat(4)
	b.exec("update conversation_briefs set pending_tokens = 9000 where chat_id = $1", due)
	b.exec("update chats set max_turns = 3 where id = $1", limited)
	b.exec("update chats set ttl_hours = 1, created_at = now() - interval '100 days', last_message_at = null where id = $1", b.newChat(1))
	is(t, must(b.index.IndexRested(t.Context(), time.Minute, testkit.Patience))(t), 1, "chats that were indexed")
	b.start(turnIn(due, "Wait."))
	b.exec("update messages set lease_until = clock_timestamp() where status = 'streaming'")
	testkit.Lease(t, b.pool, "fold", due, b.user.UserID, "-1 hour")
	b.exec(`insert into river.river_job (kind, queue, max_attempts, args, state, attempt, attempted_at)
		values ('fold_brief', 'memory', 9, jsonb_build_object('chat_id', $1::uuid), 'running', 1, now() - interval '1 hour')`, due)
	b.exec(`insert into message_deltas (message_id, user_id, start_char, delta)
		select id, user_id, 0, 'x' from messages where chat_id = $1 and seq < 3`, due)
	few, _ := b.readByItself(due)
	b.fillIdle(chats+1, 10*chats)
	many, plans := b.readByItself(due)
	for name, pages := range many {
		t.Logf("%s: %d and %d pages", name, few[name], pages)
		if pages > few[name]+10 || pages > 300 {
			t.Errorf("%s reads %d pages, and %d with ten times as much that rests:\n%s", name, few[name], pages, plans[name])
		}
	}
	folds, rebuilds, err := NewMaintenance(b.pool, b.limits).DueChats(t.Context())
	is(t, fmt.Sprint(folds, rebuilds, err), fmt.Sprint([]uuid.UUID{limited}, []uuid.UUID{}, nil), "chats that are due, of which the other one has a job")
}

// blocksRead runs a query in a savepoint, which is rolled back, and returns how many blocks it read or found in the
// cache, and its plan.
func blocksRead(t testing.TB, tx pgx.Tx, query *pgx.QueuedQuery) (blocks int, plan string) {
	t.Helper()
	savepoint := must(tx.Begin(t.Context()))(t)
	var raw []byte
	if err := savepoint.QueryRow(t.Context(), "explain (analyze, buffers, costs off, timing off, summary off, format json) "+query.SQL,
		query.Arguments...).Scan(&raw); err != nil {
		t.Fatalf("%s: %v", query.SQL, err)
	}
	var explained []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	noError(t, json.Unmarshal(raw, &explained))
	noError(t, savepoint.Rollback(t.Context()))
	return explained[0].Plan.Hit + explained[0].Plan.Read, string(raw)
}

// periodic returns the statements that servers and workers run by themselves: every few seconds, with each sweep, each scrape
// of the metrics, each hour and each day.
func periodic(userID, chatID uuid.UUID) map[string]*pgx.QueuedQuery {
	batch, ids := &pgx.Batch{}, []uuid.UUID{uuid.New(), uuid.New()} // the batch is never sent
	limits := NewMaintenance(nil, memory.DefaultLimits()).due
	const model = "a model"
	return map[string]*pgx.QueuedQuery{
		"AssignFindChats":           dbsqlc.AssignFindChats.Queue(batch, dbsqlc.AssignFindChatsParams{Mode: "auto", Model: model}),
		"AssignFindTopics":          dbsqlc.AssignFindTopics.Queue(batch, 12),
		"AssignLookAtAlike":         dbsqlc.AssignLookAtAlike.Queue(batch, dbsqlc.AssignLookAtAlikeParams{Model: model, Cosine: .9, Most: 100}),
		"AssignLookAtFading":        dbsqlc.AssignLookAtFading.Queue(batch, dbsqlc.AssignLookAtFadingParams{MaxTopics: 1, Most: 100}),
		"CancelRequested":           dbsqlc.CancelRequested.Queue(batch, ids),
		"ClearDeadWork":             dbsqlc.ClearDeadWork.Queue(batch, struct{}{}),
		"CompleteJob":               dbsqlc.CompleteJob.Queue(batch, dbsqlc.CompleteJobParams{Output: []byte("{}"), ID: 1}),
		"CountAllMemories":          dbsqlc.CountAllMemories.Queue(batch, struct{}{}),
		"CountBareTurns":            dbsqlc.CountBareTurns.Queue(batch, model),
		"DeleteArchivedMemories":    dbsqlc.DeleteArchivedMemories.Queue(batch, dbsqlc.DeleteArchivedMemoriesParams{Days: 100, Most: usersAtOnce}),
		"DeleteExpiredChats":        dbsqlc.DeleteExpiredChats.Queue(batch, dbsqlc.DeleteExpiredChatsParams{Days: 30, Most: 500}),
		"DeleteIdleChats":           dbsqlc.DeleteIdleChats.Queue(batch, dbsqlc.DeleteIdleChatsParams{Days: 30, Most: 500}),
		"DeleteSpentDeltas":         dbsqlc.DeleteSpentDeltas.Queue(batch, ids),
		"DeleteOldUsage":            dbsqlc.DeleteOldUsage.Queue(batch, usageAtOnce),
		"DeleteStrayDeltas":         dbsqlc.DeleteStrayDeltas.Queue(batch, 10),
		"FadeMemories":              dbsqlc.FadeMemories.Queue(batch, dbsqlc.FadeMemoriesParams{Day: pgtype.Date{Time: today, Valid: true}, Most: usersAtOnce}),
		"FindBareChats":             dbsqlc.FindBareChats.Queue(batch, dbsqlc.FindBareChatsParams{Model: model, Most: 100}),
		"FindBareMemoryUsers":       dbsqlc.FindBareMemoryUsers.Queue(batch, dbsqlc.FindBareMemoryUsersParams{Model: model, Most: 100}),
		"FindDueBriefs":             dbsqlc.FindDueBriefs.Queue(batch, limits),
		"FindDueExtractions":        dbsqlc.FindDueExtractions.Queue(batch, struct{}{}),
		"FoldBacklog":               dbsqlc.FoldBacklog.Queue(batch, struct{}{}),
		"ForgetIdleWork":            dbsqlc.ForgetIdleWork.Queue(batch, struct{}{}),
		"HurryExtractions":          dbsqlc.HurryExtractions.Queue(batch, dbsqlc.HurryExtractionsParams{UserID: userID, ChatID: chatID}),
		"IndexRestedChats":          dbsqlc.IndexRestedChats.Queue(batch, dbsqlc.IndexRestedChatsParams{RestSeconds: 60, Most: restedAtOnce}),
		"InterruptAbandonedReplies": dbsqlc.InterruptAbandonedReplies.Queue(batch, new(120.0)),
		"MergeSearchEntries":        dbsqlc.MergeSearchEntries.Queue(batch, struct{}{}),
		"OldestUnextracted":         dbsqlc.OldestUnextracted.Queue(batch, struct{}{}),
		"QueueDepths":               dbsqlc.QueueDepths.Queue(batch, struct{}{}),
		"RenewLeases":               dbsqlc.RenewLeases.Queue(batch, dbsqlc.RenewLeasesParams{LeaseSeconds: 15, MessageIds: ids}),
		"NextGraphUser":             dbsqlc.NextGraphUser.Queue(batch, []uuid.UUID{}),
		"WakeIdleWork":              dbsqlc.WakeIdleWork.Queue(batch, struct{}{}),
		"ReviveJobs":                dbsqlc.ReviveJobs.Queue(batch, 15),
		"SettleRestedBriefs":        dbsqlc.SettleRestedBriefs.Queue(batch, dbsqlc.SettleRestedBriefsParams(limits)),
		"InsertDeltas": dbsqlc.InsertDeltas.Queue(batch, dbsqlc.InsertDeltasParams{
			MessageIds: ids[:1], UserIds: ids[1:], StartChars: []int{0}, Deltas: []string{"x"},
		}),
	}
}
