package recall

import (
	"cmp"
	"math"
	"slices"
)

// The constants of the ranking. How they were chosen, on four dialogs and judged on the fifth, is in docs/results/recall.md.
const (
	// saturation and lengthShare are BM25's k1 and b.
	saturation  = .9
	lengthShare = .5
	// ownWeight, windowWeight and nearWeight are the weights of a turn's views, in standard deviations: its own words,
	// those together with the user's message before it, and those that are said near it.
	ownWeight    = .4
	windowWeight = .4
	nearWeight   = 1.
	// nearMessages is after how many messages a word counts 1/e for a turn.
	nearMessages = 5.
	// besideShare is how much of the meaning of the turns beside it is a turn's.
	besideShare = .3
)

// candidate is a turn that a question may be about.
type candidate struct {
	Place
	// counts are by word.
	own, asked []float64
	// the views, and their sum
	ownView, window, near, meaning float64
	cosine, around                 float64
	hasVector                      bool
	// isWithin is whether it was said at a time that the question names.
	isWithin bool
	score    float64
}

type ranking struct {
	words      []Word
	matches    Matches
	candidates map[TurnID]*candidate
	// holders and ownHolders are how many turns hold each word, with and without the user's message before them.
	holders, ownHolders []float64
	// within is the share of the candidates that were said at a time that the question names.
	within float64
}

func newRanking(words []Word, matches Matches) *ranking {
	r := &ranking{
		words: words, matches: matches, candidates: map[TurnID]*candidate{},
		holders: make([]float64, len(words)), ownHolders: make([]float64, len(words)),
	}
	for _, m := range matches.Found {
		c := r.candidate(m.Place)
		c.own[m.Word], c.asked[m.Word] = m.Own, m.Asked
		r.holders[m.Word]++
		if m.Own > 0 {
			r.ownHolders[m.Word]++
		}
	}
	return r
}

func (r *ranking) candidate(p Place) *candidate {
	c := r.candidates[p.TurnID]
	if c == nil {
		counts := make([]float64, 2*len(r.words))
		c = &candidate{Place: p, own: counts[:len(r.words)], asked: counts[len(r.words):]}
		r.candidates[p.TurnID] = c
	}
	return c
}

// withBeside returns the candidates, and the turns that may be beside them.
func (r *ranking) withBeside() []TurnID {
	all := make([]TurnID, 0, 3*len(r.candidates))
	for id, c := range r.candidates {
		all = append(all, TurnID{id.ChatID, c.AskedSeq}, id, TurnID{id.ChatID, c.LastSeq + 1})
	}
	return all
}

// addMeaning adds the turns near the question's vector: the candidates' own nearness, and the nearest turns as candidates.
// near is in order of seq, chat by chat.
func (r *ranking) addMeaning(near []Near) {
	around := make([]float64, len(near))
	for n := range near {
		around[n] = aroundOf(near, n)
	}
	least := math.Inf(-1)
	if len(near) > nearest {
		sorted := slices.Sorted(slices.Values(around))
		least = sorted[len(sorted)-nearest]
	}
	for n := range near {
		if c := r.candidates[near[n].TurnID]; c != nil || around[n] >= least {
			c = r.candidate(near[n].Place)
			c.cosine, c.around, c.hasVector = near[n].Cosine, around[n], true
		}
	}
}

// aroundOf returns the weighted sum of a turn's cosine and those of the turns beside it in its segment.
func aroundOf(near []Near, n int) float64 {
	sum := near[n].Cosine
	if n > 0 && near[n-1].isBefore(near[n].Place) {
		sum += besideShare * near[n-1].Cosine
	}
	if n+1 < len(near) && near[n].isBefore(near[n+1].Place) {
		sum += besideShare * near[n+1].Cosine
	}
	return sum
}

// isBefore reports whether a turn of the same segment follows at once.
func (p *Place) isBefore(next Place) bool {
	return p.isNear(next) && (next.AskedSeq == p.Seq || next.Seq == p.LastSeq+1)
}

// isNear reports whether two turns are of the same segment.
func (p *Place) isNear(other Place) bool {
	return p.ChatID == other.ChatID && p.Segment == other.Segment
}

// ranked scores the candidates and returns them best first. weight is that of their meaning. A time that the question names
// counts the more the fewer turns were said then.
func (r *ranking) ranked(weight float64, times []period) []*candidate {
	all := r.ordered()
	r.view(all)
	hasMeaning := weight > 0 && slices.ContainsFunc(all, func(c *candidate) bool { return c.hasVector })
	Standardize(all, func(c *candidate) *float64 { return &c.ownView })
	Standardize(all, func(c *candidate) *float64 { return &c.window })
	Standardize(all, func(c *candidate) *float64 { return &c.near })
	if hasMeaning {
		r.viewMeaning(all)
	}
	r.time(all, times)
	for _, c := range all {
		c.score = ownWeight*c.ownView + windowWeight*c.window + nearWeight*c.near
		if hasMeaning {
			c.score += weight * c.meaning
		}
		if c.isWithin {
			c.score -= math.Log(r.within)
		}
	}
	slices.SortStableFunc(all, func(a, b *candidate) int { return cmp.Compare(b.score, a.score) })
	return all
}

