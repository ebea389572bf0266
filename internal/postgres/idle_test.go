package postgres

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/transfer"
	"github.com/arcoscribe/throughline/internal/transfer/bundle"
)

// fillIdle stores chats that need nothing, from one number to another, with the users, memories, topics and indexed turns that
// such chats have: in every state in which something was due once, is due later, or would be if it were not switched off.
func (b *bed) fillIdle(from, to int) {
	admin := testkit.Connect(b.t, b.db.AdminDSN)
	const vector = `('[' || repeat('0.04,', 511) || '0.04]')::throughline.embedding`
	for _, sql := range []string{
		"set session_replication_role = replica", // no triggers and no checks of foreign keys
		// Of twenty chats: 0 to 3 ordinary ones with a brief, 4 young ones, 5 with topics on, 6 off, 7 cleared while a topic was to be
		// chosen again, 8 off with topics that were due, 9 with three long turns. Then chats that are almost due: 10 to 14 of tools, at
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
		for name, query := range periodic(b.user.UserID, chatID, uuid.New(), uuid.New()) {
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
// memories that rest, and finds the due ones among them. A step more of each tree is allowed.
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
		assert.Truef(t, pages <= few[name]+max(10, few[name]/10) && pages <= 300,
			"%s reads %d pages, and %d with ten times as much that rests:\n%s", name, few[name], pages, plans[name])
	}
	folds, err := NewMaintenance(b.pool, b.limits).DueChats(t.Context())
	is(t, fmt.Sprint(folds, err), fmt.Sprint([]uuid.UUID{limited}, nil), "chats that are due, of which the other one has a job")
}

// What works for all users at once holds rows of several. So it waits for no user whose rows somebody holds, such as a deletion of the
// account, which may be waiting for the others: that would be a deadlock.
func TestWhatWorksForAllWaitsForNoUser(t *testing.T) {
	t.Parallel()
	b := newOwnBed(t)
	chatID, idle, expired := b.newChat(4), b.newChat(2), b.newChat(2)
	b.start(turnIn(chatID, "Wait."))
	reply := ask[uuid.UUID](b, "update messages set lease_until = now() - interval '1 hour' where status = 'streaming' returning id")
	b.exec(`insert into message_deltas (message_id, user_id, start_char, delta)
		select id, user_id, n, 'x' from messages, generate_series(0, 1) n where chat_id = $1 and seq <> 1`, chatID)
	b.exec("insert into message_deltas (message_id, user_id, start_char, delta) values (gen_random_uuid(), $1, 0, 'stray')", b.user.UserID)
	b.exec(`update conversation_briefs set pending_tokens = 9000, extract_due_at = '-infinity', topics_fade_at = '-infinity'
		where chat_id in ($1, $2)`, chatID, idle)
	b.exec("update chats set ttl_hours = 1, created_at = now() - interval '100 days', last_message_at = null where id = $1", expired)
	b.exec("insert into memory_users (user_id, archived_from, fades_at) values ($1, '-infinity', '-infinity')", b.user.UserID)
	b.exec("insert into memories (user_id, content, status, last_accessed) values ($1, 'Fades.', 'archived', now() - interval '1 year')", b.user.UserID)
	b.exec("insert into throughline.deleted_messages select gen_random_uuid(), now() - interval '1 year'")
	b.exec("insert into usage_events (user_id, purpose, model, created_at) values ($1, 'reply', 'm', now() - interval '2 years')", b.user.UserID)
	b.exec(`insert into river.river_job (kind, queue, max_attempts, args, state)
		values ('fold_brief', 'memory', 9, jsonb_build_object('chat_id', $1::uuid), 'scheduled')`, idle)
	testkit.Lease(t, b.pool, "fold", chatID, b.user.UserID, "-1 hour")
	b.exec(`insert into throughline.work (kind, key, user_id, waiting_job, waiting_since) select 'extract', $1, $2, id, now() from river.river_job limit 1`,
		idle, b.user.UserID)
	b.exec("insert into throughline.work (kind, key, user_id) values ('compact', gen_random_uuid(), $1)", b.user.UserID)
	// These have locked the chats, without which rows of theirs are held by those alone who wait for no other.
	withTheChat := []string{"DeleteExpiredChats", "DeleteIdleChats", "InterruptAbandonedReplies"}
	for _, table := range ask[[]string](b, `select array_agg(distinct format('%s', a.attrelid::regclass)) from pg_attribute a join pg_class c on c.oid = a.attrelid
		where a.attname = 'user_id' and c.relkind = 'r' and c.relnamespace in ('public'::regnamespace, 'throughline'::regnamespace)`) {
		holder := b.begin()
		mustExec(t, holder, "select from "+table+" for update")
		for name, query := range periodic(b.user.UserID, chatID, reply) {
			if ofAChat := strings.HasPrefix(table, "message") || table == "conversation_briefs"; ofAChat && slices.Contains(withTheChat, name) {
				continue
			}
			tx := b.begin()
			mustExec(t, tx, "set local lock_timeout = '300ms'")
			_, err := tx.Exec(t.Context(), query.SQL, query.Arguments...)
			fine(t, err, "%s, while rows of %s are held", name, table)
			noError(t, tx.Rollback(t.Context()))
		}
		noError(t, holder.Rollback(t.Context()))
	}
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
func periodic(userID, chatID uuid.UUID, ids ...uuid.UUID) map[string]*pgx.QueuedQuery {
	batch := &pgx.Batch{} // it is never sent
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
		"MakeExtractionsDue":        dbsqlc.MakeExtractionsDue.Queue(batch, dbsqlc.MakeExtractionsDueParams{UserID: userID, ChatID: chatID}),
		"IndexRestedChats":          dbsqlc.IndexRestedChats.Queue(batch, dbsqlc.IndexRestedChatsParams{RestSeconds: 60, Most: restedAtOnce}),
		"InterruptAbandonedReplies": dbsqlc.InterruptAbandonedReplies.Queue(batch, new(120.0)),
		"MergeSearchEntries":        dbsqlc.MergeSearchEntries.Queue(batch, struct{}{}),
		"OldestUnextracted":         dbsqlc.OldestUnextracted.Queue(batch, struct{}{}),
		"QueueDepths":               dbsqlc.QueueDepths.Queue(batch, struct{}{}),
		"RenewLease":                dbsqlc.RenewLease.Queue(batch, dbsqlc.RenewLeaseParams{LeaseSeconds: 15, ServerID: chatID, Running: ids}),
		"AbandonReplies":            dbsqlc.AbandonReplies.Queue(batch, ids),
		"NextGraphUser":             dbsqlc.NextGraphUser.Queue(batch, []uuid.UUID{}),
		"WakeIdleWork":              dbsqlc.WakeIdleWork.Queue(batch, struct{}{}),
		"ReviveJobs":                dbsqlc.ReviveJobs.Queue(batch, 15),
		"SettleRestedBriefs":        dbsqlc.SettleRestedBriefs.Queue(batch, dbsqlc.SettleRestedBriefsParams(limits)),
		"InsertDeltas": dbsqlc.InsertDeltas.Queue(batch, dbsqlc.InsertDeltasParams{
			MessageIds: ids[:1], UserIds: []uuid.UUID{userID}, StartChars: []int{0}, Deltas: []string{"x"},
		}),
	}
}

// fillTopics stores a chat of 4,000 turns in 200 topics, one of 4,000 turns in one topic, and many small ones of the same
// user, all with vectors.
func (b *bed) fillTopics() (wandering, steady uuid.UUID) {
	admin := testkit.Connect(b.t, b.db.AdminDSN)
	wandering, steady = uuid.New(), uuid.New()
	for _, sql := range []string{
		"set session_replication_role = replica", // no triggers and no checks of foreign keys
		`create temp table wanted as
			select '` + wandering.String() + `'::uuid as chat, 4000 as turns, 200 as topics
			union all select '` + steady.String() + `', 4000, 1
			union all select gen_random_uuid(), 10, 2 from generate_series(1, 500)`,
		`insert into chats (id, user_id, topics, last_seq) select chat, '` + b.user.UserID.String() + `', 'on', turns * 2 from wanted`,
		`insert into conversation_briefs (chat_id, user_id, version, covered_seq, indexed_seq, assigned_seq, to_index)
			select chat, '` + b.user.UserID.String() + `', 1, turns * 2 - 4, turns * 2, turns * 2, false from wanted`,
		`insert into messages (chat_id, user_id, seq, role, content, token_count)
			select chat, '` + b.user.UserID.String() + `', n, case when n % 2 = 1 then 'user' else 'assistant' end, 'some words of message ' || n, 6
			  from wanted, generate_series(1, turns * 2) n`,
		`insert into topics (id, chat_id, user_id, number, title, title_seq, message_count, centroid, embedding_model, centroid_turns, created_at,
			last_active_at, first_seq, last_seq)
			select gen_random_uuid(), chat, '` + b.user.UserID.String() + `', n, 'Topic ' || n, n * 2 - 1, turns * 2 / topics,
			       ('[' || repeat('0.04,', 511) || '0.04]')::throughline.embedding, 'a model', turns / topics, now(), now(), n * 2 - 1, turns * 2 - 2 * (topics - n)
			  from wanted, generate_series(1, topics) n`,
		`insert into turn_index (chat_id, seq, user_id, last_seq, words_from, segment, said_at, tokens, tsv, lexemes, embedding, embedding_model, topic_id,
			topic_model)
			select w.chat, n * 2 - 1, '` + b.user.UserID.String() + `', n * 2, greatest(1, n * 2 - 3), 1, now(), 12, to_tsvector('simple', 'chat ' || w.chat), 1,
			       ('[' || repeat('0.04,', 511) || '0.04]')::throughline.embedding, 'a model', t.id, 'a model'
			  from wanted w, generate_series(1, w.turns) n, topics t where t.chat_id = w.chat and t.number = (n - 1) % w.topics + 1`,
		"analyze chats", "analyze conversation_briefs", "analyze messages", "analyze topics", "analyze turn_index",
	} {
		testkit.Exec(b.t, admin, sql)
	}
	return wandering, steady
}

// A turn, an assignment and the sweep read no more for topics of a long chat than those topics' rows. What reads a topic's
// messages reads each of them once or twice.
func TestTopicsOfLongChats(t *testing.T) {
	t.Parallel()
	b := newOwnBed(t)
	wandering, steady := b.fillTopics()
	batch, vector, claims := &pgx.Batch{}, vectorText(axis(1)), `{"sub": "`+b.user.UserID.String()+`", "role": "authenticated"}` // the batch is never sent
	const last, model, short, long = 8000, "a model", 1000, 60_000
	for name, chat := range map[string]uuid.UUID{"wandering": wandering, "steady": steady} {
		topic := ask[uuid.UUID](b, "select id from topics where chat_id = $1 order by number limit 1", chat)
		statement := func(sql string, args ...any) *pgx.QueuedQuery { return &pgx.QueuedQuery{SQL: sql, Arguments: args} }
		for query, c := range map[string]struct {
			query *pgx.QueuedQuery
			most  int // blocks
		}{
			"AssignWanted":     {dbsqlc.AssignWanted.Queue(batch, dbsqlc.AssignWantedParams{Mode: "auto", Model: model, ChatID: chat}), short},
			"AssignReadTopics": {dbsqlc.AssignReadTopics.Queue(batch, chat), 2 * short},
			"AssignReadTurns":  {dbsqlc.AssignReadTurns.Queue(batch, dbsqlc.AssignReadTurnsParams{Model: model, Most: 200, ChatID: chat}), short},
			"AssignRenew":      {dbsqlc.AssignRenew.Queue(batch, dbsqlc.AssignRenewParams{ChatID: chat, Model: model}), short},
			"AssignReadDue":    {dbsqlc.AssignReadDue.Queue(batch, dbsqlc.AssignReadDueParams{ChatID: chat, MaxMessages: 12}), 2 * short}, // plans is_put_off each time
			"AssignFindChats":  {dbsqlc.AssignFindChats.Queue(batch, dbsqlc.AssignFindChatsParams{Mode: "auto", Model: model}), short},
			"LookUpTopics": {dbsqlc.LookUpTopics.Queue(batch,
				dbsqlc.LookUpTopicsParams{ChatID: chat, BeforeSeq: last - 4, Model: model, Question: &vector}), short / 2},
			"UserTopicOfMessage": {dbsqlc.UserTopicOfMessage.Queue(batch, b.message(chat, last-1)), short / 2},
			"CountBareTurns":     {dbsqlc.CountBareTurns.Queue(batch, model), short},
			"pin":                {statement("update messages set pinned = true where chat_id = $1 and seq = $2", chat, last/2), short},
			"index again":        {statement("select throughline.write_turn_index($1, $2, $3)", chat, last-79, last), 4 * short},
			"AssignRecount":      {dbsqlc.AssignRecount.Queue(batch, dbsqlc.AssignRecountParams{ChatID: chat, TopicID: topic}), long},
			"PackMessages":       {dbsqlc.PackMessages.Queue(batch, dbsqlc.PackMessagesParams{TopicID: topic, ChatID: chat}), 2 * long},
			"UserTopicCounts":    {dbsqlc.UserTopicCounts.Queue(batch, dbsqlc.UserTopicCountsParams{ChatID: chat}), long},
			"UserTopicContext":   {dbsqlc.UserTopicContext.Queue(batch, dbsqlc.UserTopicContextParams{ChatID: chat, Most: 8, MostWithout: 12}), long},
		} {
			for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
				tx := b.begin()
				testkit.Exec(t, tx, "select set_config('plan_cache_mode', $1, true), set_config('request.jwt.claims', $2, true)", mode, claims)
				blocks, plan := blocksRead(t, tx, c.query)
				t.Logf("%s, %s: %d blocks", name, query, blocks)
				assert.Truef(t, blocks <= c.most, "%s, %s reads %d blocks with %s:\n%s", name, query, blocks, mode, plan)
				noError(t, tx.Rollback(t.Context()))
			}
		}
	}
}

