package dialogs

// figures are how well a grouping of turns is that of the sessions: B-cubed, over users' messages.
type figures struct {
	precision, recall float64
	turns, topics     int
	sessions          int
}

func (f figures) f1() float64 {
	if f.precision+f.recall == 0 {
		return 0
	}
	return 2 * f.precision * f.recall / (f.precision + f.recall)
}

// compare measures a grouping: topics[n] is the topic of the nth turn. For each turn, precision is which share of its
// topic's turns are of its session, and recall which share of its session's turns are in its topic.
func compare(d *talk, topics []int) figures {
	type pair struct {
		session string
		topic   int
	}
	both, bySession, byTopic := map[pair]int{}, map[string]int{}, map[int]int{}
	for n, t := range d.turns {
		both[pair{t.session, topics[n]}]++
		bySession[t.session]++
		byTopic[topics[n]]++
	}
	f := figures{turns: len(d.turns), topics: len(byTopic), sessions: len(bySession)}
	for n, t := range d.turns {
		shared := float64(both[pair{t.session, topics[n]}])
		f.precision += shared / float64(byTopic[topics[n]])
		f.recall += shared / float64(bySession[t.session])
	}
	f.precision /= float64(max(len(d.turns), 1))
	f.recall /= float64(max(len(d.turns), 1))
	return f
}
