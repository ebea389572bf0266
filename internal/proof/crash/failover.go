package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/arcoscribe/throughline/internal/dev/haproxy"
	"github.com/arcoscribe/throughline/internal/dev/localpg"
	"github.com/arcoscribe/throughline/internal/proof/figures"
	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/internal/proof/people"
	"github.com/arcoscribe/throughline/supabase"
)

// Failover instead of crashes: the primary has a standby, HAProxy leads to whichever of the two is the primary, and the second
// server listens through a gateway that keeps its connection, deaf, when the primary changes.
type failover struct {
	standby  *kit.Postgres
	balancer string // host:port
	stop     func()
	gateway  *kit.Gateway
	// lasted has the times of each round.
	lasted map[string]kit.Times
	// unlogged counts tables that were dropped.
	unlogged int
	// lost counts confirmed messages that an asynchronous standby had not received.
	lost int
}

// What a round times. All but the first count from the promotion on.
const (
	withoutTurn  = "seconds without a new turn"
	firstTurn    = "first new turn after the promotion"
	leads        = "a process leads"
	sweeps       = "a sweep is done"
	hearsCut     = "LISTEN where it was cut"
	hearsDeaf    = "LISTEN where it was deaf"
	failoverMost = time.Minute
	// unnoticed is how long the primary is dead before its standby is promoted.
	unnoticed = time.Second
	talkFor   = 4 * time.Second
	// talkers talk at once, in a chat each.
	talkers = 20
)

// promised is how long each may take.
var promised = []struct {
	name, figure string
	within       time.Duration
}{
	{withoutTurn, "failover_gap", 10 * time.Second},
	{firstTurn, "failover_turn", 3 * time.Second},
	{leads, "failover_leader", 5 * time.Second},
	{sweeps, "failover_sweep", 5 * time.Second},
	{hearsCut, "failover_cut", 5 * time.Second},
	{hearsDeaf, "failover_deaf", 12 * time.Second},
}

// startFailover gives the system a standby, and leads the program to it.
func (h *harness) startFailover(ctx context.Context) {
	f, s := &failover{lasted: map[string]kit.Times{}}, h.system
	// pg_rewind starts what it rewinds without the settings of the command line.
	kit.Check(kit.Exec(ctx, s.Admin, "alter system set wal_log_hints = on", "alter system set wal_keep_size = '1GB'"))
	f.standby = kit.Must(s.Postgres.Standby(ctx, nil))
	f.balancer, f.stop = balance(ctx, s.Postgres, f.standby)
	f.gateway = kit.Must(kit.StartGateway(f.balancer))
	through := func(dsn, address string) string {
		return strings.Replace(dsn, net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Postgres.Port())), address, 1)
	}
	s.Parts[1].Set("DATABASE_DIRECT_URL", through(s.Settings["DATABASE_URL"], f.gateway.Address())) // by its role it is told from the other
	for _, name := range []string{"DATABASE_URL", "DATABASE_DIRECT_URL"} {
		s.Settings[name] = through(s.Settings[name], f.balancer)
	}
	s.Admin.Close()
	s.Admin = kit.Must(pgxpool.New(ctx, through(s.Postgres.AdminDSN(), f.balancer)))
	until(ctx, "HAProxy finds the primary", func() bool { return s.Admin.Ping(ctx) == nil })
	h.failing = f
	h.follow(ctx)
}

// close ends what startFailover started.
func (f *failover) close() error {
	if f == nil {
		return nil
	}
	f.gateway.Close()
	f.stop()
	return f.standby.Destroy()
}

// until waits for a condition, which a busy machine may need long for.
func until(ctx context.Context, what string, holds func() bool) {
	for begin := time.Now(); !holds(); _ = kit.Sleep(ctx, 50*time.Millisecond) {
		if kit.Check(ctx.Err()); time.Since(begin) > failoverMost {
			kit.Fail("waited %s until %s", failoverMost, what)
		}
	}
}

