package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/streaming"
)

// measureCost counts what a turn costs, with all the jobs that it makes due: the CPU time of the program, of Postgres and
// of the embedder, and the bytes written ahead. All builds and settings run in one go, each on a Postgres of its own, and
// have their turns alternately: how busy the machine is falls on all alike.
func measureCost(ctx context.Context, f *fleet, g *group) (err error) {
	g.title = fmt.Sprintf("a turn of %d words through the program, over HTTP, with the jobs after it", f.words)
	t, err := f.openTrial(ctx, f.costChats, f.against)
	defer func() { err = errors.Join(err, t.close()) }()
	if err != nil {
		return err
	}
	if err := t.cost(ctx, f.costTurns); err != nil {
		return err
	}
	turns := float64(f.costChats * f.costTurns)
	for _, b := range t.builds {
		g.columns = append(g.columns, b.name)
	}
	for _, figure := range []struct {
		what, unit, name string
		of               func(spent) float64
		target           *target
	}{
		{"the program's CPU per turn", "ms", "cost_server", func(s spent) float64 { return kit.Milliseconds(s.server) }, atMost(4.8)},
		{"Postgres's CPU per turn", "ms", "cost_postgres", func(s spent) float64 { return kit.Milliseconds(s.postgres) }, atMost(3)},
		{"the embedder's CPU per turn", "ms", "cost_embedder", func(s spent) float64 { return kit.Milliseconds(s.embedder) }, nil},
		{
			"all three", "ms", "cost_all", func(s spent) float64 { return kit.Milliseconds(s.server + s.postgres + s.embedder) },
			&target{limit: 1.6, against: stripped},
		},
		{"WAL per turn", "kB", "cost_wal", func(s spent) float64 { return s.wal / 1e3 }, atMost(7)},
	} {
		r := row{what: figure.what, unit: figure.unit, figure: figure.name, target: figure.target}
		for _, b := range t.builds {
			r.values = append(r.values, figure.of(b.spent)/turns)
		}
		g.add(r)
	}
	g.note("%d chats of %d turns after one that does not count; folds, vectors, topics and extractions are waited for", f.costChats, f.costTurns)
	g.note("Postgres: all of its processes; WAL without whole pages after a checkpoint, because none falls into the run")
	return nil
}

// trial is the program in several builds or settings, behind the fleet's model. Close it.
type trial struct {
	*fleet
	builds []*build
}

// openTrial starts the program as shipped and stripped, and as another checkout has it; "" for none.
func (f *fleet) openTrial(ctx context.Context, chats int, against string) (*trial, error) {
	t := &trial{fleet: f}
	for _, name := range []string{shipped, stripped} {
		if err := t.start(ctx, name, name, f.build, chats); err != nil {
			return t, fmt.Errorf("%s: %w", name, err)
		}
	}
	if against == "" {
		return t, nil
	}
	program := filepath.Join(f.folder, "other")
	if err := kit.Build(ctx, against, program); err != nil {
		return t, err
	}
	return t, t.start(ctx, filepath.Base(against), shipped, program, chats)
}

// close ends the servers before their databases.
func (t *trial) close() (err error) {
	for _, b := range t.builds {
		if b.server.stop != nil {
			err = errors.Join(err, b.server.stop())
		}
		if b.admin != nil {
			b.admin.Close()
		}
		err = errors.Join(err, b.postgres.Destroy())
	}
	return err
}

// build is a build of the program with some settings, on a Postgres of its own.
type build struct {
	name     string
	postgres *kit.Postgres
	admin    *pgxpool.Pool
	server   endpoint
	embedder int // its process, 0 for none
	people   []conversation
	spent    spent
}

