package postgres

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/memory/learn"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
)

// movingModel believes whoever says where they live, and that nobody lives in two places.
type movingModel struct{}

func (movingModel) Ask(_ context.Context, question work.Question) (work.Answer, error) {
	var answer any
	switch question.Purpose {
	case "consolidate":
		answer = map[string]any{"decisions": []any{map[string]any{"candidate": "C1", "action": "DELETE", "memory": "M1", "merged": nil, "reason": "moved"}}}
	default:
		facts := []any{}
		_, said, _ := strings.Cut(question.Input, "NEW MESSAGES")
		for line := range strings.SplitSeq(said, "\n") {
			alias, rest, _ := strings.Cut(line, " ")
			_, place, found := strings.Cut(strings.TrimSuffix(rest, "."), "I live in ")
			if found && strings.HasPrefix(alias, "U") {
				facts = append(facts, map[string]any{
					"fact": "The user lives in " + place + ".", "type": "fact", "confidence": 0.9, "horizon": "lasting", "durable": false, "evidence": []string{alias},
					"quote": "I live in " + place, "valid_from": nil, "valid_to": nil, "replaces": nil,
					"entities": []any{map[string]any{"name": place, "type": "place"}}, "relationships": []any{},
				})
			}
		}
		answer = map[string]any{"facts": facts}
	}
	encoded, err := json.Marshal(answer)
	return work.Answer{Text: string(encoded), Model: "m"}, err
}

// learner returns an engine that reads the bed's chats, also while somebody is talking in them.
func (b *bed) learner() *learn.Engine {
	return learn.New(learn.Config{
		Store: NewLearning(b.pool), Leases: b.work, Asker: movingModel{}, Logger: slog.New(slog.DiscardHandler), Metrics: metrics.New(), Model: "m",
	})
}

// read reads a chat as often as it takes, as a job does.
func (b *bed) read(engine *learn.Engine, chatID uuid.UUID) error {
	job := learn.Job{EnqueueNext: func(context.Context, pgx.Tx, time.Time) error { return nil }}
	for ctx := b.t.Context(); ; {
		report, err := engine.Extract(ctx, chatID, job)
		if err != nil || report.Result == work.Nothing {
			return err
		}
		if report.Result == work.Busy && !pause(ctx, time.Millisecond) {
			return ctx.Err()
		}
	}
}

// says stores a message of the user and a reply.
func (b *bed) says(chatID uuid.UUID, content string) {
	b.t.Helper()
	b.exec("insert into messages (chat_id, role, content, token_count) values ($1, 'user', $2, 9), ($1, 'assistant', 'I see.', 2)", chatID, content)
}

// Extractions commit while the user deletes a memory with what summaries hold of it, changes and pins it, and goes on talking:
// no one waits for another without end, and what was said last is remembered once.
func TestExtractionsBesideTheUsersChanges(t *testing.T) {
	t.Parallel()
	for name, changes := range map[string][]history.MemoryChange{
		"deleted, with summaries": {{}},
		"changed":                 {{Content: new("The user lives in Lyon, near the river.")}},
		"both, and pinned":        {{}, {Content: new("The user lives in Lyon, near the river.")}, {Pinned: new(true)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rememberingOf(newOwnBed(t))
			engine, random := r.learner(), seeded(t)
			for n := range races(t, 40) { // 10 in short mode
				r.user = r.newUser()
				chats := []uuid.UUID{r.newChat(1), r.newChat(1)}
				for _, chatID := range chats {
					r.says(chatID, "I live in Lyon.")
					noError(t, r.read(engine, chatID))
					r.mustCommit(r.claim(chatID, "fold"))
					r.says(chatID, "I live in Porto.")
				}
				known := ask[uuid.UUID](r, "select id from memories where user_id = $1", r.user.UserID)
				var work []func() error
				for _, chatID := range chats {
					work = append(work, func() error { return r.read(engine, chatID) },
						func() error { return errOf(r.turns.StartTurn(t.Context(), r.user, turnIn(chatID, "And now?"))) })
				}
				for _, change := range changes {
					work = append(work, func() error { return r.deleteOrChange(known, change) })
				}
				r.atOnce(n, random, work)
				r.checkMemories()
				mustBe(t, ask[string](r, `select count(*) filter (where content like '%Porto%' and status in ('active',
					'inbox')) || ' ' || count(*) filter (where content like '%Lyon%' and status = 'active' and not edited and not pinned)
					from memories where user_id = $1`, r.user.UserID), "1 0", "round %d: Porto and Lyon are remembered", n)
				for len(r.rebuilt) > 0 {
					<-r.rebuilt
				}
			}
			r.wantNoDeadlock()
		})
	}
}

// deleteOrChange changes a memory, unless it is gone by then; without a change it deletes the memory, with summaries.
func (r *remembering) deleteOrChange(id uuid.UUID, change history.MemoryChange) (err error) {
	if change == (history.MemoryChange{}) {
		err = r.memories.DeleteMemory(r.t.Context(), r.user, id, history.MemoryDeletion{Also: history.AlsoSummaries})
	} else {
		_, err = r.memories.ChangeMemory(r.t.Context(), r.user, id, change)
	}
	if fault.CodeOf(err) == fault.MemoryNotFound {
		return nil
	}
	return err
}

// wantNoDeadlock ends the bed, and checks that Postgres has resolved no deadlock: transactions that are tried again hide it.
// A session tells what it counted when it ends or, as those of a pooler, once it has been idle for ten seconds.
func (b *bed) wantNoDeadlock() {
	b.t.Helper()
	admin := testkit.Connect(b.t, b.db.AdminDSN)
	b.pool.Close()
	testkit.Eventually(b.t, "all sessions have told what they counted", func() bool {
		return testkit.Ask[int](b.t, admin, `select count(*) from pg_stat_activity where datname = current_database() and application_name = 'throughline'
			and (state <> 'idle' or state_change > now() - interval '12 seconds')`) == 0
	})
	is(b.t, testkit.Ask[int](b.t, admin, "select deadlocks from pg_stat_database where datname = current_database()"), 0, "deadlocks")
}
