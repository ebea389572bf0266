package postgres

import (
	"context"
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// explain runs a query in a savepoint, which is rolled back, and returns its plan.
func explain(t *testing.T, tx pgx.Tx, sql string, args ...any) string {
	savepoint := must(tx.Begin(t.Context()))(t)
	rows := must(savepoint.Query(t.Context(), "explain (analyze, costs off, timing off, summary off) "+sql, args...))(t)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoErrorf(t, err, "%s", sql)
	noError(t, savepoint.Rollback(t.Context()))
	return strings.Join(lines, "\n")
}

var (
	scansWhole = regexp.MustCompile(`Seq Scan on (messages|conversation_briefs|chats|river_job)`)
	rowsRead   = regexp.MustCompile(`actual rows=([0-9.]+)`)
)

// mostRows returns the largest number of rows that any step of a plan returned.
func mostRows(t *testing.T, plan string) int {
	most := 0.0
	for _, found := range rowsRead.FindAllStringSubmatch(plan, -1) {
		most = max(most, must(strconv.ParseFloat(found[1], 64))(t))
	}
	return int(most)
}

// fill creates a long chat, many short ones and jobs of them, and analyzes the tables.
func (b *bed) fill(chats, long int) (longChat, shortChat uuid.UUID) {
	b.exec("alter table messages disable trigger user")
	b.exec("insert into chats (user_id, last_seq) select $1, 20 from generate_series(1, $2)", b.user.UserID, chats)
	const message = `n, case when n % 2 = 1 then 'user' else 'assistant' end, 'some words of message ' || n, 6`
	b.exec("insert into messages (chat_id, user_id, seq, role, content, token_count) select id, user_id, " + message + " from chats, generate_series(1, 20) n")
	longChat = ask[uuid.UUID](b, "insert into chats (user_id, last_seq) values ($1, $2) returning id", b.user.UserID, long)
	b.exec("insert into messages (chat_id, user_id, seq, role, content, token_count) select $1, $2, "+message+" from generate_series(1, $3) n", longChat,
		b.user.UserID, long)
	b.exec("alter table messages enable trigger user")
	b.exec(`update conversation_briefs b set version = 1, covered_seq = c.last_seq - 12, pending_tokens = 72, pending_turns = 6 from chats c
		where c.id = b.chat_id`)
	b.exec(`insert into river.river_job (kind, queue, max_attempts, args, state, finalized_at)
		select 'fold_brief', 'memory', 2000, jsonb_build_object('chat_id', id), 'completed', now() from chats`)
	for _, table := range []string{"chats", "messages", "conversation_briefs", "river.river_job"} {
		b.exec("analyze " + table)
	}
	return longChat, ask[uuid.UUID](b, "select id from chats where id <> $1 limit 1", longChat)
}

func (b *bed) message(chatID uuid.UUID, seq int) uuid.UUID {
	return ask[uuid.UUID](b, "select id from messages where chat_id = $1 and seq = $2", chatID, seq)
}

// twoMessages are the columns of two messages with client ids.
func twoMessages(b *bed, chatID uuid.UUID) dbsqlc.StoreMessagesParams {
	message := func(role string) api.NewMessage {
		return api.NewMessage{Role: role, Content: "x", ClientMessageID: new(uuid.NewString())}
	}
	return must(newMessageColumns(b.user.UserID, chatID, []api.NewMessage{message("user"), message("assistant")}))(b.t)
}

// No query of a turn scans a whole table, and a turn reads as many rows in a chat of ten
// thousand messages as in one of twenty.
func TestPlansUseTheIndexes(t *testing.T) {
	t.Parallel()
	b := newOwnBed(t)
	long, short := b.fill(2000, 10_000)
	b.exec("update messages set status = 'streaming', lease_until = now() + interval '1 hour' where chat_id = $1 and seq = 10000", long)
	for id, last := range map[uuid.UUID]int64{short: 20, long: 10_000} {
		for name, c := range b.queriesOfATurn(id, last) {
			act := func(tx pgx.Tx) error { return actAs(t.Context(), tx, b.user) }
			if strings.Contains(c.query.SQL, "throughline.own_") {
				act = func(tx pgx.Tx) error { return errOf(dbsqlc.ActAsChatOwner.One(t.Context(), tx, id)) }
			}
			fine(t, pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
				if err := act(tx); err != nil {
					return err
				}
				plan := explain(t, tx, c.query.SQL, c.query.Arguments...)
				assert.Truef(t, !scansWhole.MatchString(plan) && mostRows(t, plan) <= c.most, "%s:\n%s", name, plan)
				return nil
			}), "%s", name)
		}
	}
}

