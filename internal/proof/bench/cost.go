package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/streaming"
)

// costing is the size of measureCost: in each block every chat has one turn.
type costing struct {
	chats, blocks int
	words         int           // of each reply
	pause         time.Duration // of the model before each of them
	ramp          time.Duration // over which the turns of a block begin
}

// measureCost counts what a turn costs: the CPU time of server and Postgres, the bytes written ahead, the statements.
// With another checkout to compare with, both builds run in one go, each on a Postgres of its own, and have their
// blocks by turns: how busy the machine is falls on both alike.
func measureCost(ctx context.Context, e *environment) (g group, err error) {
	size := e.cost
	g.Title = fmt.Sprintf("a turn of %d words through the program, over HTTP", size.words)
	model, err := offline.Start(offline.Options{Script: size.reply})
	if err != nil {
		return g, err
	}
	defer func() { err = errors.Join(err, model.Close()) }()
	sources := []string{e.source}
	if e.against != "" {
		sources = append(sources, e.against)
	}
	var builds []*build
	for _, source := range sources {
		b, err := startBuild(ctx, source, model.BaseURL(), size.chats)
		if err != nil {
			return g, fmt.Errorf("%s: %w", source, err)
		}
		defer func() { err = errors.Join(err, b.close()) }()
		builds = append(builds, b)
	}
	if err := runBlocks(ctx, size, builds); err != nil {
		return g, err
	}
	g.add(costRows(builds[0], builds[1:]...)...)
	g.note("%d blocks of %d turns after one that does not count; medians of the blocks, a ratio of each pair's", size.blocks, size.chats)
	g.note("Postgres: all of its processes; WAL without whole pages after a checkpoint, because none falls into the run")
	return g, nil
}

// reply is the script of the model.
func (c costing) reply(r *offline.Request) offline.Answer {
	var said strings.Builder
	for n := len(r.Text); len(strings.Fields(said.String())) < c.words; n++ {
		said.WriteString(kit.Text(n%kit.Texts) + " ")
	}
	text := strings.Join(strings.Fields(said.String())[:c.words], " ")
	return offline.Answer{Text: text, PieceDelay: c.pause, Usage: &offline.Usage{Input: 1, Output: c.words}}
}

// runBlocks lets all builds have their blocks by turns; in every second round in the other order.
func runBlocks(ctx context.Context, size costing, builds []*build) error {
	for round := range 1 + size.blocks {
		for i := range builds {
			b := builds[(i+round)%len(builds)]
			found, err := b.block(ctx, size)
			if err != nil {
				return fmt.Errorf("%s: %w", b.name, err)
			}
			if round > 0 { // the first one warms up
				b.blocks = append(b.blocks, found)
			}
		}
	}
	return nil
}

// spent is what a process, its Postgres and its clients used or waited, since their start or per turn.
type spent struct {
	server, postgres time.Duration
	wal, statements  float64
	first            time.Duration // median wait for a first delta, less the model's
}

var turnFigures = []struct {
	what, unit string
	of         func(spent) float64
	target     *target
}{
	{"server's CPU per turn", "ms", func(s spent) float64 { return kit.Milliseconds(s.server) }, atMost(4)},
	{"Postgres's CPU per turn", "ms", func(s spent) float64 { return kit.Milliseconds(s.postgres) }, atMost(4)},
	{"WAL per turn", "kB", func(s spent) float64 { return s.wal / 1e3 }, atMost(8)},
	{"statements per turn", "", func(s spent) float64 { return s.statements }, nil},
	{"first delta, added, p50", "ms", func(s spent) float64 { return kit.Milliseconds(s.first) }, nil},
}

// costRows returns the figures of the first build, beside those of the others.
func costRows(first *build, others ...*build) (rows []row) {
	for _, figure := range turnFigures {
		values := first.values(figure.of)
		r := row{What: figure.what, Unit: figure.unit, Value: kit.Percentile(values, .5), Target: figure.target}
		for _, other := range others {
			baselines := other.values(figure.of)
			ratios := make([]float64, len(values))
			for i := range values {
				ratios[i] = row{Value: values[i], Baseline: baselines[i]}.ratio()
			}
			r.Against, r.Baseline, r.Ratio = other.name, kit.Percentile(baselines, .5), kit.Percentile(ratios, .5)
		}
		rows = append(rows, r)
	}
	return rows
}

// build is the program of one checkout, on a Postgres of its own. Close it.
type build struct {
	name     string
	dir      string // of the program
	postgres *kit.Postgres
	admin    *pgxpool.Pool
	server   *kit.Process
	people   []*talker
	blocks   []spent // per turn
}

// values returns a figure of every block.
func (b *build) values(of func(spent) float64) []float64 {
	all := make([]float64, len(b.blocks))
	for i, s := range b.blocks {
		all[i] = of(s)
	}
	return all
}

// startBuild builds and starts the program of a checkout, on an empty database that it migrates itself.
func startBuild(ctx context.Context, source, model string, chats int) (b *build, err error) {
	whole, err := filepath.Abs(source)
	if err != nil {
		return nil, err
	}
	b = &build{name: filepath.Base(whole)}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.dir, err = os.MkdirTemp("", "throughline-bench-"); err != nil {
		return b, err
	}
	program := filepath.Join(b.dir, "throughline")
	if err := kit.Build(ctx, source, program); err != nil {
		return b, err
	}
	b.postgres, err = kit.StartEmptyPostgres(ctx, map[string]string{
		"shared_buffers": "128MB", "max_wal_size": "4GB", "checkpoint_timeout": "1h", "max_connections": "200",
		"shared_preload_libraries": "pg_stat_statements",
	})
	if err != nil {
		return b, err
	}
	return b, b.start(ctx, program, model, chats)
}

