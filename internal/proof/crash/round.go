package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/internal/proof/people"
)

const (
	users          = 8
	devicesPerUser = 2
	// shortestTalk is how long people talk in a round at least, before and between the strikes; twice that at most.
	shortestTalk = 400 * time.Millisecond
	// longestDown is how long killed processes stay dead at most.
	longestDown = 300 * time.Millisecond
	// crashEvery is how often Postgres crashes, in rounds, where a mutation does not say.
	crashEvery = 10
	// lookEvery is the pause between two checks of a system that recovers.
	lookEvery = 200 * time.Millisecond
	// duplicates are chats whose folds, extractions and topics are enqueued twice more in a round.
	duplicates = 4
)

// limits are small, so that every chat folds again and again, and topics are packed after a few turns.
var limits = people.Limits{"threshold": 200, "tail": 2, "bridge": 6000, "least": 1, "prompt": 8000, "topic_most": 6, "topic_room": 20}

func settings() map[string]string {
	return map[string]string{
		"LONG_TERM_MEMORY": "true", "RATE_LIMIT_MESSAGES_PER_MINUTE": "0", "MAX_STREAMS_PER_USER": "0",
		// The cap is large, because the brief lists every message.
		"MEMORY_CHUNK_SUMMARIZE_THRESHOLD": fmt.Sprint(limits["threshold"]), "MEMORY_K_RAW_TURNS": fmt.Sprint(limits["tail"]),
		"MEMORY_BRIDGE_TOKEN_BUDGET": fmt.Sprint(limits["bridge"]), "MEMORY_MIN_TAIL_TURNS": fmt.Sprint(limits["least"]),
		"MEMORY_SUMMARY_TOKEN_CAP": "4000", "MEMORY_PROMPT_TOKEN_BUDGET": fmt.Sprint(limits["prompt"]),
		// A pause in a chat makes an extraction due as well as six turns do.
		"MEMORY_EXTRACT_DELAY": "1s",
		// A chat has topics from its first turn on, which fade within seconds.
		"TOPICS": "on", "TOPIC_MAX": "2", "TOPIC_HALF_LIFE": "1s", "TOPIC_HALF_LIFE_MAX": "4s",
		"TOPIC_MAX_MESSAGES": fmt.Sprint(limits["topic_most"]), "TOPIC_KEEP_MESSAGES": "2",
	}
}

// newTalk is short talk, of which all is to be remembered, and some replies of seconds, so that most of one that is cut off
// has to be stored. Summaries take long enough for a kill meanwhile. Now and then vectors cannot be had.
func newTalk() *people.Talk {
	return &people.Talk{
		Subjects: people.Subjects{Words: []string{"spinnaker", "gherkin", "sextant", "zither"}}, NoVectorIn: 40,
		Words: people.Range{Least: 4, Most: 23}, Reply: people.Range{Least: 5, Most: 54}, LongReply: people.Range{Least: 180, Most: 180, Every: 16},
		Pace: [2]time.Duration{20 * time.Millisecond, 20 * time.Millisecond}, Summary: 400 * time.Millisecond, Lists: true, ErrandEvery: 4,
	}
}

// habits are those of restless people with little patience.
var habits = people.Habits{
	Pause: 50 * time.Millisecond, Away: 100 * time.Millisecond, Patience: 3 * time.Second, ChatsAtOnce: 4, TurnsPerChat: 24, Soon: 12,
	Stop: .08, Lose: .12, Twice: .10, Leave: .04, Again: .06,
	Erase: .10, Clear: .05, Edit: .05, Tend: .15, Look: .05, Spite: .33, Revise: .15, Choose: .25,
}

// harness is a running system, with the people who use it and the means to break it.
type harness struct {
	options
	progress io.Writer
	chance   *rand.Rand
	system   *people.System
	record   *people.Record
	people   []*people.Person
	checks   []people.Check

	played, crashes, looks int
	struck                 map[string]int // how often each attack was played
	frozen                 *people.Part   // nil for none
	thaws                  time.Time
	recoveries             []time.Duration
	failing                *failover // nil for a run of crashes
	violations             []people.Violation
}

// newHarness builds the program and starts all but the program's processes.
func newHarness(ctx context.Context, o options, progress io.Writer) (h *harness, err error) {
	talk := newTalk()
	if o.failover {
		talk.ErrandEvery = 0 // what tools are asked for may be lost with the primary
	}
	h = &harness{
		options: o, progress: progress, checks: people.Checks(), record: &people.Record{Talk: talk}, struck: map[string]int{},
		chance: rand.New(rand.NewPCG(o.seed, 0)), //nolint:gosec // repeatable by its seed
	}
	h.system, err = people.Start(ctx, people.Plan{
		Source: o.source, Build: o.build, Commands: []string{"serve", "serve --no-workers", "work", "work"}, Settings: settings(),
		Postgres: map[string]string{"shared_buffers": "64MB", "max_connections": "200", "wal_log_hints": "on", "wal_keep_size": "1GB"}, // for pg_rewind
		Script:   talk.Answer, Subjects: &talk.Subjects, Tools: true,
	}, progress)
	return h, err
}

