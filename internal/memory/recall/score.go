package recall

import (
	"cmp"
	"math"
	"slices"

	"github.com/google/uuid"
)

// The constants of the ranking. Those of the views are the design's and were tried on dialogs 0 to 4 of LoCoMo together.
// How askShare and beforeHit were chosen, on four of the dialogs and judged on the fifth, is in docs/results/recall.md.
const (
	// saturation and lengthShare are BM25's k1 and b.
	saturation  = .9
	lengthShare = .5
	// ownWeight, windowWeight and segmentWeight are the weights of a turn's views, in standard deviations: its own words,
	// those together with the user's message before it, and those of its segment.
	ownWeight     = .5
	windowWeight  = 1.
	segmentWeight = 1.
	// windowBesideMeaning is windowWeight where there is a vector, which tells of the turns around as well.
	windowBesideMeaning = .5
	// A turn is also about what the turns beside it are about.
	beforeShare = .3
	afterShare  = .15
	// The meaning of a turn that is a single message is, to as much, that of the turns beside it; of one with a reply less.
	singleBefore, singleAfter   = 1., 1.
	repliedBefore, repliedAfter = .3, .15
	// beforeHit is the share of its score that a turn gives to the one before it, which may be what it speaks of.
	beforeHit = .15
	// timeBonus is for a turn that was said at a time that the question names.
	timeBonus = 1.
)

// candidate is a turn that a question may be about.
type candidate struct {
	Place
	// counts are by word.
	own, asked []float64
	// the views, and their sum
	ownView, window, segment, meaning float64
	ownWords                          float64 // the own view without the turns beside it
	segmentPlace                      int     // of its segment, among those of the candidates
	cosine, around                    float64
	hasVector                         bool
	score                             float64
}

type segmentID struct {
	chatID  uuid.UUID
	segment int
}

// ranking scores the candidates of one question.
type ranking struct {
	words      []word
	matches    Matches
	candidates map[TurnID]*candidate
	// holders and ownHolders are how many turns hold each word, with and without the user's message before them.
	holders, ownHolders []float64
}

func newRanking(words []word, matches Matches) *ranking {
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

// addMeaning adds what is near to the question's vector: the candidates' own nearness, and the nearest turns as candidates.
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
			place := near[n].Place
			if n > 0 && near[n-1].ChatID == place.ChatID {
				place.AskedSeq = near[n-1].Seq
			}
			c = r.candidate(place)
			c.cosine, c.around, c.hasVector = near[n].Cosine, around[n], true
		}
	}
}

// aroundOf returns the weighted sum of a turn's cosine and those of the turns beside it in its segment.
func aroundOf(near []Near, n int) float64 {
	t := near[n]
	before, after := singleBefore, singleAfter
	if t.LastSeq > t.Seq {
		before, after = repliedBefore, repliedAfter
	}
	sum := t.Cosine
	if n > 0 && near[n-1].ChatID == t.ChatID && near[n-1].Segment == t.Segment {
		sum += before * near[n-1].Cosine
	}
	if n+1 < len(near) && near[n+1].ChatID == t.ChatID && near[n+1].Segment == t.Segment {
		sum += after * near[n+1].Cosine
	}
	return sum
}

// ranked scores the candidates and returns them best first. weight is that of their meaning.
func (r *ranking) ranked(weight float64, times []period) []*candidate {
	all := r.ordered()
	r.view(all)
	hasMeaning := weight > 0 && slices.ContainsFunc(all, func(c *candidate) bool { return c.hasVector })
	window := windowWeight
	if hasMeaning {
		window = windowBesideMeaning
	}
	standardize(all, func(c *candidate) *float64 { return &c.ownView })
	standardize(all, func(c *candidate) *float64 { return &c.window })
	standardize(all, func(c *candidate) *float64 { return &c.segment })
	if hasMeaning {
		r.viewMeaning(all)
	}
	for _, c := range all {
		c.score = ownWeight*c.ownView + window*c.window + segmentWeight*c.segment
		if hasMeaning {
			c.score += weight * c.meaning
		}
		if isWithin(times, c.SaidAt) {
			c.score += timeBonus
		}
	}
	r.shareHits(all)
	slices.SortStableFunc(all, func(a, b *candidate) int { return cmp.Compare(b.score, a.score) })
	return all
}

// shareHits gives turns a share of the score of the turn after them.
func (r *ranking) shareHits(all []*candidate) {
	shared := make(map[*candidate]float64, len(all))
	for _, c := range all {
		if before := r.before(c); before != nil {
			shared[before] += beforeHit * max(c.score, 0)
		}
	}
	for c, score := range shared {
		c.score += score
	}
}

// before returns the candidate that is the turn before another one in its segment, or nil.
func (r *ranking) before(c *candidate) *candidate {
	before := r.candidates[TurnID{c.ChatID, c.AskedSeq}]
	if before == c || before != nil && before.Segment != c.Segment {
		return nil
	}
	return before
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

// view computes the three views of the words.
func (r *ranking) view(all []*candidate) {
	for _, c := range all {
		c.ownWords, c.ownView, c.window, c.segment = 0, 0, 0, 0
	}
	inSegment := make([]float64, numberSegments(all))
	average := averageSize(all)
	for n := range r.words {
		rarity := rarityOf(r.ownHolders[n], r.matches.Turns)
		windowRarity := rarityOf(r.holders[n], r.matches.Turns)
		clear(inSegment)
		for _, c := range all {
			c.ownWords += rarity * saturated(c.own[n], float64(c.Size)/average)
			c.window += windowRarity * saturated(c.own[n]+c.asked[n], (float64(c.Size)/average+1)/2)
			inSegment[c.segmentPlace] += c.own[n]
		}
		holders := 0.
		for _, count := range inSegment {
			if count > 0 {
				holders++
			}
		}
		segmentRarity := rarityOf(holders, r.matches.Segments)
		for _, c := range all {
			c.segment += segmentRarity * saturated(inSegment[c.segmentPlace], 1)
		}
	}
	for _, c := range all {
		c.ownView += c.ownWords
		if before := r.before(c); before != nil {
			c.ownView += beforeShare * before.ownWords
			before.ownView += afterShare * c.ownWords
		}
	}
}

// viewMeaning standardizes what is around each vector. A turn without a vector is as near as the average.
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
	standardize(all, func(c *candidate) *float64 { return &c.meaning })
}

// numberSegments numbers the segments of the candidates, and returns how many there are.
func numberSegments(all []*candidate) int {
	places := map[segmentID]int{}
	for _, c := range all {
		id := segmentID{c.ChatID, c.Segment}
		place, ok := places[id]
		if !ok {
			place = len(places)
			places[id] = place
		}
		c.segmentPlace = place
	}
	return len(places)
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

// standardize replaces a view by how many standard deviations it is above the mean.
func standardize(all []*candidate, view func(*candidate) *float64) {
	var sum, squares float64
	for _, c := range all {
		x := *view(c)
		sum += x
		squares += x * x
	}
	count := float64(len(all))
	mean := sum / count
	deviation := math.Sqrt(max(squares/count-mean*mean, 0))
	if deviation < 1e-9 {
		deviation = 1
	}
	for _, c := range all {
		*view(c) = (*view(c) - mean) / deviation
	}
}
