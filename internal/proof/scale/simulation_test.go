package main

import (
	"flag"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance {
		t.Errorf("%s: %v, want %v within %v", what, got, want, tolerance)
	}
}

// What is known of the formula: with one server the share that waits is the load; with two of them and a load of
// one it is a third; and with more servers than work hardly anybody waits.
func TestQueueAgreesWithTextbooks(t *testing.T) {
	t.Parallel()
	near(t, "M/M/1 waits", queue{1, 0.8, 1}.waits(), 0.8, 1e-12)
	near(t, "M/M/1 p99 of the wait", queue{1, 0.8, 1}.wait(.99), math.Log(0.8/0.01)/0.2, 1e-9)
	near(t, "M/M/2 waits", queue{2, 1, 1}.waits(), 1.0/3, 1e-12)
	near(t, "M/M/3 waits", queue{3, 2, 1}.waits(), 4.0/9, 1e-12)
	near(t, "a thousand servers, half busy", queue{1000, 500, 1}.waits(), 0, 1e-9)
	if got := (queue{2, 1, 1}).wait(.5); got != 0 {
		t.Errorf("most do not wait, and the median is %v", got)
	}
	if got := (queue{2, 2, 1}).wait(.99); !math.IsInf(got, 1) {
		t.Errorf("more work than servers can do, and the wait is %v", got)
	}
}

// simulated is the same queue, played: arrivals and lengths are thrown, each goes to the server that is free first.
func simulated(q queue, customers int) (busy, waiting, p99 float64) {
	random := rand.New(rand.NewPCG(7, 7))
	exponential := func(mean float64) float64 { return -mean * math.Log(1-random.Float64()) }
	free := make([]float64, q.servers)
	now, worked, last := 0.0, 0.0, 0.0
	waits := make([]float64, customers)
	for n := range waits {
		now += exponential(1 / q.rate)
		at := 0
		for i := range free {
			if free[i] < free[at] {
				at = i
			}
		}
		waits[n] = max(0, free[at]-now)
		took := exponential(q.service)
		free[at] = now + waits[n] + took
		worked, last = worked+took, max(last, free[at])
		if waits[n] > 0 {
			waiting++
		}
	}
	slices.Sort(waits)
	return worked / last / float64(q.servers), waiting / float64(customers), waits[customers*99/100]
}

func TestQueueAgreesWithASimulation(t *testing.T) {
	t.Parallel()
	for _, q := range []queue{{1, 0.5, 1}, {2, 1.4, 1}, {8, 5.6, 1}, {32, 28, 1}} {
		t.Run(strconv.Itoa(q.servers), func(t *testing.T) {
			t.Parallel()
			busy, waiting, p99 := simulated(q, 400_000)
			near(t, "utilisation", busy, q.utilisation(), 0.01)
			near(t, "share that waits", waiting, q.waits(), 0.02)
			near(t, "p99 of the wait", p99/q.wait(.99), 1, 0.1)
		})
	}
}

// No work is lost or made: what the turns cost is what the cores are busy with.
func TestCapacityConservesWork(t *testing.T) {
	t.Parallel()
	in := newInputs(flag.NewFlagSet("", flag.PanicOnError))
	for _, cores := range []int{1, 2, 8, 32} {
		rate, q := in.turnsPerSecond(float64(cores)), in.queueOf(cores, in.utilisation)
		near(t, "CPU seconds per second", rate*in.postgresMS/1e3, in.utilisation*float64(cores), 1e-9)
		near(t, "utilisation of the queue", q.utilisation(), in.utilisation, 1e-9)
		near(t, "transactions of the queue", q.rate, rate*in.transactions, 1e-6)
	}
	twice := *in
	twice.postgresMS = 2 * in.postgresMS
	near(t, "turns that cost twice as much", twice.turnsPerSecond(8), in.turnsPerSecond(8)/2, 1e-9)
	near(t, "WAL at its limit", in.walLimit()*in.walKB/1e3, in.utilisation*in.diskMB, 1e-9)
	near(t, "connections at their limit", in.connectionLimit()*in.held(), in.utilisation*in.connections, 1e-9)
}

// More processes carry more until Postgres is what they wait for.
func TestReplicasAddUntilPostgresIsFull(t *testing.T) {
	t.Parallel()
	in := newInputs(flag.NewFlagSet("", flag.PanicOnError))
	rows := in.replicasTable().rows
	turns, servers, postgres := rows[0].values, rows[1].values, rows[2].values
	if !slices.IsSorted(turns) || turns[0] >= turns[len(turns)-1] {
		t.Errorf("turns %v", turns)
	}
	for i := range turns {
		full := max(servers[i], postgres[i])
		near(t, "what is full", full, 100*in.utilisation, 1e-9)
	}
}

// Nobody is lost, shards are even, and a new shard takes its part of each old one and nothing else moves.
func TestRouting(t *testing.T) {
	t.Parallel()
	p := newPopulation(50_000, 0.6)
	for _, r := range routers {
		users, turns := p.spread(r, 4)
		for what, shares := range map[string][]float64{"users": users, "turns": turns} {
			sum := 0.0
			for _, share := range shares {
				sum += share
			}
			near(t, r.name+": all "+what, sum, 4, 1e-6)
			near(t, r.name+": most "+what, slices.Max(shares), 1, 0.06)
		}
		all, stray := p.moved(r, 4, 5)
		if r.name == "modulo" {
			near(t, "modulo moves", all, 0.8, 0.02)
			continue
		}
		near(t, r.name+" moves", all, 0.2, 0.01)
		if stray != 0 {
			t.Errorf("%s: %v of the users move between old shards", r.name, stray)
		}
		if back, _ := p.moved(r, 5, 4); back != all {
			t.Errorf("%s: %v move there and %v back", r.name, all, back)
		}
	}
}

// Jump's own figures, from its paper's code: a key stays or goes to the last shard, and one shard has them all.
func TestJumpIsMonotonic(t *testing.T) {
	t.Parallel()
	for user := range uint64(2000) {
		before := jump(user, 1)
		if before != 0 {
			t.Fatalf("user %d is on shard %d of one", user, before)
		}
		for shards := 2; shards <= 20; shards++ {
			now := jump(user, shards)
			if now != before && now != shards-1 {
				t.Fatalf("user %d went from %d to %d when shard %d came", user, before, now, shards-1)
			}
			before = now
		}
	}
}

func TestSkewedUsers(t *testing.T) {
	t.Parallel()
	p := newPopulation(1000, 1)
	near(t, "all users", p.share(1000), 1, 1e-9)
	near(t, "the first to the tenth", p.weights[0]/p.weights[9], 10, 1e-9)
}

func TestTableIsAligned(t *testing.T) {
	t.Parallel()
	tab := table{title: "title"}
	tab.addColumn("one", []figure{{"length", "m", 1}, {"µ", "", 22}})
	tab.addColumn("two", []figure{{"length", "m", 333}, {"µ", "", 4}})
	if want := "\ntitle\n             one  two\n  length, m    1  333\n  µ           22    4\n"; tab.text() != want {
		t.Errorf("%q, want %q", tab.text(), want)
	}
}
