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

// population are users by how much they talk: the n-th most talkative as 1/n^skew (Zipf).
type population struct {
	weights []float64
	total   float64
}

func newPopulation(users int, skew float64) population {
	p := population{weights: make([]float64, users)}
	for n := range p.weights {
		p.weights[n] = math.Pow(float64(n+1), -skew)
		p.total += p.weights[n]
	}
	return p
}

// spread returns what each shard gets of the users and of their turns, as a share of an even spread.
func (p population) spread(r router, shards int) (users, turns []float64) {
	users, turns = make([]float64, shards), make([]float64, shards)
	for n, weight := range p.weights {
		shard := r.route(mix(uint64(n)), shards)
		users[shard] += float64(shards) / float64(len(p.weights))
		turns[shard] += float64(shards) * weight / p.total
	}
	return users, turns
}

// moved returns the share of users who move when the number of shards changes; stray of them move between shards
// that exist before and after.
func (p population) moved(r router, from, to int) (all, stray float64) {
	for n := range p.weights {
		before, after := r.route(mix(uint64(n)), from), r.route(mix(uint64(n)), to)
		if before == after {
			continue
		}
		all++
		if after < from {
			stray++
		}
	}
	return all / float64(len(p.weights)), stray / float64(len(p.weights))
}

// shardsTables spreads users over databases.
func shardsTables(users int) []table {
	const before, after = 4, 5
	equal := newPopulation(users, 0)
	t := table{title: fmt.Sprintf("shards: %d users on %d databases, and on %d", users, before, after)}
	for _, r := range routers {
		onFour, _ := equal.spread(r, before)
		onFive, _ := equal.spread(r, after)
		all, stray := equal.moved(r, before, after)
		figures := []figure{
			{"most users on one of 4, of an even share", "", slices.Max(onFour)},
			{"most users on one of 5, of an even share", "", slices.Max(onFive)},
			{"users that move from 4 to 5 (the least possible: 20)", "%", 100 * all},
			{"users that move between old databases, for nothing", "%", 100 * stray},
		}
		for _, skew := range []float64{0.6, 0.8, 1} {
			p := newPopulation(users, skew)
			_, turns := p.spread(r, before)
			figures = append(figures, figure{fmt.Sprintf("most turns on one of 4, users skewed by %.1f", skew), "", slices.Max(turns)})
		}
		t.addColumn(r.name, figures)
	}
	for _, skew := range []float64{0.6, 0.8, 1} {
		p := newPopulation(users, skew)
		t.notes = append(t.notes, fmt.Sprintf("skewed by %.1f: the busiest user makes %.3f %% of all turns, the busiest hundredth of users %.0f %%",
			skew, 100*p.weights[0]/p.total, 100*p.share(users/100)))
	}
	return []table{t}
}

// share returns the share of all turns that the first users make, who talk most.
func (p population) share(first int) float64 {
	sum := 0.0
	for _, weight := range p.weights[:first] {
		sum += weight
	}
	return sum / p.total
}

// mix is the last step of splitmix64 (Steele, Lea and Flood 2014).
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
