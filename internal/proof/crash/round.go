package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

const (
	// shortestTalk is how long people talk in a round at least, before and between the strikes; twice that at most.
	shortestTalk = 400 * time.Millisecond
	// longestDown is how long killed processes stay dead at most.
	longestDown = 300 * time.Millisecond
	// crashEvery is how often Postgres crashes, in rounds.
	crashEvery = 10
	// lookEvery is the pause between two checks of a system that recovers.
	lookEvery = 200 * time.Millisecond
	// duplicates are chats whose folds, extractions and topics are enqueued twice more in a round.
	duplicates = 4
)

// errBroken is a run that found a violation.
var errBroken = errors.New("the database is not what it must be")

// run plays all rounds, in legs that end with quiet.
func (h *harness) run(ctx context.Context) error {
	for first := 1; first <= h.rounds; first += h.quietEvery {
		last := min(first+h.quietEvery-1, h.rounds)
		if err := h.leg(ctx, first, last); err != nil {
			return err
		}
	}
	return nil
}

// leg plays some rounds while all talkers talk, and waits for quiet after the last.
func (h *harness) leg(ctx context.Context, first, last int) error {
	talking, hangUp := context.WithCancel(ctx)
	stopping, stop := context.WithCancel(talking)
	var wait sync.WaitGroup
	for _, t := range h.talkers {
		wait.Go(func() { t.talk(talking, stopping) })
	}
	defer wait.Wait()
	defer hangUp()
	defer stop()
	for n := first; n <= last; n++ {
		if err := h.round(ctx, n); err != nil {
			return fmt.Errorf("round %d: %w", n, err)
		}
		h.say("round %d of %d", n, h.rounds)
	}
	restarted := time.Now()
	stop()
	giveUp := time.AfterFunc(h.within, hangUp)
	defer giveUp.Stop()
	wait.Wait()
	if err := h.quiet(ctx, restarted); err != nil {
		return fmt.Errorf("quiet after round %d: %w", last, err)
	}
	return nil
}

// round lets people talk, strikes once or twice, and runs the checks while they go on talking.
func (h *harness) round(ctx context.Context, n int) error {
	h.figures.rounds++
	strikes := 1 + h.chance.IntN(2)
	for strike := range strikes {
		h.wait(ctx, shortestTalk)
		crash := strike == 0 && n%crashEvery == 0
		if err := h.strike(ctx, crash); err != nil {
			return err
		}
	}
	if err := h.enqueueTwice(ctx); err != nil {
		return err
	}
	if gone := h.crew.ended(); len(gone) > 0 {
		return h.report(watchedBroken("processes", gone...))
	}
	return h.look(ctx, nil, whenAlways)
}

// wait waits for a time up to twice as long.
func (h *harness) wait(ctx context.Context, least time.Duration) {
	_ = kit.Sleep(ctx, least+time.Duration(h.chance.Int64N(int64(least))))
}

// strike kills processes, may crash Postgres before or after, and starts everything again.
func (h *harness) strike(ctx context.Context, crash bool) error {
	victims := h.crew.victims(h.chance)
	if crash && h.chance.IntN(3) == 0 {
		victims = nil // the processes outlive Postgres
	}
	crashFirst := h.chance.IntN(2) == 0
	if crash && crashFirst {
		if err := h.crashPostgres(); err != nil {
			return err
		}
	}
	if err := h.crew.kill(victims); err != nil {
		return err
	}
	if crash && !crashFirst {
		if err := h.crashPostgres(); err != nil {
			return err
		}
	}
	_ = kit.Sleep(ctx, time.Duration(h.chance.Int64N(int64(longestDown))))
	if crash {
		if err := h.postgres.Start(ctx); err != nil {
			return err
		}
		h.record.back()
	}
	return h.crew.start(ctx)
}

func (h *harness) crashPostgres() error {
	h.figures.crashes++
	h.record.away()
	return h.postgres.Crash()
}

// enqueueTwice inserts duplicate jobs: their worker must find that there is nothing to do, or that another worker
// is doing it.
func (h *harness) enqueueTwice(ctx context.Context) error {
	return h.connected(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `
			insert into river.river_job (kind, args, queue, max_attempts)
			select kind, jsonb_build_object('chat_id', chat.id), queue, attempts
			  from (select b.chat_id as id from public.conversation_briefs b where b.pending_turns > 1 order by random() limit $1) chat
			 cross join (values ('fold_brief', 'memory', 25), ('fold_brief', 'memory', 25), ('rebuild_brief', 'memory', 25),
			                    ('extract_memories', 'memories', 5), ('extract_memories', 'memories', 5),
			                    ('assign_topics', 'topics', 10), ('assign_topics', 'topics', 10)) as job (kind, queue, attempts)`, duplicates)
		if err != nil {
			return err
		}
		_, err = conn.Exec(ctx, `
			insert into river.river_job (kind, args, queue, max_attempts)
			select kind, jsonb_build_object('chat_id', topic.chat_id, 'topic_id', topic.id), 'topics', 5
			  from (select t.id, t.chat_id from public.topics t order by random() limit $1) topic cross join (values ('compact_topic'), ('compact_topic')) as job (kind)
			union all
			select kind, '{}', 'maintenance', 1 from (values ('decay_topics'), ('merge_topics')) as job (kind)`, duplicates)
		return err
	})
}