// follow waits until the standby has all, and from then on has commits wait for it unless it is asynchronous.
func (h *harness) follow(ctx context.Context) {
	until(ctx, "the proxy has found the primary", func() bool { // it takes both for one until it has asked them
		h.system.Admin.Reset()
		var standby bool
		err := h.system.Admin.QueryRow(ctx, "select pg_is_in_recovery()").Scan(&standby)
		return err == nil && !standby
	})
	wanted := "async"
	if !h.async {
		wanted = "sync"
		kit.Check(kit.Exec(ctx, h.system.Admin, "alter system set synchronous_standby_names = '*'", "select pg_reload_conf()"))
	}
	until(ctx, "the standby follows", func() bool {
		var follows bool
		err := h.system.Admin.QueryRow(ctx, "select exists (select from pg_stat_replication where state = 'streaming' and sync_state = $1)", wanted).Scan(&follows)
		return err == nil && follows
	})
}

// failOver kills the primary while people talk, promotes the standby, and makes a standby of what was the primary.
func (h *harness) failOver(ctx context.Context, n int) {
	defer kit.In("round %d", n)
	h.played++
	f, s := h.failing, h.system
	_ = kit.Sleep(ctx, talkFor)
	dead := s.Postgres
	if h.async { // what is confirmed from now on is lost
		standby := kit.Must(pgx.Connect(ctx, f.standby.AdminDSN()))
		kit.Check(errors.Join(kit.Exec(ctx, standby, "alter system set primary_conninfo = ''", "select pg_reload_conf()"), standby.Close(ctx)))
		_ = kit.Sleep(ctx, talkFor/4)
	}
	h.record.Away()
	killed := time.Now()
	kit.Check(dead.Kill())
	f.gateway.ChangeServer()
	_ = kit.Sleep(ctx, unnoticed)
	s.Postgres = f.standby
	primary := kit.Must(pgxpool.New(ctx, s.Postgres.AdminDSN()))
	defer primary.Close()
	kit.Check(kit.Exec(ctx, primary, "select pg_promote()"))
	promoted := time.Now()
	var dropped int
	kit.Check(primary.QueryRow(ctx, dropUnlogged).Scan(&dropped))
	f.unlogged += dropped
	h.record.Back()
	h.crashes++
	h.time(ctx, primary, killed, promoted)
	f.standby = kit.Must(s.Postgres.Standby(ctx, dead))
	s.Admin.Reset()
	h.follow(ctx)
	h.report(people.WatchedBroken("processes", s.Ended()...))
	h.report(people.WatchedBroken("statuses", h.otherStatuses()...))
	if h.async {
		f.countLost(ctx, primary, h.record.Confirmed())
	} else {
		h.look(ctx, nil, people.Always)
	}
}

// countLost counts confirmed messages that the new primary does not have.
func (f *failover) countLost(ctx context.Context, primary *pgxpool.Pool, confirmed []uuid.UUID) {
	kit.Check(primary.QueryRow(ctx, `select count(*) from unnest($1::uuid[]) as one (id) where not exists (select from public.messages m where m.id = one.id)`,
		confirmed).Scan(&f.lost))
}

// dropUnlogged drops tables that a failover may lose.
const dropUnlogged = `select count(query_to_xml(format('drop table %s cascade', oid::regclass), false, false, '')) from pg_class
  where relpersistence = 'u' and relkind = 'r'`

