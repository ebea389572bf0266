package brief_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/llm"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// rig is one database, one offline model, a user, and an engine that folds.
type rig struct {
	t       *testing.T
	pool    *pgxpool.Pool
	model   *testkit.Model
	user    uuid.UUID
	config  brief.Config
	engine  *brief.Engine
	metrics *metrics.Metrics
	logs    *testkit.Log
	// again reports whether the chat was due again after the latest fold.
	again bool
}

func newRig(t *testing.T, script testkit.Script, change func(*brief.Config)) *rig {
	db := testkit.NewDatabase(t)
	model := testkit.NewModel(t, script)
	pool, _, err := postgres.Open(t.Context(), db.DSN, 10)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	client := llm.New(llm.Settings{APIKey: "offline", BaseURL: model.BaseURL(), IdleTimeout: time.Minute})
	t.Cleanup(client.Close)
	r := &rig{t: t, pool: pool, model: model, user: testkit.NewUser(t, db), metrics: metrics.New(), logs: &testkit.Log{}}
	r.config = brief.Config{
		Store: &postgres.Briefs{Pool: pool, Insert: r.insert}, Leases: &postgres.Work{Pool: pool}, Summarizer: client,
		Prompt: brief.PromptConfig{Mode: brief.ModeInline, Model: "small"},
		Limits: memory.Limits{
			KRawTurns: 2, MinTailTurns: 1, SummaryTokenCap: 200, PromptTokenBudget: 600, BridgeTokenBudget: 600,
			ChunkThreshold: 300, FoldInputTokens: 2000,
		},
		Logger: r.logs.Logger(), Metrics: r.metrics,
	}
	if change != nil {
		change(&r.config)
	}
	r.engine = brief.New(r.config)
	return r
}

// chat stores a chat with so many short turns.
func (r *rig) chat(turns int) uuid.UUID {
	chatID := testkit.Ask[uuid.UUID](r.t, r.pool, "insert into chats (user_id, title) values ($1, '') returning id", r.user)
	for turn := range turns {
		r.say(chatID, "user", fmt.Sprintf("I decided to practise etude %d for %d minutes%s.", turn, 10+turn, strings.Repeat(fmt.Sprintf(" slowly%d", turn), 8)))
		r.say(chatID, "assistant", fmt.Sprintf("Etude %d it is, then%s.", turn, strings.Repeat(fmt.Sprintf(" steadily%d", turn), 8)))
	}
	return chatID
}

func (r *rig) say(chatID uuid.UUID, role, content string) {
	testkit.Exec(r.t, r.pool, "insert into messages (chat_id, role, content, token_count) values ($1, $2, $3, $4)", chatID, role, content, text.Tokens(content))
}

func (r *rig) fold(chatID uuid.UUID) (brief.Report, error) {
	r.again = false
	return r.engine.Fold(r.t.Context(), chatID, work.Attempt{})
}

// wantFold folds and checks how that ends.
func (r *rig) wantFold(chatID uuid.UUID, want work.Result) {
	report, err := r.fold(chatID)
	assert.Truef(r.t, err == nil && report.Result == want, "fold: %+v, %v, want %s", report, err, want)
}

// insert notes that the chat is due again.
func (r *rig) insert(context.Context, pgx.Tx, work.Job) error {
	r.again = true
	return nil
}

// mustFold folds and fails the test unless the brief has a new version.
func (r *rig) mustFold(chatID uuid.UUID) brief.Report {
	report, err := r.fold(chatID)
	for err == nil && report.Result == work.Paused { // on a busy machine it takes more than one turn
		report, err = r.fold(chatID)
	}
	require.Truef(r.t, err == nil && report.Result == work.Done, "fold: %+v, %v", report, err)
	return report
}

func (r *rig) summary(chatID uuid.UUID) string {
	return testkit.Ask[string](r.t, r.pool, "select brief ->> 'global_summary' from conversation_briefs where chat_id = $1", chatID)
}
