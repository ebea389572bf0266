package postgres

import (
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// fillTopics stores a chat of 4,000 turns in 200 topics, one of 4,000 turns in one topic, and many small ones of the same
// user, all with vectors.
func (b *bed) fillTopics() (wandering, steady uuid.UUID) {
	b.t.Helper()
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
			"AssignReadDue":    {dbsqlc.AssignReadDue.Queue(batch, dbsqlc.AssignReadDueParams{ChatID: chat, MaxMessages: 12}), short},
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
				if blocks > c.most {
					t.Errorf("%s, %s reads %d blocks with %s:\n%s", name, query, blocks, mode, plan)
				}
				noError(t, tx.Rollback(t.Context()))
			}
		}
	}
}