// time waits for what must come after a promotion, for each thing by itself.
func (h *harness) time(ctx context.Context, primary *pgxpool.Pool, killed, promoted time.Time) {
	asked := func(sql string, after time.Time) func() bool {
		return func() (yes bool) {
			err := primary.QueryRow(ctx, sql, after).Scan(&yes)
			return err == nil && yes
		}
	}
	var term time.Time                                                                      // of the leader, at the promotion
	_ = primary.QueryRow(ctx, "select max(expires_at) from river.river_leader").Scan(&term) // it may have been dropped
	waits := map[string]func() bool{
		firstTurn: asked("select exists (select from public.messages where role = 'user' and created_at > $1)", promoted),
		leads:     asked("select exists (select from river.river_leader where expires_at > $1)", term),
		sweeps:    asked("select exists (select from river.river_job where kind = 'sweep_briefs' and state = 'completed' and attempted_at > $1)", promoted),
		hearsCut:  asked(listens+" and usename <> '"+supabase.ServerRole+"')", promoted),
		hearsDeaf: asked(listens+" and usename = '"+supabase.ServerRole+"')", promoted),
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	for name, come := range waits {
		all.Go(func() {
			for !come() && time.Since(promoted) < failoverMost {
				_ = kit.Sleep(ctx, 20*time.Millisecond)
			}
			mu.Lock()
			defer mu.Unlock()
			h.failing.lasted[name] = append(h.failing.lasted[name], time.Since(promoted))
			if name == firstTurn {
				h.failing.lasted[withoutTurn] = append(h.failing.lasted[withoutTurn], time.Since(killed))
			}
		})
	}
	all.Wait()
}

// listens finds a connection that listens. What a gateway opens for one that did has sent no such statement.
const listens = "select exists (select from pg_stat_activity where application_name = 'throughline listener' and query like 'listen %' and backend_start > $1"

// otherStatuses returns what was answered beside 200 and 503. A repeated message whose reply still runs is 409; a chat that an
// asynchronous standby had not received is 404.
func (h *harness) otherStatuses() (others []string) {
	for kind, n := range h.record.Failures() {
		status, isStatus := strings.CutPrefix(kind, "HTTP ")
		allowed := strings.HasPrefix(status, "503 ") || strings.HasPrefix(status, "409 generation") || h.async && strings.HasPrefix(status, "404 ")
		if isStatus && !allowed {
			others = append(others, fmt.Sprintf("%s: %d", kind, n))
		}
	}
	return others
}

// late returns what took longer than was promised.
func (f *failover) late() (late []string) {
	for _, p := range promised {
		if longest := kit.Percentile(f.lasted[p.name], 1); longest > p.within {
			late = append(late, fmt.Sprintf("%s: %.1f s, promised are %s", p.name, longest.Seconds(), p.within))
		}
	}
	return late
}

// rows are what happened.
func (f *failover) rows(h *harness) (rows []row) {
	t, failures := h.record.Tally(), h.record.Failures()
	rows = []row{
		{"primaries killed", figures.Mark("failover_rounds", strconv.Itoa(h.crashes))},
		{"messages confirmed", figures.Mark("failover_messages", strconv.Itoa(t.Acknowledged))},
		{"replies heard to their end", strconv.Itoa(t.Completed)},
		{"unlogged tables dropped", strconv.Itoa(f.unlogged)},
	}
	for _, p := range promised {
		longest := fmt.Sprintf("%.1f", kit.Percentile(f.lasted[p.name], 1).Seconds())
		rows = append(rows, row{p.name + ", longest", figures.Mark(p.figure, longest) + " s"})
	}
	for _, kind := range slices.Sorted(maps.Keys(failures)) {
		rows = append(rows, row{"answered: " + kind, strconv.Itoa(failures[kind])})
	}
	if h.async {
		rows = append(rows, row{"confirmed messages lost", strconv.Itoa(f.lost)})
	}
	return append(rows, row{"turns lost or doubled, other violations", figures.Mark("failover_lost", strconv.Itoa(len(h.violations)))})
}

// balance starts an HAProxy that leads to the primary of two servers, and returns where, and what ends it.
func balance(ctx context.Context, servers ...*kit.Postgres) (address string, stop func()) {
	address = net.JoinHostPort("127.0.0.1", strconv.Itoa(kit.Must(localpg.FreePort(0))))
	var config strings.Builder
	config.WriteString(strings.Replace(balancerConfig, "ADDRESS", address, 1))
	for i, server := range servers {
		fmt.Fprintf(&config, "    server pg%d 127.0.0.1:%d check\n", i, server.Port())
	}
	return address, kit.Must(haproxy.Start(ctx, servers[0].Dir(), config.String(), address)).Stop
}

// balancerConfig asks each server, in Postgres' own protocol, whether it is in recovery: the primary answers a row with an f. Then it
// ends the session: HAProxy would wait for more from a standby, which meanwhile may have been promoted.
var balancerConfig = fmt.Sprintf(`defaults
    mode tcp
    timeout connect 1s
    option redispatch 1
    timeout client 1h
    timeout server 1h
    timeout check 2s
listen postgres
    bind ADDRESS
    option tcp-check
    tcp-check send-binary %x
    tcp-check send-binary %x
    tcp-check send-binary %x
    tcp-check expect binary 440000000b00010000000166
    default-server inter 200ms fall 10 rise 1 on-marked-down shutdown-sessions
`, encoded(&pgproto3.StartupMessage{
	ProtocolVersion: pgproto3.ProtocolVersion30, Parameters: map[string]string{"user": localpg.Superuser, "database": "postgres"},
}), encoded(&pgproto3.Query{String: "select pg_is_in_recovery()"}), encoded(&pgproto3.Terminate{}))

func encoded(message pgproto3.FrontendMessage) []byte { return kit.Must(message.Encode(nil)) }