// newYoungBed is a bed whose tables were analyzed when they held one chat of a few messages, as on a project's first
// day. It has one connection, which has made and kept the plans of its triggers by then. Not through a pooler: the
// counts are those of one session.
func newYoungBed(t *testing.T) (b *bed, chatID uuid.UUID) {
	t.Helper()
	db := testkit.NewDatabase(t)
	db.DSN, db.ServerDSN = db.Direct(), testkit.AsServer(db.Direct())
	b = newBedOn(t, db, memory.DefaultLimits(), 1)
	chatID = b.emptyChat()
	for range 8 {
		b.exec("insert into messages (chat_id, role, content) values ($1, 'user', 'hello')", chatID)
		b.exec("update messages set content = content || '!' where chat_id = $1 and seq = 1", chatID)
	}
	b.exec("vacuum analyze")
	for range 8 {
		b.exec("insert into messages (chat_id, role, content) values ($1, 'user', 'hello')", chatID)
		b.exec("update messages set content = content || '!' where chat_id = $1 and seq = 1", chatID)
		b.exec("delete from messages where chat_id = $1 and seq = (select max(seq) from messages)", chatID)
	}
	return b, chatID
}

// rowsTouched returns how many rows of our tables a session has read, by whole scans and by indexes.
func rowsTouched(b *bed, view, whole string, in testkit.Querier) int {
	return testkit.Ask[int](b.t, in, "select coalesce(sum(case when "+whole+` then seq_tup_read else 0 end + coalesce(idx_tup_fetch, 0)), 0)
		from `+view+" where schemaname = 'public'")
}

