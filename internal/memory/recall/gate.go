package recall

// The gate: what a turn needs so that a prompt shows it.
const (
	// One word passes that at most this share of the turns hold, or so few turns.
	rareShare, rareTurns = .03, 1.
	// So do words of which each is held by at most commonShare of the turns, and all of them by chance by at most
	// togetherShare, such as two that a seventh of the turns hold. A word that few turns hold counts as telling in any
	// chat, however short.
	commonShare, togetherShare = .2, .02
	tellingShare, tellingTurns = .1, 2.
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

// passesByWords reports whether a turn holds words that are rare enough. Those of the user's message before it count
// where nothing answered that: then the turn may be the answer. A time that the question names is as a word of the turns that
// were said then.
func (r *ranking) passesByWords(c *candidate) bool {
	all := max(float64(r.matches.Turns), 1)
	before := r.candidates[TurnID{c.ChatID, c.AskedSeq}]
	answers := before != nil && before.LastSeq == before.Seq
	words, chance := 0, 1.
	if c.isWithin && r.within <= commonShare {
		words, chance = 1, r.within
	}
	for n, w := range r.words {
		if w.weak || c.own[n] == 0 && !(answers && c.asked[n] > 0) {
			continue
		}
		holders := r.ownHolders[n]
		if holders <= max(rareShare*all, rareTurns) {
			return true
		}
		share := holders / all
		if holders <= tellingTurns {
			share = min(share, tellingShare)
		}
		if share <= commonShare {
			words++
			chance *= share
		}
	}
	return words > 1 && chance <= togetherShare+1e-9
}