// planned is a query, and how many rows a step of its plan may return.
type planned struct {
	query *pgx.QueuedQuery
	most  int
}

// queriesOfATurn are what turns and folds ask in a chat, whose last message has this number.
func (b *bed) queriesOfATurn(id uuid.UUID, last int64) map[string]planned {
	batch, sent := &pgx.Batch{}, twoMessages(b, id) // the batch is never sent
	asked, replied := b.message(id, 1), b.message(id, 2)
	return map[string]planned{
		"ReadBrief":     {dbsqlc.ReadBrief.Queue(batch, id), 1},
		"RecallsOthers": {dbsqlc.RecallsOthers.Queue(batch, id), 2},
		"ReadBuffer": {dbsqlc.ReadBuffer.Queue(batch, dbsqlc.ReadBufferParams{
			ChatID: id, UserMessageID: uuid.New(), MessageID: uuid.New(), MaxRows: 1000,
		}), 13},
		"ReadKept":  {dbsqlc.ReadKept.Queue(batch, dbsqlc.ReadKeptParams{ChatID: id, BeforeSeq: 1 << 40}), 1},
		"ReadFiles": {dbsqlc.ReadFiles.Queue(batch, dbsqlc.ReadFilesParams{MaxTokens: 100_000, ChatID: id}), 1},
		"LockChat":  {dbsqlc.LockChat.Queue(batch, id), 1},
		"ReleaseAbandonedReplies": {dbsqlc.ReleaseAbandonedReplies.Queue(batch,
			dbsqlc.ReleaseAbandonedRepliesParams{ChatID: id, ExtractDelaySeconds: new(120.0)}), 1},
		"FindRunningReply": {dbsqlc.FindRunningReply.Queue(batch, id), 1},
		"FindOpenReply":    {dbsqlc.FindOpenReply.Queue(batch, id), 1},
		"SkipChatsCalls":   {dbsqlc.SkipChatsCalls.Queue(batch, id), 1},
		"FindQuestion":     {dbsqlc.FindQuestion.Queue(batch, dbsqlc.FindQuestionParams{ID: asked, ChatID: id}), 1},
		"LockReply":        {dbsqlc.LockReply.Queue(batch, replied), 1},
		"ReadLockedReply":  {dbsqlc.ReadLockedReply.Queue(batch, b.message(id, int(last))), 1},
		"ChangeReply":      {dbsqlc.ChangeReply.Queue(batch, dbsqlc.ChangeReplyParams{Metadata: []byte("{}"), MessageID: replied}), 1},
		"KeepState":        {dbsqlc.KeepState.Queue(batch, dbsqlc.KeepStateParams{MessageID: replied, UserID: b.user.UserID, State: []byte("{}")}), 1},
		"FindEarlierTurn": {dbsqlc.FindEarlierTurn.Queue(batch,
			dbsqlc.FindEarlierTurnParams{UserID: b.user.UserID, ClientMessageID: nullID(uuid.New())}), 1},
		"FindReply, the latest": {dbsqlc.FindReply.Queue(batch, dbsqlc.FindReplyParams{ChatID: id}), 1},
		"FindReply, an old one": {dbsqlc.FindReply.Queue(batch, dbsqlc.FindReplyParams{MessageID: nullID(replied), ChatID: id}), 1},
		"InsertTurn": {dbsqlc.InsertTurn.Queue(batch, dbsqlc.InsertTurnParams{
			UserMessageID: uuid.New(), Content: "x", TokenCount: 1, Metadata: []byte("{}"), ClientMessageID: nullID(uuid.New()),
			MessageID: uuid.New(), ReplyMetadata: []byte("{}"), LeaseSeconds: 60, ChatID: id,
		}), 2},
		"StoreMessages": {dbsqlc.StoreMessages.Queue(batch, sent), 4},
		"FindStoredMessages": {dbsqlc.FindStoredMessages.Queue(batch, dbsqlc.FindStoredMessagesParams{
			UserID: sent.UserID, Ids: sent.Ids, ClientIds: sent.ClientIds, Places: sent.Places,
		}), 2},
		"FindReplaced": {dbsqlc.FindReplaced.Queue(batch, dbsqlc.FindReplacedParams{
			UserID: b.user.UserID, ClientMessageID: nullID(uuid.New()), ID: replied,
		}), 1},
		"FindLastMessage": {dbsqlc.FindLastMessage.Queue(batch, id), 1},
		"SupersedeTail": {dbsqlc.SupersedeTail.Queue(batch, dbsqlc.SupersedeTailParams{
			SupersededBy: nullID(uuid.New()), ChatID: id, FromSeq: last - 1, LastMessageID: b.message(id, int(last)), ReplacedID: b.message(id, int(last)-1),
		}), 2},
		"InsertAgain": {dbsqlc.InsertAgain.Queue(batch, dbsqlc.InsertAgainParams{
			MessageID: uuid.New(), ReplyMetadata: []byte("{}"), LeaseSeconds: 60,
			UserMessageID: b.message(id, int(last)), ChatID: id, LastMessageID: b.message(id, int(last)),
		}), 1},
		"CountReplaced":      {dbsqlc.CountReplaced.Queue(batch, dbsqlc.CountReplacedParams{ChatID: id, SupersededBy: uuid.New()}), 1},
		"KeepFiles":          {dbsqlc.KeepFiles.Queue(batch, dbsqlc.KeepFilesParams{MessageID: replied, ReplacedID: asked}), 1},
		"ListVersions":       {dbsqlc.ListVersions.Queue(batch, replied), 1},
		"ListMessagesBefore": {dbsqlc.ListMessagesBefore.Queue(batch, dbsqlc.ListMessagesBeforeParams{ChatID: id, BeforeSeq: last, Most: 10}), 10},
		"SaveReply": {dbsqlc.SaveReply.Queue(batch, dbsqlc.SaveReplyParams{
			Content: "x", Status: "complete", TokenCount: 1, Metadata: []byte("{}"), ID: b.message(id, 20), ChatID: id,
		}), 1},
		"ReadCounters":   {dbsqlc.ReadCounters.Queue(batch, dbsqlc.ReadCountersParams{ChatID: id, IndexAfter: indexAfter}), 1},
		"ActAsChatOwner": {dbsqlc.ActAsChatOwner.Queue(batch, id), 1},
		"ReadFold":       {dbsqlc.ReadFold.Queue(batch, id), 1},
		"ReadFoldable":   {dbsqlc.ReadFoldable.Queue(batch, dbsqlc.ReadFoldableParams{ChatID: id, MaxRows: 2000}), 12},
		"LockBrief":      {dbsqlc.LockBrief.Queue(batch, id), 1},
		"LockOwnBrief":   {dbsqlc.LockOwnBrief.Queue(batch, id), 1},
		"WriteBrief": {dbsqlc.WriteBrief.Queue(batch, dbsqlc.WriteBriefParams{
			GlobalSummary: "x", BriefTokens: 1, CoveredSeq: last - 6, ChatID: id, PlannedVersion: 1,
			SeqFrom: 9, Turns: 1, InputTokens: 1, OutputTokens: 1, PromptMode: "inline", DurationMs: 1, Details: []byte("{}"),
		}), 12},
		"WriteDraft": {dbsqlc.WriteDraft.Queue(batch, dbsqlc.WriteDraftParams{
			ChatID: id, PlannedVersion: 1, PlanSha256: "x", PiecesDone: 1, Pieces: 2, Stats: []byte("{}"),
		}), 1},
		"LockPlannedBrief": {dbsqlc.LockPlannedBrief.Queue(batch, dbsqlc.LockPlannedBriefParams{ChatID: id}), 1},
		"SettleFold":       {dbsqlc.SettleFold.Queue(batch, dbsqlc.SettleFoldParams{ChatID: id}), 13},
	}
}