// Each statement reads some rows for each row that it writes, and not the table, for any statistics from when its
// triggers were planned. Whole scans of chats are not counted: Postgres' own check of the foreign key keeps its
// plan just so, and only whoever inserts can ask it for another (plan_cache_mode).
func TestBulkChangesOfAYoungDatabaseReadWhatTheyWrite(t *testing.T) {
	t.Parallel()
	b, chatID := newYoungBed(t)
	tx := b.begin()
	mustExec(t, tx, "select from throughline.accounts for key share")
	const rows = 3000
	for _, step := range []struct {
		what, sql string
		args      []any
	}{
		{"messages of one chat", "insert into messages (chat_id, role, content) select $1, 'user', 'hello' from generate_series(1, $2)", []any{chatID, rows}},
		{"messages that exist", `insert into messages (id, chat_id, role, content) select id, chat_id, role, content from messages where chat_id = $1
			on conflict do nothing`, []any{chatID}},
		{"chats", "insert into chats (user_id, title) select $1, 'new' from generate_series(1, $2)", []any{b.user.UserID, rows}},
		{"messages of many chats", "insert into messages (chat_id, role, content) select id, 'user', 'hello' from chats where title = 'new'", nil},
		{"edits", "update messages set content = content || '?' where chat_id = $1", []any{chatID}},
		{"edits in many chats", "update messages set content = 'goodbye' where chat_id <> $1", []any{chatID}},
		{"settings", "update chats set max_turns = 5", nil},
		{"deletions", "delete from messages where chat_id <> $1", []any{chatID}},
	} {
		before := rowsTouched(b, "pg_stat_xact_user_tables", "relname <> 'chats'", tx)
		written := testkit.Exec(t, tx, step.sql, step.args...)
		read := rowsTouched(b, "pg_stat_xact_user_tables", "relname <> 'chats'", tx) - before
		t.Logf("%s: %d rows written, %d read", step.what, written, read)
		assert.Truef(t, read <= 20*rows && (written >= rows || step.what == "messages that exist"),
			"%s: %d rows written, %d read", step.what, written, read)
	}
	is(t, testkit.Ask[bool](t, tx, `select count(*) = 1 + max(seq) - min(seq) filter (where seq > 8) and max(seq) = (select last_seq from chats
		where id = $1) from messages where chat_id = $1 and seq > 8`, chatID), true, "seq has gaps")
}

