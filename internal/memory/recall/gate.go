package recall

// The gate: what a turn needs so that a prompt shows it.
const (
	// A word is telling if at most this share of the turns hold it, and rare at most that; or so few turns. One rare
	// word passes, or two telling ones.
	tellingShare, rareShare = .1, .02
	tellingTurns, rareTurns = 2., 1.
	// A turn as near as this in meaning passes without a word; see Similarity.
	nearEnough = .7
)

// canPass reports whether a question holds a word that could let a turn pass the gate.
func canPass(words []word) bool {
	for _, w := range words {
		if !w.weak {
			return true
		}
	}
	return false
}

// passesByWords reports whether a turn, with the user's message before it, holds words that are rare enough.
func (r *ranking) passesByWords(c *candidate) bool {
	telling := 0
	all := float64(r.matches.Turns)
	for n, w := range r.words {
		if w.weak || c.own[n]+c.asked[n] == 0 {
			continue
		}
		switch holders := r.ownHolders[n]; {
		case holders <= max(rareShare*all, rareTurns):
			return true
		case holders <= max(tellingShare*all, tellingTurns):
			telling++
		}
	}
	return telling >= 2
}
