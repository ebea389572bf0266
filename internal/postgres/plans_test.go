package postgres

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
)

// explainQueued is explain for a generated query.
func explainQueued(t *testing.T, tx pgx.Tx, query *pgx.QueuedQuery) string {
	t.Helper()
	return explain(t, tx, query.SQL, query.Arguments...)
}

// explain runs a query in a savepoint, which is rolled back, and returns its plan.
func explain(t *testing.T, tx pgx.Tx, sql string, args ...any) string {
	t.Helper()
	savepoint, err := tx.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rows, err := savepoint.Query(t.Context(), "explain (analyze, costs off, timing off, summary off) "+sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	if err := savepoint.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

var (
	scansWhole = regexp.MustCompile(`Seq Scan on (messages|conversation_briefs|chats|river_job)`)
	rowsRead   = regexp.MustCompile(`actual rows=([0-9.]+)`)
)

// mostRows returns the largest number of rows that any step of a plan returned.
func mostRows(t *testing.T, plan string) int {
	t.Helper()
	most := 0.0
	for _, found := range rowsRead.FindAllStringSubmatch(plan, -1) {
		n, err := strconv.ParseFloat(found[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, n)
	}
	return int(most)
}

// fill creates a long chat, many short ones and jobs of them, and analyzes the tables.
func (b *bed) fill(chats, long int) (longChat, shortChat uuid.UUID) {
	b.t.Helper()
	b.exec("alter table messages disable trigger user")
	b.exec("insert into chats (user_id, last_seq) select $1, 20 from generate_series(1, $2)", b.user.UserID, chats)
	const message = `n, case when n % 2 = 1 then 'user' else 'assistant' end, 'some words of message ' || n, 6`
	b.exec("insert into messages (chat_id, user_id, seq, role, content, token_count) select id, user_id, " + message + " from chats, generate_series(1, 20) n")
	longChat = ask[uuid.UUID](b, "insert into chats (user_id, last_seq) values ($1, $2) returning id", b.user.UserID, long)
	b.exec("insert into messages (chat_id, user_id, seq, role, content, token_count) select $1, $2, "+message+" from generate_series(1, $3) n", longChat, b.user.UserID, long)
	b.exec("alter table messages enable trigger user")
	b.exec(`update conversation_briefs b set version = 1, covered_seq = c.last_seq - 12, pending_tokens = 72, pending_turns = 6 from chats c where c.id = b.chat_id`)
	b.exec(`insert into river.river_job (kind, queue, max_attempts, args, state, finalized_at)
		select 'fold_brief', 'memory', 2000, jsonb_build_object('chat_id', id), 'completed', now() from chats`)
	for _, table := range []string{"chats", "messages", "conversation_briefs", "river.river_job"} {
		b.exec("analyze " + table)
	}
	return longChat, ask[uuid.UUID](b, "select id from chats where id <> $1 limit 1", longChat)
}

func (b *bed) message(chatID uuid.UUID, seq int) uuid.UUID {
	b.t.Helper()
	return ask[uuid.UUID](b, "select id from messages where chat_id = $1 and seq = $2", chatID, seq)
}

// twoMessages are the columns of two messages with client ids.
func twoMessages(b *bed, chatID uuid.UUID) dbsqlc.StoreMessagesParams {
	message := func(role string) history.NewMessage {
		return history.NewMessage{Role: role, Content: "x", ClientMessageID: new(uuid.NewString())}
	}
	columns, err := newMessageColumns(b.user.UserID, chatID, []history.NewMessage{message("user"), message("assistant")})
	if err != nil {
		b.t.Fatal(err)
	}
	return columns
}

// No query of a turn scans a whole table, and a turn reads as many rows in a chat of ten
// thousand messages as in one of twenty.
func TestPlansUseTheIndexes(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	long, short := b.fill(2000, 10_000)
	b.exec("update messages set status = 'streaming', lease_until = now() + interval '1 hour' where chat_id = $1 and seq = 10000", long)
	lease, last := uuid.New(), map[uuid.UUID]int64{short: 20, long: 10_000}
	b.exec("update conversation_briefs set lease_token = $2, lease_until = now() where chat_id = any($1)", []uuid.UUID{long, short}, lease)
	batch := &pgx.Batch{} // is never sent
	for name, c := range map[string]struct {
		query func(chatID uuid.UUID) *pgx.QueuedQuery
		most  int // rows
	}{
		"ReadBrief": {func(id uuid.UUID) *pgx.QueuedQuery { return queue(batch, queries.ReadBrief, id) }, 1},
		"ReadBuffer": {func(id uuid.UUID) *pgx.QueuedQuery {
			return queue(batch, queries.ReadBuffer, dbsqlc.ReadBufferParams{
				ChatID: id, UserMessageID: uuid.New(), MessageID: uuid.New(), MaxRows: 1000,
			})
		}, 13},
		"ReadKept": {func(id uuid.UUID) *pgx.QueuedQuery { return queue(batch, queries.ReadKept, id) }, 1},
		"ReadFiles": {func(id uuid.UUID) *pgx.QueuedQuery {
			return queue(batch, queries.ReadFiles, dbsqlc.ReadFilesParams{MaxTokens: 100_000, ChatID: id})
		}, 1},
		"LockChat": {func(id uuid.UUID) *pgx.QueuedQuery { return queue(batch, queries.LockChat, id) }, 1},
		"ReleaseAbandonedReplies": {func(id uuid.UUID) *pgx.QueuedQuery {
			return queueExec(batch, queries.ReleaseAbandonedReplies, dbsqlc.ReleaseAbandonedRepliesParams{ChatID: id, ExtractDelaySeconds: new(120.0)})
		}, 1},
		"FindRunningReply": {func(id uuid.UUID) *pgx.QueuedQuery { return queue(batch, queries.FindRunningReply, id) }, 1},
		"FindEarlierTurn": {func(uuid.UUID) *pgx.QueuedQuery {
			return queue(batch, queries.FindEarlierTurn, dbsqlc.FindEarlierTurnParams{UserID: b.user.UserID, ClientMessageID: nullID(uuid.New())})
		}, 1},
		"FindReply, the latest": {func(id uuid.UUID) *pgx.QueuedQuery {
			return queue(batch, queries.FindReply, dbsqlc.FindReplyParams{ChatID: id})
		}, 1},
		"FindReply, an old one": {func(id uuid.UUID) *pgx.QueuedQuery {
			return queue(batch, queries.FindReply, dbsqlc.FindReplyParams{MessageID: nullID(b.message(id, 2)), ChatID: id})
		}, 1},
		"InsertTurn": {func(id uuid.UUID) *pgx.QueuedQuery {
			return queue(batch, queries.InsertTurn, dbsqlc.InsertTurnParams{
				UserMessageID: uuid.New(), Content: "x", TokenCount: 1, Metadata: []byte("{}"), ClientMessageID: nullID(uuid.New()),
				MessageID: uuid.New(), ReplyMetadata: []byte("{}"), LeaseSeconds: 60, ChatID: id,
			})
		}, 2},
		"StoreMessages": {func(id uuid.UUID) *pgx.QueuedQuery {
			return queueExec(batch, queries.StoreMessages, twoMessages(b, id))
		}, 4},
		"FindStoredMessages": {func(id uuid.UUID) *pgx.QueuedQuery {
			sent := twoMessages(b, id)
			return queue(batch, queries.FindStoredMessages, dbsqlc.FindStoredMessagesParams{UserID: sent.UserID, Ids: sent.Ids, ClientIds: sent.ClientIds, Places: sent.Places})
		}, 2},
		"InsertAgain": {func(id uuid.UUID) *pgx.QueuedQuery {
			return queue(batch, queries.InsertAgain, dbsqlc.InsertAgainParams{
				MessageID: uuid.New(), ReplyMetadata: []byte("{}"), LeaseSeconds: 60, UserMessageID: b.message(id, 1), ChatID: id, InPlaceOf: b.message(id, 2),
			})
		}, 1},
		"SupersedeReply": {func(id uuid.UUID) *pgx.QueuedQuery {
			return queueExec(batch, queries.SupersedeReply, dbsqlc.SupersedeReplyParams{InPlaceOf: b.message(id, 2), MessageID: b.message(id, 4)})
		}, 1},
		"SaveReply": {func(id uuid.UUID) *pgx.QueuedQuery {
			return queue(batch, queries.SaveReply, dbsqlc.SaveReplyParams{
				Content: "x", Status: "complete", TokenCount: 1, Metadata: []byte("{}"), ID: b.message(id, 20), ChatID: id,
			})
		}, 1},
		"ReadCounters": {func(id uuid.UUID) *pgx.QueuedQuery {
			return queue(batch, queries.ReadCounters, dbsqlc.ReadCountersParams{ChatID: id, IndexAfter: indexAfter})
		}, 1},
		"ActAsChatOwner": {func(id uuid.UUID) *pgx.QueuedQuery { return queue(batch, queries.ActAsChatOwner, id) }, 1},
		"ClaimBrief": {func(id uuid.UUID) *pgx.QueuedQuery {
			return queue(batch, queries.ClaimBrief, dbsqlc.ClaimBriefParams{LeaseToken: uuid.New(), LeaseSeconds: 20, ChatID: id})
		}, 1},
		"ReadFoldable": {func(id uuid.UUID) *pgx.QueuedQuery {
			return queue(batch, queries.ReadFoldable, dbsqlc.ReadFoldableParams{ChatID: id, LeaseToken: lease, MaxRows: 2000})
		}, 12},
		"LockBrief":    {func(id uuid.UUID) *pgx.QueuedQuery { return queueExec(batch, queries.LockBrief, id) }, 1},
		"LockOwnBrief": {func(id uuid.UUID) *pgx.QueuedQuery { return queueExec(batch, queries.LockOwnBrief, id) }, 1},
		"WriteBrief": {func(id uuid.UUID) *pgx.QueuedQuery {
			return queue(batch, queries.WriteBrief, dbsqlc.WriteBriefParams{
				GlobalSummary: "x", BriefTokens: 1, CoveredSeq: last[id] - 6, ChatID: id, PlannedVersion: 1, LeaseToken: lease, Kind: "fold",
				SeqFrom: 9, Turns: 1, InputTokens: 1, OutputTokens: 1, PromptMode: "inline", DurationMs: 1, Details: []byte("{}"),
			})
		}, 12},
		"WriteDraft": {func(id uuid.UUID) *pgx.QueuedQuery {
			return queue(batch, queries.WriteDraft, dbsqlc.WriteDraftParams{
				ChatID: id, LeaseToken: lease, LeaseSeconds: 20, PlannedVersion: 1, PlanSha256: "x", PiecesDone: 1, Pieces: 2, Stats: []byte("{}"),
			})
		}, 1},
		"PutOffFold": {func(id uuid.UUID) *pgx.QueuedQuery {
			return queue(batch, queries.PutOffFold, dbsqlc.PutOffFoldParams{ChatID: id, LeaseToken: nullID(lease), Failure: "x", FirstSeconds: 1, LongestSeconds: 1})
		}, 1},
		"SettleFold": {func(id uuid.UUID) *pgx.QueuedQuery {
			return queueExec(batch, queries.SettleFold, dbsqlc.SettleFoldParams{ChatID: id, LeaseToken: lease})
		}, 13},
		// What may_fold asks: the user has 2001 chats, of which two have a lease.
		"may_fold": {func(id uuid.UUID) *pgx.QueuedQuery {
			return batch.Queue("select count(*) from throughline.own_briefs b where b.lease_until > now() and b.chat_id <> $1", id)
		}, 2},
	} {
		for _, chatID := range []uuid.UUID{long, short} {
			query := c.query(chatID)
			act := func(tx pgx.Tx) error { return dbsqlc.New(tx).ActAsUser(t.Context(), b.user.Claims) }
			if strings.Contains(query.SQL, "throughline.own_") {
				act = func(tx pgx.Tx) error { _, err := dbsqlc.New(tx).ActAsChatOwner(t.Context(), chatID); return err }
			}
			err := pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
				if err := act(tx); err != nil {
					return err
				}
				plan := explainQueued(t, tx, query)
				if scansWhole.MatchString(plan) || mostRows(t, plan) > c.most {
					t.Errorf("%s:\n%s", name, plan)
				}
				return nil
			})
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// The plan that Postgres keeps for all replies finds one by its id, not among all messages of its chat.
func TestSavingAReplyReadsItAlone(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	long, _ := b.fill(200, 1000)
	err := pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
		for _, sql := range []string{"set local plan_cache_mode = force_generic_plan", "prepare save as " + dbsqlc.SaveReply} {
			if _, err := tx.Exec(t.Context(), sql); err != nil {
				return err
			}
		}
		if err := dbsqlc.New(tx).ActAsUser(t.Context(), b.user.Claims); err != nil {
			return err
		}
		execute := fmt.Sprintf("execute save ('x', 'complete', 1, '{}', '%s', '%s')", b.message(long, 20), long)
		if plan := explain(t, tx, execute); !strings.Contains(plan, "messages_pkey") {
			t.Errorf("the plan is\n%s", plan)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
