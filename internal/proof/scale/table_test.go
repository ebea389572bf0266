package main

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance {
		t.Errorf("%s: %v, want %v within %v", what, got, want, tolerance)
	}
}

// Nobody is lost, shards are even, and a new shard takes its part of each old one and nothing else moves.
func TestRouting(t *testing.T) {
	t.Parallel()
	p := newPopulation(50_000, 0.6)
	for _, r := range routers {
		users, turns := spread(p, r, 4)
		for what, shares := range map[string][]float64{"users": users, "turns": turns} {
			sum := 0.0
			for _, share := range shares {
				sum += share
			}
			near(t, r.name+": all "+what, sum, 4, 1e-6)
			near(t, r.name+": most "+what, slices.Max(shares), 1, 0.06)
		}
		all, stray := moved(len(p), r, 4, 5)
		if r.name == "modulo" {
			near(t, "modulo moves", all, 0.8, 0.02)
			continue
		}
		near(t, r.name+" moves", all, 0.2, 0.01)
		if stray != 0 {
			t.Errorf("%s: %v of the users move between old shards", r.name, stray)
		}
		if back, _ := moved(len(p), r, 5, 4); back != all {
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
	all := 0.0
	for _, share := range p {
		all += share
	}
	near(t, "all users", all, 1, 1e-9)
	near(t, "the first to the tenth", p[0]/p[9], 10, 1e-9)
}

func TestTableIsAligned(t *testing.T) {
	t.Parallel()
	tab := table{title: "title"}
	tab.addColumn("one", []figure{{"length", "m", 1}, {"µ", "", 22}})
	tab.addColumn("two", []figure{{"length", "m", 333}, {"µ", "", 4}})
	var text strings.Builder
	if err := tab.write(&text); err != nil {
		t.Fatal(err)
	}
	if want := "\ntitle\n             one  two\n  length, m    1  333\n  µ           22    4\n"; text.String() != want {
		t.Errorf("%q, want %q", text.String(), want)
	}
}