// start starts a build on an empty database that it migrates itself.
func (t *trial) start(ctx context.Context, name, settings, program string, chats int) (err error) {
	b := &build{name: name}
	b.postgres, err = kit.StartEmptyPostgres(ctx, map[string]string{
		"shared_buffers": "128MB", "max_wal_size": "4GB", "checkpoint_timeout": "1h", "max_connections": "200",
	})
	if err != nil {
		return err
	}
	t.builds = append(t.builds, b)
	env := map[string]string{"DATABASE_URL": b.postgres.DSN()}
	if err := kit.Run(ctx, kit.Command{Program: program, Args: []string{"migrate"}, Env: env}); err != nil {
		return err
	}
	if b.admin, err = pgxpool.New(ctx, b.postgres.AdminDSN()); err != nil {
		return err
	}
	if b.server, err = t.program(ctx, program, b.postgres.DSN(), settings, nil); err != nil {
		return err
	}
	if settings == shipped {
		b.embedder = t.points[roleEmbedder].PID()
	}
	for range chats {
		user, token, err := kit.NewUser(ctx, b.admin)
		if err != nil {
			return err
		}
		c := conversation{id: kit.NewID(), owner: owner{user, token}}
		if _, err := b.admin.Exec(ctx, "insert into public.chats (id, user_id) values ($1, $2)", c.id, user); err != nil {
			return err
		}
		b.people = append(b.people, c)
	}
	return nil
}

// cost lets all builds have their turns alternately; in every second round in the other order.
func (t *trial) cost(ctx context.Context, turns int) error {
	for round := range 1 + turns {
		for i := range t.builds {
			b := t.builds[(i+round)%len(t.builds)]
			if err := b.round(ctx, round); err != nil {
				return fmt.Errorf("%s: %w", b.name, err)
			}
			if round == 0 { // it warms up
				b.spent = spent{}
			}
		}
	}
	return nil
}

// spent is what a program, its Postgres and its embedder have used.
type spent struct {
	server, postgres, embedder time.Duration
	wal                        float64
}

// used returns what was used since the start.
func (b *build) used(ctx context.Context) (spent, error) {
	all, wal, err := kit.UsageOfPostgres(ctx, b.admin)
	now := spent{server: kit.UsageOf(b.server.PID()).CPU, postgres: all.CPU, wal: float64(wal)}
	if b.embedder > 0 {
		now.embedder = kit.UsageWithChildren(b.embedder).CPU
	}
	return now, err
}

// round lets everyone have a turn, waits for the jobs that it makes due, and adds up what all that used.
func (b *build) round(ctx context.Context, n int) error {
	before, err := b.used(ctx)
	if err != nil {
		return err
	}
	err = evenly(ctx, len(b.people), 0, func(ctx context.Context, i int) error {
		c := newClient(b.people[i])
		_, err := c.receive(ctx, b.server, c.post(saidIn(n+i)), nil)
		if err == nil && c.End != streaming.EventCompleted {
			err = fmt.Errorf("a reply ended with %s %s", c.End, c.Code)
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := b.jobsDone(ctx); err != nil {
		return err
	}
	now, err := b.used(ctx)
	b.spent.server += now.server - before.server
	b.spent.postgres += now.postgres - before.postgres
	b.spent.embedder += now.embedder - before.embedder
	b.spent.wal += now.wal - before.wal
	return err
}

// jobsDone waits until no job is due or at work.
func (b *build) jobsDone(ctx context.Context) error {
	for {
		var left int
		err := b.admin.QueryRow(ctx, "select count(*) from river.river_job where state in ('available', 'running', 'retryable')").Scan(&left)
		if err != nil || left == 0 {
			return err
		}
		const pause = 5 * time.Millisecond
		if err := kit.Sleep(ctx, pause); err != nil {
			return fmt.Errorf("%d jobs do not end: %w", left, err)
		}
	}
}

// facts are what people say of themselves now and then, so that there is something to remember.
var facts = []string{
	"I live in Lindau now.", "My dog is called Bruno.", "I am allergic to walnuts.", "My sister works as a nurse.", "I play the cello.",
	"What did I tell you about my dog?", "I do not eat meat.", "My teacher is called Ilse.", "Where do I live?", "I was born in 1984.",
}

// saidIn is what is said in a turn.
func saidIn(n int) string {
	return fmt.Sprintf("%s %s That was lesson %d.", facts[n%len(facts)], kit.Text(n%kit.Texts), n+1)
}
