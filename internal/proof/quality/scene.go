package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/arcoscribe/throughline/internal/client"
	"github.com/arcoscribe/throughline/internal/dev/loopback"
	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/internal/proof/people"
	"github.com/arcoscribe/throughline/internal/transfer"
)

// scene is the system while a suite plays on it. As a test does, it keeps what failed first: then its context has ended,
// nothing that its people do has an effect, and no figure of it counts.
type scene struct {
	*people.System
	ctx  context.Context
	fail context.CancelCauseFunc
	// stopWatching ends what watchVectors began.
	stopWatching func() error

	now   atomic.Pointer[canned] // what the model answers
	since time.Time              // when that began

	mu    sync.Mutex
	notes map[string][]string // examples of faults, by the figures that count them
}

func (s *scene) check(err error) {
	if err != nil {
		s.fail(err)
	}
}

// rows returns what a query finds, by the names of its columns.
func rows[T any](s *scene, sql string, args ...any) []T {
	found, _ := s.Admin.Query(s.ctx, sql, args...) // CollectRows has the error
	all, err := pgx.CollectRows(found, pgx.RowToStructByNameLax[T])
	s.check(err)
	return all
}

func (s *scene) number(sql string, args ...any) (n int) {
	s.check(s.Admin.QueryRow(s.ctx, sql, args...).Scan(&n))
	return n
}

func (s *scene) exec(sql string, args ...any) {
	_, err := s.Admin.Exec(s.ctx, sql, args...)
	s.check(err)
}

func (s *scene) until(what string, holds func() bool) {
	const patience = 4 * time.Minute // it is no bound on speed
	for began := time.Now(); !holds() && s.ctx.Err() == nil; {
		if time.Since(began) > patience {
			s.fail(errors.New("in vain: " + what))
		}
		_ = kit.Sleep(s.ctx, 20*time.Millisecond) // its end is seen above
	}
}

func (s *scene) settle() {
	s.until("no job is due", func() bool {
		return s.number(`select count(*) from river.river_job where kind not like 'sweep%'
			and (state in ('available', 'running') or state in ('retryable', 'scheduled') and scheduled_at < now() + interval '3 s')`) == 0
	})
}

// startJob enqueues a job without arguments, instead of waiting for its hour, unless one is enqueued.
func (s *scene) startJob(kind string) {
	s.exec(`insert into river.river_job (args, kind, max_attempts, priority, queue, state) select '{}', $1, 5, 1, 'maintenance', 'available'
		where not exists (select from river.river_job where kind = $1 and state = 'available')`, kind)
}

func (s *scene) atOnce(most, rounds int, play func(n int)) {
	var all errgroup.Group
	all.SetLimit(most)
	for n := range rounds {
		all.Go(func() error {
			play(n)
			return nil
		})
	}
	_ = all.Wait() // what failed is kept
}

// person is a user, who talks to the server until the suite has ended.
type person struct {
	*client.Client
	ID uuid.UUID
	s  *scene
}

func (s *scene) person() *person {
	id, token, err := kit.NewUser(s.ctx, s.Admin)
	s.check(err)
	api := client.New(s.Servers()[0], token)
	context.AfterFunc(s.ctx, api.Close)
	return &person{api, id, s}
}

// try sends a request and decodes the answer, unless into is nil.
func (p *person) try(method, path string, body, into any) error {
	raw, err := p.Call(p.s.ctx, method, path, nil, body)
	if err == nil && into != nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		err = fmt.Errorf("%s %s: %w", method, path, err)
	}
	return err
}

// call is try where a refusal is a failure.
func (p *person) call(method, path string, body, into any) {
	p.s.check(p.try(method, path, body, into))
}

// refusedWith returns the status of a refusal; 0 for anything else.
func refusedWith(err error) int {
	if refusal, refused := errors.AsType[*client.Error](err); refused {
		return refusal.Status
	}
	return 0
}

type said struct {
	Role    string    `json:"role"`
	Content string    `json:"content"`
	At      time.Time `json:"created_at"`
}

const (
	fromUser      = "user"
	fromAssistant = "assistant"
	fromTool      = "tool"
)

// turn is what a user says at a time, and the reply.
func turn(moment time.Time, content, reply string) []said {
	moment = moment.UTC().Truncate(time.Second)
	return []said{{fromUser, content, moment}, {fromAssistant, reply, moment}}
}

// tell imports a chat. Nothing is extracted from it before it is asked for.
func (p *person) tell(messages ...said) uuid.UUID {
	var lines strings.Builder
	for _, one := range messages {
		lines.WriteString(people.Encode(one) + "\n")
	}
	raw, err := p.Import(p.s.ctx, strings.NewReader(lines.String()), func(transfer.Progress) {})
	var done transfer.Result
	if err == nil {
		err = json.Unmarshal(raw, &done)
	}
	if p.s.check(err); len(done.Chats) == 0 {
		return uuid.Nil
	}
	return done.Chats[0].ChatID
}

// learn asks for extractions until nothing is left of a chat, or the chat is deleted or expired.
func (p *person) learn(chat uuid.UUID) {
	p.s.until("the chat is extracted", func() bool {
		err := p.try(http.MethodPost, "/v1/chats/"+chat.String()+"/extract", map[string]any{}, nil)
		if status := refusedWith(err); status == http.StatusNotFound || status == http.StatusGone {
			return true
		}
		p.s.check(err)
		return p.s.number(`select count(*) from public.messages m join public.conversation_briefs b on b.chat_id = m.chat_id
			where m.chat_id = $1 and m.seq > b.extracted_seq`, chat) == 0
	})
}

