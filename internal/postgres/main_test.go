package postgres

import (
	"context"
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// bed is one test's database, with the stores on it and a user.
type bed struct {
	t      *testing.T
	db     testkit.Database
	pool   *pgxpool.Pool
	limits memory.Limits
	turns  *Turns
	briefs *Briefs
	user   auth.Principal
	index  *TurnIndex
	// folds are the chats whose fold was enqueued, in the order of the calls; indexes those to be indexed.
	folds, indexes chan uuid.UUID
}

func newBed(t *testing.T) *bed {
	t.Helper()
	return newBedWith(t, memory.DefaultLimits(), 20)
}

func newBedWith(t *testing.T, limits memory.Limits, conns int) *bed {
	t.Helper()
	return newBedOn(t, testkit.NewDatabase(t), limits, conns)
}

func newBedOn(t *testing.T, db testkit.Database, limits memory.Limits, conns int) *bed {
	t.Helper()
	b := &bed{t: t, db: db, limits: limits, folds: make(chan uuid.UUID, 10_000), indexes: make(chan uuid.UUID, 10_000)}
	pool, pooled, err := Open(t.Context(), b.db.DSN, conns)
	if err != nil || pooled != db.Pooled() {
		t.Fatalf("open: %v, taken for a transaction pooler: %v", err, pooled)
	}
	t.Cleanup(pool.Close)
	b.pool = pool
	into := func(enqueued chan uuid.UUID) func(context.Context, pgx.Tx, uuid.UUID) error {
		return func(_ context.Context, _ pgx.Tx, chatID uuid.UUID) error {
			enqueued <- chatID
			return nil
		}
	}
	b.turns = NewTurns(pool, limits, Enqueue{Fold: into(b.folds), Index: into(b.indexes)})
	b.briefs, b.index = NewBriefs(pool), NewTurnIndex(pool)
	b.user = b.newUser()
	return b
}

func (b *bed) newUser() auth.Principal {
	b.t.Helper()
	return principalOf(b.t, testkit.NewUser(b.t, b.db))
}

func principalOf(t *testing.T, id uuid.UUID) auth.Principal {
	t.Helper()
	claims, err := json.Marshal(map[string]string{"sub": id.String(), "role": "authenticated"})
	if err != nil {
		t.Fatal(err)
	}
	return auth.Principal{UserID: id, Claims: string(claims)}
}

// firstTurn returns a turn that starts a chat, turnIn one that continues it.
func firstTurn(content string) chat.NewTurn {
	turn := turnIn(uuid.New(), content)
	turn.NewChat, turn.Title = true, content
	return turn
}

func turnIn(chatID uuid.UUID, content string) chat.NewTurn {
	return chat.NewTurn{
		ChatID: chatID, UserMessageID: uuid.New(), Content: content, ContentTokens: text.Tokens(content),
		MessageID: uuid.New(), Variant: "arco", Lease: time.Minute, SystemPromptRoom: 1 << 20,
	}
}

// start starts a turn, which must succeed.
func (b *bed) start(turn chat.NewTurn) chat.StartedTurn {
	b.t.Helper()
	started, err := b.turns.StartTurn(b.t.Context(), b.user, turn)
	if err != nil || !started.Started {
		b.t.Fatalf("start: %+v, %v", started, err)
	}
	return started
}

// startTwo starts two turns, each in a chat of its own.
func (b *bed) startTwo() (one, two chat.NewTurn) {
	b.t.Helper()
	one, two = firstTurn("One."), firstTurn("Two.")
	b.start(one)
	b.start(two)
	return one, two
}

// startWithID starts a turn with a client message id.
func (b *bed) startWithID(content string) chat.NewTurn {
	b.t.Helper()
	turn := firstTurn(content)
	turn.ClientMessageID = uuid.New()
	b.start(turn)
	return turn
}

// reply completes a turn's reply.
func (b *bed) reply(turn chat.NewTurn, content string) {
	b.t.Helper()
	if saved, err := b.turns.SaveReply(b.t.Context(), b.user, finished(turn, content)); err != nil || !saved {
		b.t.Fatalf("save: %v, %v", saved, err)
	}
}

func finished(turn chat.NewTurn, content string) chat.FinishedReply {
	return chat.FinishedReply{
		ChatID: turn.ChatID, MessageID: turn.MessageID, Status: memory.StatusComplete, Content: content,
		Tokens: text.Tokens(content), Metadata: chat.ReplyMetadata{ModelVariant: turn.Variant},
	}
}

// newChat creates a chat with that many complete turns and returns its id.
func (b *bed) newChat(turns int) uuid.UUID {
	b.t.Helper()
	first := firstTurn("question number 1")
	b.start(first)
	b.reply(first, "answer number 1")
	for range turns - 1 {
		turn := turnIn(first.ChatID, "another question")
		b.start(turn)
		b.reply(turn, "another answer")
	}
	return first.ChatID
}

// exec runs a statement as the server, that is as postgres.
func (b *bed) exec(sql string, args ...any) {
	b.t.Helper()
	testkit.Exec(b.t, b.pool, sql, args...)
}

// ask reads one value as the server.
func ask[T any](b *bed, sql string, args ...any) T {
	b.t.Helper()
	return testkit.Ask[T](b.t, b.pool, sql, args...)
}

// claim takes the lease for a fold of all messages, and returns the change that would commit it.
func (b *bed) claim(chatID uuid.UUID, kind brief.Kind) brief.Change {
	b.t.Helper()
	lease := brief.Lease{Token: uuid.New(), Duration: time.Minute}
	snapshot, claimed, err := b.briefs.Claim(b.t.Context(), chatID, kind, lease, math.MaxInt32)
	if err != nil || claimed != brief.ClaimTaken {
		b.t.Fatalf("claim: %v, %v", claimed, err)
	}
	return changeOf(chatID, kind, lease, snapshot)
}

// changeOf covers all messages of a snapshot.
func changeOf(chatID uuid.UUID, kind brief.Kind, lease brief.Lease, snapshot brief.Snapshot) brief.Change {
	change := brief.Change{ChatID: chatID, Kind: kind, Lease: lease, Planned: snapshot, Summary: "They talked.", Tokens: 3}
	change.Plan = brief.Plan{SeqFrom: snapshot.Brief.CoveredSeq + 1, SeqTo: snapshot.Brief.CoveredSeq}
	if kind == brief.KindRebuild {
		change.Plan.SeqFrom = 1
	}
	for _, m := range snapshot.Messages {
		change.Plan.SeqTo = max(change.Plan.SeqTo, m.Seq)
		change.Plan.LastSummarizedMessageID = m.ID
		if m.Role == memory.RoleUser {
			change.Plan.Turns++
		}
	}
	change.Stats = brief.CallStats{Mode: brief.ModeInline, PromptRef: "built-in@1", Model: "test", Calls: 1}
	return change
}

func (b *bed) commit(change brief.Change) (bool, error) {
	return b.briefs.Commit(b.t.Context(), change, func(context.Context, pgx.Tx, brief.Counters) error { return nil })
}

// mustCommit commits a change, which must succeed.
func (b *bed) mustCommit(change brief.Change) {
	b.t.Helper()
	if won, err := b.commit(change); err != nil || !won {
		b.t.Fatalf("commit: %v, %v", won, err)
	}
}

// briefRow is what tests compare of a chat's brief.
type briefRow struct {
	Version, CoveredSeq         int64
	PendingTokens, PendingTurns int
	Stale, Leased               bool
	Summary                     string
}

func (b *bed) brief(chatID uuid.UUID) briefRow {
	b.t.Helper()
	rows, err := b.pool.Query(b.t.Context(), `select version, covered_seq, pending_tokens, pending_turns, stale,
		lease_token is not null, brief ->> 'global_summary' from conversation_briefs where chat_id = $1`, chatID)
	if err != nil {
		b.t.Fatal(err)
	}
	row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[briefRow])
	if err != nil {
		b.t.Fatal(err)
	}
	return row
}

// checkCounters compares the counters that triggers maintain with the rows, for all chats.
func (b *bed) checkCounters() {
	b.t.Helper()
	wrong := ask[int](b, `
		select count(*) from chats c join conversation_briefs b on b.chat_id = c.id
		  cross join lateral (select count(*) as n, coalesce(max(seq), 0) as last,
		      coalesce(sum(token_count) filter (where seq > b.covered_seq), 0) as tokens,
		      count(*) filter (where role = 'user' and token_count > 0) as all_turns,
		      count(*) filter (where seq > b.covered_seq and role = 'user' and token_count > 0) as turns
		    from messages m where m.chat_id = c.id) real
		 where (c.message_count, c.turn_count, b.pending_tokens, b.pending_turns) is distinct from (real.n, real.all_turns, real.tokens, real.turns)
		    or c.last_seq < real.last`)
	if wrong != 0 {
		b.t.Errorf("the counters of %d chats are wrong", wrong)
	}
}

// awaitBlocked waits until that many backends of the test's database wait for a lock.
func (b *bed) awaitBlocked(n int) {
	b.t.Helper()
	testkit.Eventually(b.t, "somebody waits for a lock", func() bool {
		return ask[int](b, `select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`) >= n
	})
}