// errBroken is a run that found a violation.
var errBroken = errors.New("the database is not what it must be")

// run plays all rounds, in legs that end with quiet.
func (h *harness) run(ctx context.Context) (err error) {
	defer kit.Catch(&err)
	count, habits := users, habits
	if h.async {
		habits.Revise, habits.Choose = 0, 0 // what they refer to may be lost
	}
	if h.failover {
		count = talkers / devicesPerUser
		h.startFailover(ctx)
	}
	for n := range count { // each device has choices of its own, so that they do not depend on the others' pace
		first := kit.Must(h.system.NewPerson(ctx, h.record, &people.Gauges{}, habits, h.seed, 1+n*devicesPerUser))
		h.people = append(h.people, first)
		for device := 1; device < devicesPerUser; device++ {
			h.people = append(h.people, first.Device(h.seed, 1+n*devicesPerUser+device))
		}
	}
	kit.Check(h.system.Run(ctx))
	for first := 1; first <= h.rounds; first += h.quietEvery {
		h.leg(ctx, first, min(first+h.quietEvery-1, h.rounds))
	}
	if h.failover {
		h.report(people.WatchedBroken("promised", h.failing.late()...))
	}
	return h.system.Model.Irregular()
}

// leg plays some rounds while all people talk, and waits for quiet after the last.
func (h *harness) leg(ctx context.Context, first, last int) {
	defer kit.In("rounds %d to %d", first, last)
	talking, hangUp := context.WithCancel(ctx)
	stopping, stop := context.WithCancel(talking)
	var wait sync.WaitGroup
	for _, p := range h.people {
		wait.Go(func() { p.Live(talking, stopping) })
	}
	defer wait.Wait()
	defer hangUp()
	defer stop()
	play := h.round
	if h.failover {
		play = h.failOver
	}
	for n := first; n <= last; n++ {
		play(ctx, n)
		fmt.Fprintf(h.progress, "round %d of %d\n", n, h.rounds)
	}
	h.thaw(ctx, true)
	restarted := time.Now()
	stop()
	giveUp := time.AfterFunc(h.within, hangUp)
	defer giveUp.Stop()
	wait.Wait()
	h.expire(ctx, 1)
	h.quiet(ctx, restarted)
}

// round lets people talk, attacks once, strikes once or twice, and runs the checks while they go on talking.
func (h *harness) round(ctx context.Context, n int) {
	defer kit.In("round %d", n)
	h.played++
	h.thaw(ctx, false)
	_ = kit.Sleep(ctx, h.upTo(shortestTalk))
	h.attack(ctx, n)
	strikes := 1 + h.chance.IntN(2)
	for strike := range strikes {
		_ = kit.Sleep(ctx, shortestTalk+h.upTo(shortestTalk))
		h.strike(ctx, strike == 0 && n%h.crashEvery == 0)
	}
	h.enqueueTwice(ctx)
	h.expire(ctx, .2)
	h.report(people.WatchedBroken("processes", h.system.Ended()...))
	h.look(ctx, nil, people.Always)
}

func (h *harness) upTo(most time.Duration) time.Duration {
	return time.Duration(h.chance.Int64N(int64(most)))
}

// strike kills processes, may crash Postgres before or after, and starts everything again.
func (h *harness) strike(ctx context.Context, crash bool) {
	victims := h.notFrozen(h.victims())
	if crash && h.chance.IntN(3) == 0 {
		victims = nil // the processes outlive Postgres
	}
	crashFirst := h.chance.IntN(2) == 0
	if crash && crashFirst {
		h.crashPostgres()
	}
	kit.Check(h.system.Kill(victims...))
	if crash && !crashFirst {
		h.crashPostgres()
	}
	_ = kit.Sleep(ctx, h.upTo(longestDown))
	if crash {
		kit.Check(h.system.Postgres.Start(ctx))
		h.record.Back()
		h.system.Admin.Reset()
	}
	kit.Check(h.system.Run(ctx))
}

func (h *harness) crashPostgres() {
	h.crashes++
	h.record.Away()
	kit.Check(h.system.Postgres.Crash())
}

// victims chooses which processes to kill: mostly one, sometimes a server and a worker, both of a kind, or all.
func (h *harness) victims() []*people.Part {
	all := h.system.Parts
	server, worker := all[h.chance.IntN(2)], all[2+h.chance.IntN(2)]
	switch dice := h.chance.IntN(100); {
	case dice < 35:
		return []*people.Part{server}
	case dice < 60:
		return []*people.Part{worker}
	case dice < 75:
		return []*people.Part{server, worker}
	case dice < 83:
		return all[:2]
	case dice < 91:
		return all[2:]
	}
	return all
}

