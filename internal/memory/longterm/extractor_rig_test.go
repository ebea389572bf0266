package longterm_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/llm"
	"github.com/arcoscribe/throughline/internal/memory/longterm"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// rig is one database, one model, a user, and an engine that extracts.
type rig struct {
	t       *testing.T
	db      testkit.Database
	pool    *pgxpool.Pool
	model   *testkit.Model
	user    uuid.UUID
	config  longterm.Extractor
	engine  *longterm.Extractor
	metrics *metrics.Metrics
	logs    *testkit.Log
	// next are the times for which jobs were inserted.
	next []time.Time
}

func newRig(t *testing.T, script testkit.Script, change func(*longterm.Extractor)) *rig {
	db := testkit.NewDatabase(t)
	model := testkit.NewModel(t, script)
	pool, _, err := postgres.Open(t.Context(), db.DSN, 10)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	r := &rig{t: t, db: db, pool: pool, model: model, user: testkit.NewUser(t, db), metrics: metrics.New(), logs: &testkit.Log{}}
	client := llm.New(llm.Settings{
		APIKey: "offline", BaseURL: model.BaseURL(), IdleTimeout: time.Minute, Meter: &postgres.Usage{Pool: pool, Logger: r.logs.Logger()},
	})
	t.Cleanup(client.Close)
	r.config = longterm.Extractor{
		Store: &postgres.Learning{Pool: pool, Insert: r.insert}, Leases: &postgres.Work{Pool: pool},
		Asker: client, Logger: r.logs.Logger(), Metrics: r.metrics, Model: "small",
		Delay: 1,
	}
	if change != nil {
		change(&r.config)
	}
	r.engine = longterm.NewExtractor(r.config)
	return r
}

// chat stores a chat of the user with these messages, to which the assistant says no more than that it heard.
func (r *rig) chat(said ...string) uuid.UUID {
	chatID := testkit.Ask[uuid.UUID](r.t, r.pool, "insert into chats (user_id, title) values ($1, '') returning id", r.user)
	for _, content := range said {
		r.say(chatID, "user", content)
		r.say(chatID, "assistant", "I hear you.")
	}
	return chatID
}

func (r *rig) say(chatID uuid.UUID, role, content string) {
	testkit.Exec(r.t, r.pool, "insert into messages (chat_id, role, content, token_count) values ($1, $2, $3, $4)", chatID, role, content, text.Tokens(content))
}

func (r *rig) extract(chatID uuid.UUID) (longterm.Report, error) {
	return r.engine.Extract(r.t.Context(), chatID, work.Attempt{})
}

func (r *rig) insert(_ context.Context, _ pgx.Tx, job work.Job) error {
	r.next = append(r.next, job.At)
	return nil
}

// mustExtract fails the test unless a range was read.
func (r *rig) mustExtract(chatID uuid.UUID) longterm.Report {
	report, err := r.extract(chatID)
	require.Truef(r.t, err == nil && report.Result == work.Done, "extract: %+v, %v", report, err)
	return report
}

// contents are those of the user's memories with a status, "" for any, in the order of their making.
func (r *rig) contents(status string) []string {
	return testkit.Ask[[]string](r.t, r.pool,
		"select coalesce(array_agg(content order by created_at, content), '{}') from memories where user_id = $1 and status like $2", r.user, status+"%")
}

// wantNoLease checks that the user's lease was given back.
func (r *rig) wantNoLease() {
	testkit.Want(r.t, r.pool, 0, "select count(*) from throughline.work where lease_token is not null")
}

// wantUnread checks that nothing was written.
func (r *rig) wantUnread() {
	testkit.Want(r.t, r.pool, 0, "select count(*) from memory_extractions")
	assert.Empty(r.t, r.contents(""), "remembered")
	r.wantNoLease()
}

type (
	factLine = offline.Fact
	decision = offline.Decision
)

// proposal is a fact that a model proposes for the message in which the quote is.
func proposal(content, quote string) factLine {
	return factLine{Fact: content, Type: "fact", Confidence: 0.9, Horizon: "lasting", Quote: quote, Entities: []offline.Entity{},
		Relationships: []offline.Relationship{}}
}

// proposing is a script that proposes each fact for the message that holds its quote, and answers consolidations with
// decide; nil adds everything.
func proposing(decide func(*offline.Request) offline.Answer, facts ...factLine) testkit.Script {
	return func(request *offline.Request) offline.Answer {
		switch request.Metadata["purpose"] {
		case "extract":
			return proposed(request, facts...)
		case "consolidate":
			if decide != nil {
				return decide(request)
			}
			return answer(map[string]any{"decisions": []decision{}})
		}
		return offline.Answer{}
	}
}

func proposed(request *offline.Request, facts ...factLine) offline.Answer {
	told := []factLine{}
	_, messages, _ := strings.Cut(request.Text, "NEW MESSAGES")
	for line := range strings.SplitSeq(messages, "\n") {
		for _, f := range facts {
			if alias, _, _ := strings.Cut(line, " "); strings.HasPrefix(alias, "U") && strings.Contains(line, f.Quote) {
				f.Evidence = []string{alias}
				told = append(told, f)
			}
		}
	}
	return answer(map[string]any{"facts": told})
}

func answer(content any) offline.Answer {
	encoded, err := json.Marshal(content)
	return offline.Answer{Text: string(encoded) + strings.Repeat("!", len(errorText(err)))}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