// A long chat with files and a file of many chats, on a connection that has already imported small ones.
func TestImportsIntoAYoungDatabaseReadWhatTheyWrite(t *testing.T) {
	t.Parallel()
	b, _ := newYoungBed(t)
	p := &port{bed: b, transfer: transfer.New(transfer.Config{
		Store: NewTransfer(b.server, b.limits, Enqueue{}, UserMemoriesOptions{}), Logger: slog.New(slog.DiscardHandler), TempDir: t.TempDir(),
	})}
	file := bundle.File{Content: "package main", SHA256: hashOf("package main")}
	chatOf := func(messages int) string {
		said := make([]bundle.Message, messages)
		for n := range said {
			said[n] = bundle.Message{ID: uuid.NewString(), Role: "system", Content: "hello", Files: []bundle.FileRef{{Path: "main.go", SHA256: file.SHA256}}}
		}
		return encoded(t, bundle.Chat{ID: uuid.NewString()}, []bundle.File{file}, said)
	}
	for range 8 {
		p.mustImport(b.user, chatOf(1))
	}
	b.exec("vacuum analyze")
	for range 8 {
		p.mustImport(b.user, chatOf(1))
	}
	const rows = 1500
	var chats strings.Builder
	for range rows {
		chats.WriteString(chatOf(1))
	}
	for name, text := range map[string]string{"one chat": chatOf(rows), "many chats": chats.String()} {
		before := b.rowsRead()
		p.mustImport(b.user, text)
		read := b.rowsRead() - before
		t.Logf("%s: %d rows read", name, read)
		if read > 400*rows { // a few rows each, and small tables whole; read whole to the end it would be 3000 each
			t.Errorf("%s of %d messages: %d rows read", name, rows, read)
		}
	}
}

// rowsRead returns how many rows the only connection has read since it began.
func (b *bed) rowsRead() int {
	b.exec("select pg_stat_force_next_flush()")
	return rowsTouched(b, "pg_stat_user_tables", "true", b.pool)
}
