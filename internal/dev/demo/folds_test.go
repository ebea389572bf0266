package demo

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// stored is a chat in a real Postgres, for an api that stores nothing itself.
type stored struct {
	t    *testing.T
	dsn  string
	conn *pgx.Conn
	user uuid.UUID
	chat uuid.UUID
}

func newStored(t *testing.T, chat uuid.UUID) *stored {
	t.Helper()
	database := testkit.NewDatabase(t)
	conn, err := pgx.Connect(t.Context(), database.AdminDSN)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	s := &stored{t: t, dsn: database.DSN, conn: conn, user: testkit.NewUser(t, database), chat: chat}
	s.exec(`insert into public.chats (id, user_id) values ($1, $2)`, chat, s.user)
	return s
}

func (s *stored) exec(sql string, args ...any) {
	s.t.Helper()
	if _, err := s.conn.Exec(s.t.Context(), sql, args...); err != nil {
		s.t.Error(err) // also called from handlers, where FailNow must not be
	}
}

// message stores one, with a given id and size.
func (s *stored) message(id uuid.UUID, role string, tokens int) {
	s.t.Helper()
	s.exec(`insert into public.messages (id, chat_id, user_id, role, content, token_count) values ($1, $2, $3, $4, 'x', $5)`,
		id, s.chat, s.user, role, tokens)
}

// job inserts a fold of the chat.
func (s *stored) job(state string) {
	s.t.Helper()
	s.exec(`insert into river.river_job (state, max_attempts, args, kind, queue, finalized_at)
		values ($1::text::river.river_job_state, 5, jsonb_build_object('chat_id', $2::text), 'fold_brief', 'memory',
			case when $1::text = 'completed' then now() end)`,
		state, s.chat.String())
}

func (s *stored) brief(version, covered int, text string) {
	s.t.Helper()
	s.exec(`update public.conversation_briefs set version = $2, covered_seq = $3, brief_tokens = 12, pending_turns = 3,
		brief = jsonb_build_object('global_summary', $4::text, 'last_summarized_message_id', null) where chat_id = $1`,
		s.chat, version, covered, text)
	s.exec(`insert into public.conversation_brief_revisions (chat_id, user_id, version, kind, seq_from, seq_to, turns, global_summary,
		input_tokens, output_tokens, prompt_mode, prompt_ref, model, duration_ms, input_sha256, details)
		values ($1, $2, $3, 'fold', 1, $4, 1, $5, 100, 12, 'inline', 'built-in@1', 'a-model', 345, 'ab', '{"tokens_before": 0, "tokens_after": 12, "turns_tokens": 90}')`,
		s.chat, s.user, version, covered, text)
}

func TestRunLooksIntoPostgres(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	s := newStored(t, a.chat)
	a.hook = func(_ http.ResponseWriter, _ *http.Request, m *received) bool {
		s.message(m.userID, "user", 30)
		s.message(m.id, "assistant", 70)
		if m.n == 4 {
			s.brief(1, 2, "The user said:\n- The teacher is called Ilse.")
		}
		return false
	}
	s.job("completed")
	o := a.options(lines(4))
	o.DatabaseURL = s.dsn
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	printed := o.Out.(*strings.Builder).String()
	for _, said := range []string{"BRIEF  version 1, ", "12 tokens, covers 1 turn up to message 2", "- The teacher is called Ilse.", "CHUNK BUFFER  3 turns", "version 1, fold at", "a-model", "TOKEN BILL  4 turns"} {
		if !strings.Contains(printed, said) {
			t.Errorf("the report does not say %q:\n%s", said, printed)
		}
	}
}

// Between two messages a fold has time, as it has between a person's.
func TestMessagesWaitForFolds(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	s := newStored(t, a.chat)
	s.job("running")
	folded := make(chan struct{})
	a.hook = func(_ http.ResponseWriter, _ *http.Request, m *received) bool {
		if m.n == 1 {
			go func() { // the job ends a moment after the first reply
				defer close(folded)
				s.exec(`select pg_sleep(0.3)`)
				s.exec(`update river.river_job set state = 'completed', finalized_at = now()`)
			}()
			return false
		}
		select {
		case <-folded:
		default:
			t.Error("the message did not wait for the fold")
		}
		return false
	}
	o := a.options(lines(2))
	o.DatabaseURL = s.dsn
	summary, err := Run(t.Context(), o)
	if err != nil || len(summary.Turns) != 2 {
		t.Errorf("%v, %+v", err, summary)
	}
	if printed := o.Out.(*strings.Builder).String(); !strings.Contains(printed, "the next one waits for a fold") {
		t.Errorf("printed:\n%s", printed)
	}
}

func TestAFoldThatNeverEndsIsNotWaitedForForEver(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	s := newStored(t, a.chat)
	s.job("retryable")
	o := a.options(lines(3))
	o.DatabaseURL = s.dsn
	o.foldPatience = time.Millisecond
	summary, err := Run(t.Context(), o)
	if err != nil || len(summary.Turns) != 3 {
		t.Errorf("%v, %+v", err, summary)
	}
	if printed := strings.Join(strings.Fields(o.Out.(*strings.Builder).String()), " "); !strings.Contains(printed, "job fold_brief is retryable") || strings.Count(printed, "goes on without it") != 1 {
		t.Errorf("printed:\n%s", printed)
	}
}

// An interrupt ends the waiting for a fold, and what was measured is still read.
func TestInterruptWhileWaitingForAFold(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	s := newStored(t, a.chat)
	s.job("running")
	s.brief(1, 2, "Kept.")
	ctx, interrupt := context.WithCancel(t.Context())
	o := a.options(lines(5))
	o.DatabaseURL = s.dsn
	out := &interrupter{at: "waits for a fold", interrupt: interrupt}
	o.Out = out
	summary, err := Run(ctx, o)
	if err != nil || !summary.Interrupted || len(summary.Turns) != 1 || !strings.Contains(out.String(), "| Kept.") || !strings.Contains(out.String(), "job fold_brief is running") {
		t.Errorf("%v, %+v", err, summary)
	}
}

// interrupter interrupts when it reads a text.
type interrupter struct {
	strings.Builder
	at        string
	interrupt func()
}

func (i *interrupter) Write(p []byte) (int, error) {
	n, err := i.Builder.Write(p)
	if strings.Contains(strings.Join(strings.Fields(i.String()), " "), i.at) {
		i.interrupt()
	}
	return n, err
}

func TestRunSaysWhenPostgresIsNotThere(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	o := a.options(lines(1))
	o.DatabaseURL = "postgres://nobody@127.0.0.1:1/none?sslmode=disable&connect_timeout=2"
	if _, err := Run(t.Context(), o); err == nil || len(a.contents) > 0 {
		t.Errorf("error %v after %d messages, want one before the first", err, len(a.contents))
	}
}