// The plan that Postgres keeps for all replies finds one by its id, not among all messages of its chat.
func TestSavingAReplyReadsItAlone(t *testing.T) {
	t.Parallel()
	b := newOwnBed(t)
	long, _ := b.fill(200, 1000)
	tx := b.begin()
	mustExec(t, tx, "set local plan_cache_mode = force_generic_plan")
	noError(t, actAs(t.Context(), tx, b.user))
	plan := explainPrepared(t, tx, dbsqlc.SaveReply.SQL, fmt.Sprintf("('x', 'complete', 1, '{}', '[]', '%s', '%s', null)", b.message(long, 20), long))
	assert.Containsf(t, plan, "messages_pkey", "the plan is\n%s", plan)
}

// rowsIn adds up the rows that the steps of a plan returned or discarded.
func rowsIn(t *testing.T, plan string) int {
	number := func(text string) float64 {
		return must(strconv.ParseFloat(text, 64))(t)
	}
	sum, loops := 0.0, 1.0
	for line := range strings.Lines(plan) {
		if step := stepDone.FindStringSubmatch(line); step != nil {
			loops = number(step[2])
			sum += number(step[1]) * loops
		}
		if thrown := rowsRemoved.FindStringSubmatch(line); thrown != nil {
			sum += number(thrown[1]) * loops
		}
	}
	return int(sum)
}

