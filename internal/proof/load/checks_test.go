package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/streaming"
)

// run of a system without a fault: five minutes, a sample per second, with the noise of a real one.
func healthy() series {
	dice := rand.New(rand.NewPCG(1, 2))
	samples := make(series, 300)
	for n := range samples {
		wave := float64(n % 7)
		s := sample{At: time.Duration(n) * time.Second}
		for i := range replicas + workers {
			p := processSample{Name: fmt.Sprintf("part %d", i), Goroutines: 30 + wave, Files: 20 + wave, Streams: wave, Goal: 20e6 + 1e6*dice.Float64()}
			p.RSS = int64(70e6 + 5e6*dice.Float64() + 30e6*(1-1/(1+float64(n)/20))) // it fills at the beginning
			s.Parts = append(s.Parts, p)
		}
		changed := int64(n) * 100
		s.Postgres = database{Connections: 20, Tables: map[string]table{
			"public.messages": {Live: changed, Dead: changed % 6000, Changed: changed, Trigger: 5000, Vacuums: changed / 6000},
		}}
		samples[n] = s
	}
	return samples
}

// fails holds that a check fails, and says what it is about.
func fails(t *testing.T, c check, want string) {
	t.Helper()
	if !strings.Contains(c.Problem, want) {
		t.Errorf("%s: %q does not say %q", c.Name, c.Problem, want)
	}
}

func passes(t *testing.T, c check) {
	t.Helper()
	if c.Problem != "" {
		t.Errorf("%s: %s", c.Name, c.Problem)
	}
}

func TestMemoryCheck(t *testing.T) {
	t.Parallel()
	passes(t, memoryIsSteady(healthy()))
	for want, leak := range map[string]func(*processSample, float64){
		"heap goal of part 2": func(p *processSample, age float64) { p.Goal += 150e3 * age },
		"memory of part 2":    func(p *processSample, age float64) { p.RSS += int64(300e3 * age) },
	} {
		samples := healthy()
		for _, s := range samples {
			leak(&s.Parts[2], s.At.Seconds())
		}
		fails(t, memoryIsSteady(samples), want)
	}
	crowded := healthy()
	for _, s := range crowded[150:] {
		more := (s.At.Seconds() - 150) // a stream per second, each with 200 kB
		s.Parts[0].Streams += more
		s.Parts[0].Goal += 200e3 * more
	}
	passes(t, memoryIsSteady(crowded))
	samples := healthy()
	for n := range samples[:20] {
		samples[150+n].Parts[0].RSS += 500e6 // a peak is no leak
	}
	passes(t, memoryIsSteady(samples))
	if c := memoryIsSteady(healthy()[:60]); c.Problem != "" || !strings.Contains(c.Detail, "not judged") {
		t.Errorf("a short run: %+v", c)
	}
}

func TestBaselineCheck(t *testing.T) {
	t.Parallel()
	before := healthy()[0]
	passes(t, backToBaseline(before, healthy()[0]))
	for want, leak := range map[string]func(*sample){
		"goroutines of part 3":        func(s *sample) { s.Parts[3].Goroutines += sparesPerProcess + 1 },
		"open files of part 1":        func(s *sample) { s.Parts[1].Files += sparesPerProcess + 1 },
		"open streams of part 0":      func(s *sample) { s.Parts[0].Streams = 1 },
		"connections to Postgres":     func(s *sample) { s.Postgres.Connections += spareConnections + 1 },
		"busy connections to Postgre": func(s *sample) { s.Postgres.Busy = 1 },
	} {
		after := healthy()[0]
		leak(&after)
		fails(t, backToBaseline(before, after), want)
	}
}

func TestVacuumCheck(t *testing.T) {
	t.Parallel()
	passes(t, vacuumKeepsUp(healthy()))
	samples := healthy()
	for _, s := range samples {
		messages := s.Postgres.Tables["public.messages"]
		messages.Dead = messages.Changed // a snapshot that nobody gives back keeps all of them
		s.Postgres.Tables["public.messages"] = messages
	}
	fails(t, vacuumKeepsUp(samples), "public.messages has")
	passes(t, vacuumKeepsUp(samples[:100])) // it could not have come yet
	passes(t, vacuumKeepsUp(nil))
}