// start migrates the database, makes its users and starts the server.
func (b *build) start(ctx context.Context, program, model string, chats int) (err error) {
	env := map[string]string{
		"DATABASE_URL": b.postgres.DSN(), "HTTP_ADDR": "127.0.0.1:0", "SUPABASE_JWT_SECRET": kit.Secret,
		"OPENAI_API_KEY": "bench", "OPENAI_BASE_URL": model, "EMBEDDING_MODEL": "none", "TOPICS": "off", "LONG_TERM_MEMORY": "false",
		"RATE_LIMIT_MESSAGES_PER_MINUTE": "0",
	}
	if err := kit.Run(ctx, kit.Command{Program: program, Args: []string{"migrate"}, Env: env}); err != nil {
		return err
	}
	if b.admin, err = pgxpool.New(ctx, b.postgres.AdminDSN()); err != nil {
		return err
	}
	if err := kit.Exec(ctx, b.admin, "create schema bench", "create extension pg_stat_statements schema bench"); err != nil {
		return err
	}
	if err := b.gather(ctx, chats); err != nil {
		return err
	}
	// Folds are enqueued and stay: they have their own benchmark.
	b.server, err = kit.Start(ctx, kit.Command{Program: program, Args: []string{"serve", "--no-workers"}, Env: env})
	return err
}

func (b *build) close() error {
	var errs []error
	if b.server != nil {
		errs = append(errs, b.server.Terminate(stopWithin))
	}
	if b.admin != nil {
		b.admin.Close()
	}
	if b.postgres != nil {
		errs = append(errs, b.postgres.Destroy())
	}
	return errors.Join(append(errs, os.RemoveAll(b.dir))...)
}

// gather makes the users.
func (b *build) gather(ctx context.Context, count int) error {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = count, count
	client := &http.Client{Transport: transport}
	for range count {
		_, token, err := kit.NewUser(ctx, b.admin)
		if err != nil {
			return err
		}
		b.people = append(b.people, &talker{Client: kit.Client{HTTP: client, Token: token}})
	}
	return nil
}

// used returns what was used since the start.
func (b *build) used(ctx context.Context) (now spent, err error) {
	all, wal, err := kit.UsageOfPostgres(ctx, b.admin)
	if err != nil {
		return now, err
	}
	now = spent{server: kit.UsageOf(b.server.PID()).CPU, postgres: all.CPU, wal: float64(wal)}
	return now, b.admin.QueryRow(ctx, `select coalesce(sum(calls), 0)::float8 from bench.pg_stat_statements s join pg_roles r on r.oid = s.userid
		where r.rolname <> current_user`).Scan(&now.statements)
}

// block lets everyone have a turn, and returns what one cost.
func (b *build) block(ctx context.Context, size costing) (spent, error) {
	before, err := b.used(ctx)
	if err != nil {
		return spent{}, err
	}
	var mu sync.Mutex
	var firsts kit.Times
	err = evenly(ctx, len(b.people), size.ramp, func(ctx context.Context, i int) error {
		first, err := b.people[i].turn(ctx, "http://"+b.server.Address, kit.Text(len(b.blocks)+i))
		mu.Lock()
		defer mu.Unlock()
		firsts = append(firsts, first-size.pause)
		return err
	})
	if err != nil {
		return spent{}, err
	}
	now, err := b.used(ctx)
	turns := len(b.people)
	return spent{
		server: (now.server - before.server) / time.Duration(turns), postgres: (now.postgres - before.postgres) / time.Duration(turns),
		wal: (now.wal - before.wal) / float64(turns), statements: (now.statements - before.statements) / float64(turns),
		first: kit.Percentile(firsts, .5),
	}, err
}

// talker is a user with one chat. One goroutine uses it.
type talker struct {
	kit.Client
	chat uuid.UUID // uuid.Nil before the first message
}

// turn sends a message, reads the whole reply, and returns how long its first delta took.
func (t *talker) turn(ctx context.Context, address, content string) (time.Duration, error) {
	asked := map[string]any{"content": content, "client_message_id": kit.NewID(), "chat_id": t.chat}
	path := "/v1/message"
	if t.chat == uuid.Nil {
		delete(asked, "chat_id")
		path = "/v1/message/first"
	}
	body, err := json.Marshal(asked)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	response, err := t.Do(ctx, http.MethodPost, address+path, body, "")
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("HTTP %d %s", response.StatusCode, kit.CodeOf(response.Body))
	}
	first, err := t.read(response.Body)
	return first.Sub(began), err
}

// read reads a reply to its end, and returns when its first delta came.
func (t *talker) read(body io.Reader) (first time.Time, err error) {
	var reply kit.Reply
	for event, err := range kit.Events(body) {
		if err != nil {
			return first, err
		}
		if _, err := reply.Take(event); err != nil {
			return first, err
		}
		if event.Name == streaming.EventDelta && first.IsZero() {
			first = time.Now()
		}
		if reply.End != "" {
			break
		}
	}
	t.chat = reply.Started.ChatID
	if reply.End != streaming.EventCompleted {
		return first, fmt.Errorf("a reply ended with %s %s", reply.End, reply.Code)
	}
	_, err = io.Copy(io.Discard, body) // so that the connection can be used again
	return first, err
}