var (
	stepDone    = regexp.MustCompile(`actual rows=([0-9.]+) loops=([0-9]+)`)
	rowsRemoved = regexp.MustCompile(`Rows Removed by [A-Za-z ]+: ([0-9]+)`)
)

// The work for all running replies at once grows with their number, not with its square, also with the
// generic plans that Postgres keeps for frequent statements.
func TestManyRunningRepliesCostTheirNumber(t *testing.T) {
	t.Parallel()
	b := newOwnBed(t)
	const replies, deltas = 500, 10
	b.fill(500, 20)
	b.exec("alter table messages disable trigger user")
	b.exec("insert into chats (user_id, title) select $1, 'running' from generate_series(1, $2)", b.user.UserID, replies)
	b.exec(`insert into messages (chat_id, user_id, seq, role, status, lease_until, token_count)
		select id, user_id, 1, 'assistant', 'streaming', now() + interval '1 hour', 0 from chats where title = 'running'`)
	b.exec("alter table messages enable trigger user")
	b.exec(`insert into message_deltas (message_id, user_id, start_char, delta)
		select id, user_id, n, 'x' from messages, generate_series(1, $1) n where status = 'streaming'`, deltas)
	ids := ask[string](b, "select array_agg(id)::text from messages where status = 'streaming'")
	each := func(value string) string {
		return "'{" + strings.TrimSuffix(strings.Repeat(value+",", replies), ",") + "}'"
	}

	tx := b.begin()
	noError(t, errOf(tx.Exec(t.Context(), "set local plan_cache_mode = force_generic_plan")))
	for name, c := range map[string]struct{ sql, args string }{
		"record_deltas":     {b.bodyOf("record_deltas"), fmt.Sprintf("('%s', %s, %[2]s, %s, %s)", ids, each(b.user.UserID.String()), each("0"), each("y"))},
		"abandon_replies":   {b.bodyOf("abandon_replies"), fmt.Sprintf("('%s')", ids)},
		"renew_server":      {b.bodyOf("renew_server"), fmt.Sprintf("('%s', '%s', 15)", b.user.UserID, ids)},
		"cancelled_replies": {b.bodyOf("cancelled_replies"), fmt.Sprintf("('%s')", ids)},
		"interrupt_replies": {b.bodyOf("interrupt_replies"), "(120)"},
		"delete_deltas":     {b.bodyOf("delete_deltas"), fmt.Sprintf("('%s')", ids)},
		"DeleteStrayDeltas": {dbsqlc.DeleteStrayDeltas.SQL, "(10)"},
	} {
		if did := rowsIn(t, explainPrepared(t, tx, c.sql, c.args)); did > 12*replies*deltas {
			t.Errorf("%s handled %d rows for %d replies:\n%s", name, did, replies, explainPrepared(t, tx, c.sql, c.args))
		}
	}
}