func (h *harness) connected(ctx context.Context, work func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, h.postgres.AdminDSN())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }() // nothing is open on it
	return work(conn)
}

// look runs the checks that must hold now.
func (h *harness) look(ctx context.Context, prompts []prompt, when ...string) error {
	var found []violation
	err := h.connected(ctx, func(conn *pgx.Conn) error {
		tx, evidence, err := gather(ctx, conn, h.record, prompts)
		if err != nil {
			return err
		}
		if found, err = examine(ctx, tx, evidence, chosen(h.checks, when...)); err != nil {
			return errors.Join(err, tx.Rollback(ctx))
		}
		return errors.Join(tx.Commit(ctx), keepPlaces(ctx, conn))
	})
	h.figures.looks++
	if err != nil {
		return err
	}
	return h.report(found)
}

// report records violations, which end the run.
func (h *harness) report(found []violation) error {
	if len(found) == 0 {
		return nil
	}
	h.figures.violations = append(h.figures.violations, found...)
	return errBroken
}

// quiet waits until the system has recovered, and then talks once more in every chat.
func (h *harness) quiet(ctx context.Context, restarted time.Time) error {
	for _, t := range h.talkers {
		if t.waits() {
			return h.report(watchedBroken("talk", fmt.Sprintf("user %s got no answer within %s", t.user, h.within)))
		}
	}
	if err := h.untilQuiet(ctx, restarted); err != nil {
		return err
	}
	h.figures.recoveries = append(h.figures.recoveries, time.Since(restarted))
	h.say("quiet %.1f s after the last restart", time.Since(restarted).Seconds())
	if err := errors.Join(h.ready(ctx), h.look(ctx, nil, whenAlways, whenQuiet)); err != nil {
		return err
	}
	return h.greet(ctx)
}

// untilQuiet repeats the checks that hold in quiet until they find nothing, or the promised time is over.
func (h *harness) untilQuiet(ctx context.Context, restarted time.Time) error {
	for {
		var found []violation
		err := h.connected(ctx, func(conn *pgx.Conn) error {
			return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) (err error) {
				found, err = examine(ctx, tx, evidence{}, chosen(h.checks, whenQuiet))
				return err
			})
		})
		switch {
		case err != nil:
			return err
		case len(found) == 0:
			return nil
		case time.Since(restarted) > h.within:
			return h.report(found)
		}
		_ = kit.Sleep(ctx, lookEvery)
	}
}

// ready checks that every server is ready.
func (h *harness) ready(ctx context.Context) error {
	var unready []string
	for _, server := range h.crew.servers() {
		if code, err := h.talkers[0].call(ctx, server, http.MethodGet, "/readyz"); err != nil || code != "" {
			unready = append(unready, fmt.Sprintf("%s: %s %v", server, code, err))
		}
	}
	if len(unready) > 0 {
		return h.report(watchedBroken("ready", unready...))
	}
	return nil
}

// greet sends one more message in every chat, and checks what the model was shown with it.
func (h *harness) greet(ctx context.Context) error {
	greeting, cancel := context.WithTimeout(ctx, h.within)
	defer cancel()
	said := make([][]*message, len(h.talkers))
	var wait sync.WaitGroup
	for i, t := range h.talkers {
		wait.Go(func() { said[i] = t.greet(greeting) })
	}
	wait.Wait()
	var prompts []prompt
	var silent []string
	for i, t := range h.talkers {
		if t.waits() {
			silent = append(silent, t.user.String())
		}
		for _, m := range said[i] {
			prompts = append(prompts, prompt{m.clientID, h.model.shownTo(m.number)})
		}
	}
	if len(silent) > 0 {
		return h.report(watchedBroken("talk", silent...))
	}
	return h.look(ctx, prompts, whenAlways, whenGreeted)
}

func (h *harness) say(format string, args ...any) {
	fmt.Fprintln(h.progress, strings.TrimSpace(fmt.Sprintf(format, args...)))
}
