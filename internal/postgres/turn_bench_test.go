package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// The two transactions of a turn, as the user under RLS, with triggers: in a chat whose last turns were not folded yet.
// Compare them with BenchmarkPlainInserts of the same run.
func BenchmarkTurn(b *testing.B) {
	db := testkit.NewDatabase(b)
	pool := openPool(b, db, 4)
	b.Cleanup(pool.Close)
	id := testkit.NewUser(b, db)
	user := auth.Principal{UserID: id, Claims: fmt.Sprintf(`{"sub":"%s","role":"authenticated"}`, id)}
	nothing := func(context.Context, pgx.Tx, uuid.UUID) error { return nil }
	turns := NewTurns(pool, memory.DefaultLimits(), Enqueue{Fold: nothing, Index: nothing})
	question, answer := strings.Repeat("A question of a person. ", 5), strings.Repeat("What the model says to it. ", 15)
	for _, unfolded := range []int{10, 300} {
		var starts, saves time.Duration
		next := firstTurn(question)
		turn := func() {
			began := time.Now()
			started := must(turns.StartTurn(b.Context(), user, next))(b)
			mustBe(b, started.Started, true, "start")
			begun := time.Now()
			mustBe(b, must(turns.SaveReply(b.Context(), user, finished(next, answer)))(b), true, "save")
			starts, saves = starts+begun.Sub(began), saves+time.Since(begun)
			next = turnIn(next.ChatID, question)
		}
		for range unfolded {
			turn()
		}
		b.Run(fmt.Sprintf("unfolded=%d", unfolded), func(b *testing.B) {
			starts, saves = 0, 0
			for b.Loop() {
				turn()
			}
			b.ReportMetric(float64(starts.Nanoseconds())/float64(b.N), "start-ns/op")
			b.ReportMetric(float64(saves.Nanoseconds())/float64(b.N), "save-ns/op")
		})
	}
}

// The same texts in one transaction, in a table without triggers or policies.
func BenchmarkPlainInserts(b *testing.B) {
	db := testkit.NewDatabase(b)
	pool := openPool(b, db, 4)
	b.Cleanup(pool.Close)
	noError(b, errOf(pool.Exec(b.Context(), "create table plain (id uuid primary key, chat_id uuid not null, content text not null)")))
	for b.Loop() {
		batch := &pgx.Batch{}
		for _, content := range []string{strings.Repeat("A question of a person. ", 5), strings.Repeat("What the model says to it. ", 15)} {
			batch.Queue("insert into plain values ($1, $2, $3)", uuid.New(), uuid.New(), content)
		}
		noError(b, pool.SendBatch(b.Context(), batch).Close())
	}
}