// enqueueTwice inserts duplicate jobs: their worker must find that there is nothing to do, or that another is doing it.
func (h *harness) enqueueTwice(ctx context.Context) {
	kit.Must(h.system.Admin.Exec(ctx, `
		insert into river.river_job (kind, args, queue, max_attempts)
		select kind, jsonb_build_object('chat_id', chat.id), queue, attempts
		  from (select b.chat_id as id from public.conversation_briefs b where b.pending_turns > 1 order by random() limit $1) chat
		 cross join (values ('fold_brief', 'memory', 25), ('fold_brief', 'memory', 25),
		                    ('extract_memories', 'memories', 5), ('extract_memories', 'memories', 5),
		                    ('assign_topics', 'topics', 10), ('assign_topics', 'topics', 10)) as job (kind, queue, attempts)
		union all
		select kind, jsonb_build_object('chat_id', topic.chat_id, 'topic_id', topic.id), 'topics', 5
		  from (select t.id, t.chat_id from public.topics t order by random() limit $1) topic
		 cross join (values ('compact_topic'), ('compact_topic')) as job (kind)
		union all
		select kind, '{}', 'maintenance', 1 from (values ('decay_topics'), ('merge_topics')) as job (kind)`, duplicates))
}

// expire lets that share of the replies that wait for their users have waited for as long as they may.
func (h *harness) expire(ctx context.Context, share float64) {
	kit.Must(h.system.Admin.Exec(ctx, `update public.messages set lease_until = now() where status = 'awaiting' and random() < $1`, share))
}

// look runs the checks that must hold now, and reports what they find together with what else was found.
func (h *harness) look(ctx context.Context, prompts []people.Prompt, when string, found ...people.Violation) {
	h.looks++
	checks := people.Chosen(h.checks, people.Always, when)
	h.report(append(found, kit.Must(h.system.Examine(ctx, h.record, limits, prompts, checks))...))
}

// report records violations, which end the run.
func (h *harness) report(found []people.Violation) {
	if h.violations = append(h.violations, found...); len(found) > 0 {
		kit.Check(errBroken)
	}
}

// quiet waits until the system has recovered, and then talks once more in every chat.
func (h *harness) quiet(ctx context.Context, restarted time.Time) {
	for _, p := range h.people {
		if p.Waits() {
			h.report(people.WatchedBroken("talk", fmt.Sprintf("user %s got no answer within %s", p.ID, h.within)))
		}
	}
	h.untilQuiet(ctx, restarted)
	h.recoveries = append(h.recoveries, time.Since(restarted))
	fmt.Fprintf(h.progress, "quiet %.1f s after the last restart\n", time.Since(restarted).Seconds())
	if h.async {
		h.report(h.unready(ctx))
		return
	}
	h.look(ctx, nil, people.Quiet, h.unready(ctx)...)
	h.greet(ctx)
}

// untilQuiet repeats the checks that hold in quiet until they find nothing, or the promised time is over.
func (h *harness) untilQuiet(ctx context.Context, restarted time.Time) {
	for ; ; _ = kit.Sleep(ctx, lookEvery) {
		found := kit.Must(h.system.Examine(ctx, &people.Record{}, limits, nil, people.Chosen(h.checks, people.Quiet)))
		if len(found) == 0 {
			return
		}
		if time.Since(restarted) > h.within {
			h.report(found)
		}
	}
}

// unready finds servers that are not ready.
func (h *harness) unready(ctx context.Context) []people.Violation {
	var unready []string
	for _, server := range h.system.Servers() {
		if _, err := kit.Get(ctx, http.DefaultClient, server+"/readyz"); err != nil {
			unready = append(unready, err.Error())
		}
	}
	return people.WatchedBroken("ready", unready...)
}

// greet sends one more message in every chat, and checks what the model was shown with it.
func (h *harness) greet(ctx context.Context) {
	greeting, cancel := context.WithTimeout(ctx, h.within)
	defer cancel()
	shown := make([][]people.Prompt, len(h.people))
	var wait sync.WaitGroup
	for i, p := range h.people {
		wait.Go(func() { shown[i] = p.Greet(greeting) })
	}
	wait.Wait()
	var prompts []people.Prompt
	var silent []string
	for i, p := range h.people {
		if p.Waits() {
			silent = append(silent, p.ID.String())
		}
		prompts = append(prompts, shown[i]...)
	}
	h.report(people.WatchedBroken("talk", silent...))
	h.look(ctx, prompts, people.Greeted)
}