func TestLeftoversCheck(t *testing.T) {
	t.Parallel()
	passes(t, nothingLeft(leftovers{}))
	for want, left := range map[string]leftovers{
		"1 rows in message_deltas": {Deltas: 1}, "2 messages that are streaming": {Streaming: 2}, "3 folds that are not done": {Jobs: 3},
		"4 folds that were given up": {Discarded: 4}, "5 chats that are due": {Due: 5}, "6 leases": {Leases: 6}, "7 temporary files": {Files: 7},
	} {
		fails(t, nothingLeft(left), want)
	}
}

func TestErrorsCheck(t *testing.T) {
	t.Parallel()
	passes(t, noErrors(nil, 0, "", database{}))
	fails(t, noErrors(map[string]int64{"HTTP 500 internal": 3}, 0, "", database{}), "3 times HTTP 500 internal")
	fails(t, noErrors(nil, 2, "panic: a", database{}), "2 errors in the logs: panic: a")
	fails(t, noErrors(nil, 0, "", database{Deadlocks: 1}), "1 deadlocks")
	if (report{checks: []check{newCheck("a", "")}}).failed() || !(report{checks: []check{newCheck("a", ""), newCheck("b", "", "wrong")}}).failed() {
		t.Error("a report fails with any of its checks, and only then")
	}
}

// exchange stores a turn without a fault, and returns what its client knows of it.
func exchange(t *testing.T, tx pgx.Tx) turn {
	t.Helper()
	r := &reply{Reply: kit.Reply{Text: []byte("an answer"), End: streaming.EventCompleted}}
	r.Started = streaming.Started{ChatID: uuid.New(), UserMessageID: uuid.New(), MessageID: uuid.New()}
	known := newTurn(uuid.New(), uuid.New(), "a question", r)
	testkit.Exec(t, tx, `insert into public.messages (id, chat_id, user_id, seq, role, content, token_count, client_message_id, reply_to)
		values ($1, $2, $3, 1, 'user', 'a question', 1, $4, null), ($5, $2, $3, 2, 'assistant', 'an answer', 1, null, $1)`,
		r.Started.UserMessageID, known.chat, known.user, known.client, known.message)
	return known
}

func TestComparison(t *testing.T) {
	t.Parallel()
	conn := testkit.Connect(t, testkit.NewDatabase(t).AdminDSN)
	// compared stores a turn, changes it with a statement, and compares it with what its client knows.
	compared := func(statement string, known func(*turn) []turn) check {
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(t.Context()) }()
		// What constraints forbid is what the check is for, should one of those be missing.
		testkit.Exec(t, tx, "set local session_replication_role = replica")
		testkit.Exec(t, tx, "drop index public.messages_client_message_id_key")
		one := exchange(t, tx)
		turns := []turn{one}
		if known != nil {
			turns = known(&one)
		}
		testkit.Exec(t, tx, statement)
		c, err := compare(t.Context(), tx, turns)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	const (
		nothing = "select 1"
		again   = `insert into public.messages (chat_id, user_id, seq, role, content, token_count, client_message_id, reply_to)
			select chat_id, user_id, seq + 2, role, content, 1, client_message_id, reply_to from public.messages where role = `
	)
	passes(t, compared(nothing, nil))
	passes(t, compared("delete from public.messages", func(*turn) []turn { return nil }))
	for want, statement := range map[string]string{
		"acknowledged messages that are lost":       "delete from public.messages",
		"replies that are lost":                     "delete from public.messages where role = 'assistant'",
		"with 0 answers":                            "delete from public.messages where role = 'assistant'",
		"with 2 answers":                            again + "'assistant'",
		"there more than once":                      again + "'user'",
		"with another content":                      "update public.messages set content = 'x' where role = 'user'",
		"or in another chat":                        "update public.messages set chat_id = gen_random_uuid() where role = 'user'",
		"another text than was heard":               "update public.messages set content = 'x' where role = 'assistant'",
		"heard as complete and is stored as failed": "update public.messages set status = 'failed' where role = 'assistant'",
		"rows beside the 1 questions":               again + "'assistant'",
	} {
		fails(t, compared(statement, nil), want)
	}
	fails(t, compared(nothing, func(*turn) []turn { return nil }), "messages that nobody sent")
	fails(t, compared(nothing, func(known *turn) []turn {
		known.end, known.code = streaming.EventFailed, "upstream_failed"
		return []turn{*known}
	}), "replies that failed with upstream_failed")
	unsure := func(known *turn) []turn {
		known.acknowledged, known.end = false, ""
		return []turn{*known}
	}
	passes(t, compared("delete from public.messages", unsure)) // nobody said that it was there
	passes(t, compared(nothing, unsure))
}
