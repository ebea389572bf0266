package fold_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/arcoscribe/throughline/internal/fold"
	"github.com/arcoscribe/throughline/internal/llm"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/offline"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// patience is how long a test waits for what must come. It says nothing about speed.
const patience = 60 * time.Second

// rig is one database, one offline model, a user, and an engine that folds.
type rig struct {
	t       *testing.T
	pool    *pgxpool.Pool
	model   *offline.Listening
	user    uuid.UUID
	config  fold.Config
	engine  *fold.Engine
	metrics *metrics.Metrics
	logs    *logBuffer
	// again is what the latest fold said of the chat.
	again bool
}

func newRig(t *testing.T, script func(*offline.Request) offline.Answer, change func(*fold.Config)) *rig {
	t.Helper()
	db := testkit.NewDatabase(t)
	model, err := offline.Start(offline.Options{Script: script})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = model.Close() }) // what it serves was checked before
	pool, _, err := postgres.Open(t.Context(), db.DSN, 10)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	client := llm.New(llm.Config{APIKey: "offline", BaseURL: model.BaseURL(), IdleTimeout: time.Minute})
	t.Cleanup(client.Close)
	r := &rig{t: t, pool: pool, model: model, user: testkit.NewUser(t, db), metrics: metrics.New(), logs: &logBuffer{}}
	r.config = fold.Config{
		Store: postgres.NewBriefs(pool), Summarizer: client, Prompt: fold.PromptConfig{Mode: fold.ModeInline, Model: "small"},
		Limits: memory.Limits{
			KRawTurns: 2, MinTailTurns: 1, SummaryTokenCap: 200, PromptTokenBudget: 600, BridgeTokenBudget: 600,
			ChunkThreshold: 300, FoldInputTokens: 2000,
		},
		Logger: slog.New(slog.NewJSONHandler(r.logs, nil)), Metrics: r.metrics,
	}
	if change != nil {
		change(&r.config)
	}
	r.engine = fold.New(r.config)
	return r
}

// chat stores a chat with so many short turns.
func (r *rig) chat(turns int) uuid.UUID {
	r.t.Helper()
	chatID := ask[uuid.UUID](r, "insert into chats (user_id, title) values ($1, '') returning id", r.user)
	for turn := range turns {
		r.say(chatID, "user", fmt.Sprintf("I decided to practise etude %d for %d minutes%s.", turn, 10+turn, strings.Repeat(fmt.Sprintf(" slowly%d", turn), 8)))
		r.say(chatID, "assistant", fmt.Sprintf("Etude %d it is, then%s.", turn, strings.Repeat(fmt.Sprintf(" steadily%d", turn), 8)))
	}
	return chatID
}

func (r *rig) say(chatID uuid.UUID, role, text string) {
	r.t.Helper()
	r.exec("insert into messages (chat_id, role, content, token_count) values ($1, $2, $3, $4)", chatID, role, text, memory.Tokens(text))
}

func (r *rig) fold(chatID uuid.UUID) (fold.Report, error) {
	return r.engine.Fold(r.t.Context(), chatID, r.within)
}

func (r *rig) within(_ context.Context, _ pgx.Tx, _ fold.Report, again bool) error {
	r.again = again
	return nil
}

// mustFold folds and wants a new version of the brief.
func (r *rig) mustFold(chatID uuid.UUID) fold.Report {
	r.t.Helper()
	report, err := r.fold(chatID)
	if err != nil || report.Result != fold.Done {
		r.t.Fatalf("fold: %+v, %v", report, err)
	}
	return report
}

func (r *rig) summary(chatID uuid.UUID) string {
	r.t.Helper()
	return ask[string](r, "select brief ->> 'global_summary' from conversation_briefs where chat_id = $1", chatID)
}

func (r *rig) exec(sql string, args ...any) {
	r.t.Helper()
	if _, err := r.pool.Exec(r.t.Context(), sql, args...); err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
}

func ask[T any](r *rig, sql string, args ...any) T {
	r.t.Helper()
	var answer T
	if err := r.pool.QueryRow(r.t.Context(), sql, args...).Scan(&answer); err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
	return answer
}

// inOrder is a script that answers one request after another with these, and then with the last.
func inOrder(answers ...offline.Answer) func(*offline.Request) offline.Answer {
	var mu sync.Mutex
	next := 0
	return func(*offline.Request) offline.Answer {
		mu.Lock()
		defer mu.Unlock()
		answer := answers[min(next, len(answers)-1)]
		next++
		return answer
	}
}

// logBuffer is a log that may be read while it is written.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(line)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
