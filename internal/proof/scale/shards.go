package main

import (
	"fmt"
	"math"
	"slices"
)

// router chooses the shard of a user.
type router struct {
	name  string
	route func(user uint64, shards int) int
}

var routers = []router{{"rendezvous", rendezvous}, {"jump", jump}, {"modulo", modulo}}

// rendezvous takes the shard with the greatest weight for this user (Thaler and Ravishankar 1998). Shards may
// have any names, and any of them may be removed.
func rendezvous(user uint64, shards int) int {
	best, heaviest := 0, uint64(0)
	for shard := range shards {
		if weight := mix(user ^ mix(uint64(shard)+1)); weight >= heaviest {
			best, heaviest = shard, weight
		}
	}
	return best
}

// jump is a consistent hash without a table (Lamping and Veach 2014). Shards are numbers, and only the last may
// be removed.
func jump(user uint64, shards int) int {
	key, at, next := mix(user), int64(-1), int64(0)
	for next < int64(shards) {
		at = next
		key = key*2862933555777941757 + 1
		next = int64(float64(at+1) * (float64(1<<31) / float64(key>>33+1)))
	}
	return int(at)
}

// modulo is how not to do it.
func modulo(user uint64, shards int) int { return int(mix(user) % uint64(shards)) }

// newPopulation returns each user's share of all turns: the n-th most talkative talks as 1/n^skew (Zipf).
func newPopulation(users int, skew float64) (shares []float64) {
	total := 0.0
	for n := range users {
		shares = append(shares, math.Pow(float64(n+1), -skew))
		total += shares[n]
	}
	for n := range shares {
		shares[n] /= total
	}
	return shares
}

// spread returns what each shard gets of the users and of their turns, as a share of an even spread.
func spread(shares []float64, r router, shards int) (users, turns []float64) {
	users, turns = make([]float64, shards), make([]float64, shards)
	for n, share := range shares {
		shard := r.route(mix(uint64(n)), shards)
		users[shard] += float64(shards) / float64(len(shares))
		turns[shard] += float64(shards) * share
	}
	return users, turns
}

// moved returns the share of users who move when the number of shards changes; stray of them move between shards
// that exist before and after.
func moved(users int, r router, from, to int) (all, stray float64) {
	for n := range users {
		before, after := r.route(mix(uint64(n)), from), r.route(mix(uint64(n)), to)
		if before == after {
			continue
		}
		all++
		if after < from {
			stray++
		}
	}
	return all / float64(users), stray / float64(users)
}

// shardsTable spreads users over databases.
func shardsTable(users int) *table {
	const before, after = 4, 5
	t := &table{title: fmt.Sprintf("shards: %d users on %d databases, and on %d", users, before, after)}
	populations := map[float64][]float64{}
	skews := []float64{0.6, 0.8, 1}
	for _, skew := range skews {
		p := newPopulation(users, skew)
		busiest := 0.0
		for _, share := range p[:users/100] {
			busiest += share
		}
		populations[skew] = p
		t.notes = append(t.notes, fmt.Sprintf("skewed by %.1f: the busiest user makes %.3f %% of all turns, the busiest hundredth of users %.0f %%",
			skew, 100*p[0], 100*busiest))
	}
	for _, r := range routers {
		onFour, _ := spread(populations[1], r, before)
		onFive, _ := spread(populations[1], r, after)
		all, stray := moved(users, r, before, after)
		figures := []figure{
			{"most users on one of 4, of an even share", "", slices.Max(onFour)},
			{"most users on one of 5, of an even share", "", slices.Max(onFive)},
			{"users that move from 4 to 5 (the least possible: 20)", "%", 100 * all},
			{"users that move between old databases, for nothing", "%", 100 * stray},
		}
		for _, skew := range skews {
			_, turns := spread(populations[skew], r, before)
			figures = append(figures, figure{fmt.Sprintf("most turns on one of 4, users skewed by %.1f", skew), "", slices.Max(turns)})
		}
		t.addColumn(r.name, figures)
	}
	return t
}

// mix is the last step of splitmix64 (Steele, Lea and Flood 2014).
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
