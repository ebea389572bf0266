package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// What people talk about here: enough different words that a summary has something to choose from and that no two
// messages are alike, few enough that a search finds something.
var (
	subjects = strings.Fields("cello garden kitchen budget journey novel marathon piano workshop thesis bicycle orchestra harvest bakery translation telescope")
	things   = strings.Fields("tempo notebook schedule recipe window harbour chapter melody ladder compass ticket lantern carpet letter bridge mirror season basket engine pattern")
	persons  = strings.Fields("Anna Boris Chiara David Elif Farid Greta Hugo Irina Jonas Kenji Lena Mateo Nadia Omar Paula")
	actions  = strings.Fields("measured repaired forgot borrowed practised sketched ordered returned rehearsed painted counted moved cancelled planned compared finished")
)

// newDice makes the same choices for the same seed, so that a load can be repeated.
func newDice(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) } //nolint:gosec // guards nothing

func one(dice *rand.Rand, of []string) string { return of[dice.IntN(len(of))] }

// sentence says something that can be remembered, in about a dozen words.
func sentence(dice *rand.Rand) string {
	return fmt.Sprintf("On day %d %s %s the %s for the %s, and the %s cost %d.", dice.IntN(1000), one(dice, persons), one(dice, actions),
		one(dice, things), one(dice, subjects), one(dice, things), dice.IntN(10_000))
}

// prose is sentences of at least so many words together.
func prose(dice *rand.Rand, words int) string {
	var said []string
	for count := 0; count < words; {
		s := sentence(dice)
		said = append(said, s)
		count += strings.Count(s, " ") + 1
	}
	return strings.Join(said, " ")
}

// upTo is any duration below d.
func upTo(dice *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(dice.Int64N(max(int64(d), 1)))
}