// bodyOf returns the statement of a function, with parameters in place of its arguments.
func (b *bed) bodyOf(function string) string {
	body := ask[string](b, "select prosrc from pg_proc where pronamespace = 'throughline'::regnamespace and proname = $1", function)
	arguments := ask[[]string](b, `select array_agg(name || ' ' || format_type(type, null) order by n)
		from pg_proc, unnest(proargnames, proargtypes::oid[]) with ordinality a (name, type, n)
		where pronamespace = 'throughline'::regnamespace and proname = $1`, function)
	for n, argument := range arguments {
		name, kind, _ := strings.Cut(argument, " ")
		body = regexp.MustCompile(`([( ])`+name+`([), \n])`).ReplaceAllString(body, fmt.Sprintf("${1}$$%d::%s${2}", n+1, kind))
	}
	return strings.NewReplacer("begin\n", "", ";\nend", "").Replace(body)
}

// explainPrepared runs a prepared statement and returns its plan.
func explainPrepared(t *testing.T, tx pgx.Tx, sql, args string) (plan string) {
	_, sql, _ = strings.Cut(sql, "\n") // sqlc's own line would be the statement's
	mustExec(t, tx, "prepare looked_at as "+sql)
	plan = explain(t, tx, "execute looked_at"+args, pgx.QueryExecModeSimpleProtocol)
	mustExec(t, tx, "deallocate looked_at")
	return plan
}

// manyMessages is how many messages the talkative user of TestListsOfManyMessages has.
func manyMessages() int {
	if testing.Short() {
		return 10_000
	}
	return 100_000
}

// fillMessages gives a user a hundred chats with so many messages in all, half of them in the chat that it returns.
func (b *bed) fillMessages(user auth.Principal, messages int) uuid.UUID {
	long := uuid.New()
	admin := testkit.Connect(b.t, b.db.AdminDSN)
	testkit.Exec(b.t, admin, "set session_replication_role = replica") // no triggers and no checks of foreign keys
	testkit.Exec(b.t, admin, `insert into chats (id, user_id, title, last_seq, message_count, turn_count, created_at, last_message_at)
		select case when n = 1 then $1 else gen_random_uuid() end, $2, 'Chat ' || n, per, per, per / 2, now() - interval '1 year', now() - make_interval(hours => n)
		  from (select n, case when n = 1 then $3::int / 2 else $3::int / 198 end as per from generate_series(1, 100) n) c`, long, user.UserID, messages)
	testkit.Exec(b.t, admin, `insert into messages (chat_id, user_id, seq, role, content, token_count, status, metadata, created_at)
		select c.id, c.user_id, n, case when n % 2 = 1 then 'user' else 'assistant' end, repeat('some words of a message ', 12), 60, 'complete',
		       case when n % 2 = 0 then '{"model": "m", "usage": {"input_tokens": 900, "cached_tokens": 700, "output_tokens": 60}}'::jsonb else '{}' end,
		       c.last_message_at - make_interval(secs => c.last_seq - n)
		  from chats c, generate_series(1, c.last_seq) n where c.user_id = $1`, user.UserID)
	testkit.Exec(b.t, admin, "vacuum analyze chats")
	testkit.Exec(b.t, admin, "vacuum analyze messages")
	return long
}