func (p *person) tellAndLearn(messages ...said) { p.learn(p.tell(messages...)) }

// receipt is what a reply says about the memories in its prompt.
type receipt struct {
	Memories  []uuid.UUID
	Recalled  []int64
	Elsewhere []prompt.ChatTurn `json:"recalled_elsewhere"`
}

// say sends a message, uuid.Nil for a new chat, and reads the whole reply.
func (p *person) say(chat uuid.UUID, content string) (in uuid.UUID, r receipt) {
	reply, err := p.Send(p.s.ctx, client.Message{ChatID: chat, Content: content}, client.Listener{})
	if err == nil && reply.End.Completed == nil {
		err = fmt.Errorf("the reply ended with %+v", reply.End)
	}
	if err == nil {
		err = json.Unmarshal(reply.End.Completed.Memory, &r)
	}
	p.s.check(err)
	return reply.Started.ChatID, r
}

type memory struct {
	Content, Status string
	ValidFrom       *time.Time
	ValidTo         *time.Time
	Closed          bool // something else has taken its place
	Sources         int
}

// memories returns a user's memories in the order in which they were made.
func (p *person) memories() []memory {
	return rows[memory](p.s, `select content, status, valid_from, valid_to, superseded_by is not null and retracted_at is not null as closed,
		(select count(*)::int from public.memory_sources s where s.memory_id = m.id) as sources
		from public.memories m where user_id = $1 order by created_at, id`, p.ID)
}

// knows asks whether there is an active memory that says something.
func knows(stored []memory, says string) bool {
	return slices.ContainsFunc(stored, func(m memory) bool { return m.Status == "active" && strings.Contains(m.Content, says) })
}

// The purposes of calls of a model, as their metadata has them.
const (
	forReply       = "reply"
	forExtract     = "extract"
	forConsolidate = "consolidate"
	forEntities    = "entities"
	forVectors     = "embedding" // not a purpose: calls for vectors have none
)

// canned is what the model answers during a suite. Each function may be nil, and may be called from several goroutines.
type canned struct {
	extract  func(later []offline.Line) []offline.Fact // of the first of these messages
	byRule   bool                                      // instead of extract: what the offline model finds by its rules
	decide   func(candidate offline.Line, memories []offline.Line) *offline.Decision
	entities func(memories []offline.Line) string
	reply    func(*offline.Request) string
	before   func(purpose, input string) // is called before each answer, which waits for its return
}

func (s *scene) play(now canned) {
	if now.before == nil {
		now.before = func(string, string) {}
	}
	if now.entities == nil {
		now.entities = func([]offline.Line) string { return `{"entities":[],"relationships":[]}` }
	}
	if now.decide == nil {
		now.decide = func(offline.Line, []offline.Line) *offline.Decision { return nil }
	}
	if now.reply == nil {
		now.reply = func(*offline.Request) string { return "Noted." }
	}
	s.now.Store(&now)
	s.since = time.Now()
}

// watchVectors announces the calls for vectors, and has them pass to the embedder.
func (s *scene) watchVectors() error {
	target, err := url.Parse(s.Settings["EMBEDDING_BASE_URL"])
	if err != nil {
		return err
	}
	embedder := httputil.NewSingleHostReverseProxy(target)
	embedder.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) } // mostly, who asked has gone
	s.Settings["EMBEDDING_BASE_URL"], s.stopWatching, err = loopback.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // what broke off is refused by the embedder
		s.now.Load().before(forVectors, string(body))
		r.Body = io.NopCloser(bytes.NewReader(body))
		embedder.ServeHTTP(w, r)
	}), 0)
	return err
}

// answer is the script of the model. What it does not know is left to that model's own rules.
func (s *scene) answer(r *offline.Request) (a offline.Answer) {
	now, purpose := s.now.Load(), r.Metadata["purpose"]
	now.before(purpose, r.Text)
	switch {
	case purpose == forExtract && !now.byRule:
		a.Text = now.facts(offline.ReadLines(offline.NewMessages(r.Text), "UA"))
	case purpose == forConsolidate:
		a.Text = offline.Decide(r.Text, now.decide)
	case purpose == forEntities:
		a.Text = now.entities(offline.ReadLines(r.Text, "M"))
	case purpose == forReply:
		a.Text = now.reply(r)
	}
	return a
}

func (c *canned) facts(messages []offline.Line) string {
	facts := []offline.Fact{}
	for n := range messages {
		if c.extract != nil {
			facts = append(facts, c.extract(messages[n:])...)
		}
	}
	return people.Encode(map[string]any{"facts": facts})
}

type spent struct{ calls, input, output float64 }

// bill returns the spending on memories since play, and the calls of each purpose.
func (s *scene) bill() (calls map[string]float64, all spent) {
	calls = map[string]float64{}
	for _, r := range s.Model.Requests() {
		purpose := r.Metadata["purpose"]
		if r.At.Before(s.since) || purpose != forExtract && purpose != forConsolidate && purpose != forEntities {
			continue
		}
		calls[purpose]++
		all.calls++
		all.input += float64(text.Tokens(r.Instructions + "\n" + r.Text))
		all.output += float64(text.Tokens(r.Sent))
	}
	return calls, all
}