// time finds the candidates that were said at a time that the question names.
func (r *ranking) time(all []*candidate, times []period) {
	r.within = 0
	for _, c := range all {
		if c.isWithin = isWithin(times, c.SaidAt); c.isWithin {
			r.within += 1 / float64(len(all))
		}
	}
}

// ordered returns the candidates newest first, which decides between equals.
func (r *ranking) ordered() []*candidate {
	all := make([]*candidate, 0, len(r.candidates))
	for _, c := range r.candidates {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *candidate) int {
		return cmp.Or(b.SaidAt.Compare(a.SaidAt), cmp.Compare(b.Seq, a.Seq), slices.Compare(a.ChatID[:], b.ChatID[:]))
	})
	return all
}

func (r *ranking) view(all []*candidate) {
	average := averageSize(all)
	inPlace := slices.SortedFunc(slices.Values(all), func(a, b *candidate) int {
		return cmp.Or(slices.Compare(a.ChatID[:], b.ChatID[:]), cmp.Compare(a.Seq, b.Seq))
	})
	fading := fadingOf(inPlace)
	near := make([]float64, len(all))
	for _, c := range all {
		c.ownView, c.window, c.near = 0, 0, 0
	}
	for n := range r.words {
		rarity := rarityOf(r.ownHolders[n], r.matches.Turns)
		windowRarity := rarityOf(r.holders[n], r.matches.Turns)
		countNear(inPlace, n, fading, near)
		for place, c := range inPlace {
			size := float64(c.Size) / average
			c.ownView += rarity * saturated(c.own[n], size)
			c.window += windowRarity * saturated(c.own[n]+c.asked[n], (size+1)/2)
			c.near += rarity * saturated(near[place], 1)
		}
	}
}

// fadingOf returns the share of a word that is left at each turn when it was said at the one before. The turns are in order of seq, chat by
// chat; in another segment nothing is left.
func fadingOf(inPlace []*candidate) []float64 {
	fading := make([]float64, len(inPlace))
	for n := 1; n < len(inPlace); n++ {
		if before, c := inPlace[n-1], inPlace[n]; before.isNear(c.Place) {
			fading[n] = math.Exp(-float64(c.Seq-before.Seq) / nearMessages)
		}
	}
	return fading
}

// countNear counts a word at each turn, and how much of it is left of the turns before it and of those after it.
func countNear(inPlace []*candidate, word int, fading, counts []float64) {
	left := 0.
	for n, c := range inPlace {
		left = left*fading[n] + c.own[word]
		counts[n] = left
	}
	left = 0
	for n := len(inPlace) - 1; n >= 0; n-- {
		counts[n] += left
		left = (left + inPlace[n].own[word]) * fading[n]
	}
}

// viewMeaning standardizes the meaning around each vector. A turn without a vector is as near as the average.
func (r *ranking) viewMeaning(all []*candidate) {
	var sum, count float64
	for _, c := range all {
		if c.hasVector {
			sum += c.around
			count++
		}
	}
	for _, c := range all {
		c.meaning = sum / count
		if c.hasVector {
			c.meaning = c.around
		}
	}
	Standardize(all, func(c *candidate) *float64 { return &c.meaning })
}

// rarityOf is BM25's idf, which is never negative.
func rarityOf(holders float64, all int) float64 {
	return math.Log(1 + (max(float64(all), holders)-holders+.5)/(holders+.5))
}

// saturated is BM25's count of a word in a text, whose size is relative to the average.
func saturated(count, size float64) float64 {
	if count == 0 {
		return 0
	}
	return count * (saturation + 1) / (count + saturation*(1-lengthShare+lengthShare*size))
}

// averageSize is that of the turns whose size is known.
func averageSize(all []*candidate) float64 {
	sum, count := 0., 0.
	for _, c := range all {
		if c.Size > 0 {
			sum += float64(c.Size)
			count++
		}
	}
	return max(sum, 1) / max(count, 1)
}

// Standardize replaces a view of candidates by how many standard deviations it is above the mean. An unknown value (NaN) is
// average. It is how views of turns, and of memories, are made comparable.
func Standardize[Candidate any](all []Candidate, view func(Candidate) *float64) {
	var sum, squares, count float64
	for _, c := range all {
		if x := *view(c); !math.IsNaN(x) {
			sum, squares, count = sum+x, squares+x*x, count+1
		}
	}
	mean := sum / max(count, 1)
	deviation := math.Sqrt(max(squares/max(count, 1)-mean*mean, 0))
	if deviation < 1e-9 {
		deviation = 1
	}
	for _, c := range all {
		if at := view(c); math.IsNaN(*at) {
			*at = 0
		} else {
			*at = (*at - mean) / deviation
		}
	}
}

// The gate: the conditions under which a prompt shows a turn.
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
func canPass(words []Word) bool {
	return slices.ContainsFunc(words, func(w Word) bool { return !w.Weak })
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
		if w.Weak || c.own[n] == 0 && !(answers && c.asked[n] > 0) {
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