// Lists read as much for a user with many messages as for one with few, in as many chats, wherever the page begins.
func TestListsOfManyMessages(t *testing.T) {
	t.Parallel()
	b := newOwnBed(t)
	few := map[string]int{}
	for _, messages := range []int{1_000, manyMessages()} {
		user := b.newUser()
		long, last := b.fillMessages(user, messages), int64(messages/2)
		batch := &pgx.Batch{} // is never sent
		before := func(seq int64) *pgx.QueuedQuery {
			return dbsqlc.ListMessagesBefore.Queue(batch, dbsqlc.ListMessagesBeforeParams{ChatID: long, BeforeSeq: seq, Most: 50})
		}
		tx := b.begin()
		noError(t, actAs(t.Context(), tx, user))
		for name, query := range map[string]*pgx.QueuedQuery{
			"chats": dbsqlc.ListChats.Queue(batch, dbsqlc.ListChatsParams{Most: 20}),
			"chats, a later page": dbsqlc.ListChats.Queue(batch, dbsqlc.ListChatsParams{
				AsOf: new(time.Now()), Activity: new(time.Now().Add(-50 * time.Hour)), ChatID: nullID(uuid.New()), Most: 20,
			}),
			"chat":                      dbsqlc.ReadChat.Queue(batch, long),
			"messages, the newest":      before(math.MaxInt64),
			"messages, in the middle":   before(last / 2),
			"messages, the first":       before(51),
			"messages, after the first": dbsqlc.ListMessagesAfter.Queue(batch, dbsqlc.ListMessagesAfterParams{ChatID: long, AfterSeq: 0, Most: 50}),
			"files":                     dbsqlc.ListFiles.Queue(batch, dbsqlc.ListFilesParams{ChatID: long}),
		} {
			for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
				testkit.Exec(t, tx, "select set_config('plan_cache_mode', $1, true)", mode)
				_, _ = blocksRead(t, tx, query) // loads what a connection reads once
				pages, plan := blocksRead(t, tx, query)
				t.Logf("%s, %s: %d pages for %d messages", name, mode, pages, messages)
				// A page of messages is one or two steps of a tree deeper, and no message is read that is not shown.
				known, second := few[name+mode]
				assert.Truef(t, !second || pages <= 2*known+20,
					"%s: %d pages instead of %d with %s:\n%s", name, pages, known, mode, plan)
				few[name+mode] = pages
			}
		}
		began := time.Now()
		pages, _ := blocksRead(t, tx, dbsqlc.CountUsage.Queue(&pgx.Batch{}, struct{}{}))
		t.Logf("usage of %d messages: %d pages, %s", messages, pages, time.Since(began))
	}
}

// A turn updates its chat and its brief in place, without writing to their indexes. A new index over a column
// that each turn changes would end that without notice.
func TestTurnsChangeRowsInPlace(t *testing.T) {
	t.Parallel()
	b := newOwnBed(t)
	chatID := ask[uuid.UUID](b, "insert into chats (user_id, title) values ($1, 'a chat') returning id", b.user.UserID)
	tx := b.begin()
	mustExec(t, tx, "select from throughline.accounts where user_id = $1 for key share", b.user.UserID) // for two changes of a chat in one transaction
	for _, sql := range []string{
		"insert into messages (chat_id, user_id, role, content, status) select id, user_id, 'user', 'Hello', 'complete' from chats where id = $1",
		"insert into messages (chat_id, user_id, role, content, status) select id, user_id, 'assistant', '', 'streaming' from chats where id = $1",
		"update messages set content = 'Hello to you', status = 'complete', token_count = 3 where chat_id = $1 and status = 'streaming'",
	} {
		mustExec(t, tx, sql, chatID)
	}
	is(t, testkit.Ask[int](t, tx, `select count(*) from pg_stat_xact_user_tables
		where relname in ('chats', 'conversation_briefs') and n_tup_upd > 1 and n_tup_hot_upd = n_tup_upd`), 2, "tables were changed in place")
}

// The two transactions of a turn, as the user under RLS, with triggers: in a chat whose last turns were not folded yet.
// Compare them with BenchmarkPlainInserts of the same run. The times are CPU of the backend, which a busy machine hardly changes.
func BenchmarkTurn(b *testing.B) {
	db := testkit.NewDatabase(b)
	pool := openPool(b, db, db.ServerDSN, 1)
	b.Cleanup(pool.Close)
	id := testkit.NewUser(b, db)
	user := auth.Principal{UserID: id, Claims: fmt.Sprintf(`{"sub":"%s","role":"authenticated"}`, id)}
	nothing := func(context.Context, pgx.Tx, uuid.UUID) error { return nil }
	turns := NewTurns(pool, memory.DefaultLimits(), Enqueue{Fold: nothing, Index: nothing})
	backend := testkit.Ask[int](b, pool, "select pg_backend_pid()")
	question, answer := strings.Repeat("A question of a person. ", 5), strings.Repeat("What the model says to it. ", 15)
	for _, unfolded := range []int{10, 300, 10_000} {
		var starts, saves time.Duration
		next := firstTurn(question)
		turn := func() {
			began := cpuOf(b, backend)
			started := must(turns.StartTurn(b.Context(), user, next))(b)
			mustBe(b, started.Started, true, "start")
			begun := cpuOf(b, backend)
			mustBe(b, must(turns.SaveReply(b.Context(), user, finished(next, answer)))(b), true, "save")
			starts, saves = starts+begun-began, saves+cpuOf(b, backend)-begun
			next = turnIn(next.ChatID, question)
		}
		turn()
		fillTurns(b, db, next.ChatID, unfolded-1)
		for range 10 {
			turn() // Postgres makes its plans
		}
		b.Run(fmt.Sprintf("unfolded=%d", unfolded), func(b *testing.B) {
			starts, saves = 0, 0
			written := testkit.Ask[int64](b, pool, "select pg_current_wal_insert_lsn() - '0/0'")
			for b.Loop() {
				turn()
			}
			written = testkit.Ask[int64](b, pool, "select pg_current_wal_insert_lsn() - '0/0'") - written
			b.ReportMetric(float64(starts.Nanoseconds())/float64(b.N), "start-ns/op")
			b.ReportMetric(float64(saves.Nanoseconds())/float64(b.N), "save-ns/op")
			b.ReportMetric(float64(written)/float64(b.N), "WAL-B/op")
		})
	}
}

// fillTurns adds turns to a chat: the first one, again and again.
func fillTurns(b *testing.B, db testkit.Database, chatID uuid.UUID, turns int) {
	admin := testkit.Connect(b, db.AdminDSN)
	testkit.Exec(b, admin, `insert into messages (chat_id, user_id, role, content, token_count)
		select m.chat_id, m.user_id, m.role, m.content, m.token_count from generate_series(1, $2) n, messages m where m.chat_id = $1 order by n, m.seq`,
		chatID, turns)
	testkit.Exec(b, admin, "vacuum analyze")
}

// cpuOf returns the CPU time that a process has used.
func cpuOf(b *testing.B, pid int) time.Duration {
	used, _, _ := strings.Cut(string(must(os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid)))(b)), " ")
	return time.Duration(must(strconv.ParseInt(used, 10, 64))(b))
}

// The same texts in one transaction, in a table without triggers or policies.
func BenchmarkPlainInserts(b *testing.B) {
	db := testkit.NewDatabase(b)
	pool := openPool(b, db, db.DSN, 4)
	b.Cleanup(pool.Close)
	noError(b, errOf(pool.Exec(b.Context(), "create table plain (id uuid primary key, chat_id uuid not null, content text not null)")))
	for b.Loop() {
		batch := &pgx.Batch{}
		batch.Queue("begin")
		for _, content := range []string{strings.Repeat("A question of a person. ", 5), strings.Repeat("What the model says to it. ", 15)} {
			batch.Queue("insert into plain values ($1, $2, $3)", uuid.New(), uuid.New(), content)
		}
		batch.Queue("commit")
		noError(b, pool.SendBatch(b.Context(), batch).Close())
	}
}
