package prompt

import (
	"slices"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// division divides a buffer: turns[:bridge] are dropped, turns[bridge:tail] are the bridge, the rest is the tail.
type division struct {
	bridge, tail int
	bridgeTokens int
}

// divide picks tail and bridge. The tail is the last K turns, less its oldest while brief and tail
// are over the prompt's budget; the bridge is what fits its own budget before the tail, newest first
// and without a gap. A turn that left the tail is the first candidate for the bridge.
func divide(briefTokens int, turns []memory.Turn, l memory.Limits) division {
	d := division{tail: max(0, len(turns)-l.KRawTurns)}
	used := briefTokens
	for _, t := range turns[d.tail:] {
		used += t.Tokens()
	}
	for used > l.PromptTokenBudget && len(turns)-d.tail > max(1, l.MinTailTurns) {
		used -= turns[d.tail].Tokens()
		d.tail++
	}
	d.bridge = d.tail
	for d.bridge > 0 && l.BridgeTokenBudget > 0 {
		next := turns[d.bridge-1].Tokens()
		if d.bridgeTokens+next > l.BridgeTokenBudget {
			break
		}
		d.bridgeTokens += next
		d.bridge--
	}
	return d
}

// Unseen returns how many of the buffer's turns neither tail nor bridge would show: the oldest.
func Unseen(briefTokens int, turns []memory.Turn, l memory.Limits) int {
	return divide(briefTokens, turns, l).bridge
}

// fitted is what is left of brief and tail when they have to share a budget.
type fitted struct {
	summary       string
	summaryTokens int
	tail          []memory.Turn
	tailTokens    int
	truncated     bool
}

// fit shortens what is over budget: first the brief, then the longest messages of the tail, and
// when the tail has nothing left to give, the brief once more. The tail's turns are copied before
// they are changed.
func fit(brief memory.Brief, tail []memory.Turn, budget int) fitted {
	f := fitted{summary: brief.Summary, summaryTokens: max(0, brief.Tokens), tail: tail}
	for _, t := range tail {
		f.tailTokens += t.Tokens()
	}
	if f.summaryTokens+f.tailTokens <= budget {
		return f
	}
	f.shortenSummary(f.summaryRoom(budget))
	f.clipTail(budget - f.summaryTokens)
	f.shortenSummary(budget - f.tailTokens)
	return f
}

// summaryShare is the part of the budget (one in four) that a brief may keep where the tail has to be
// clipped in any case: one pasted book must not make the assistant forget the whole conversation.
const summaryShare = 4

// summaryRoom is what the tail leaves to the brief. Where that is less than the brief's last sentence,
// shortening it would not be enough anyway, and it gets its share.
func (f *fitted) summaryRoom(budget int) int {
	room := budget - f.tailTokens
	if room >= text.Tokens(text.NewestSentences(f.summary, 0)) {
		return room
	}
	return max(room, budget/summaryShare)
}

// shortenSummary brings the summary down to room tokens: oldest sentences first, and when the last
// one is too long by itself, at a word end.
func (f *fitted) shortenSummary(room int) {
	if f.summaryTokens <= room {
		return
	}
	before := f.summary
	f.summary = ""
	if room > 0 {
		f.summary = text.FitCap(text.NewestSentences(before, room), room)
	}
	f.summaryTokens = text.Tokens(f.summary)
	f.truncated = f.truncated || f.summary != before
}

// clipTail brings the tail down to room tokens by levelling its longest messages: one level is found
// that all messages together can have, and only those above it are clipped. A message is never
// clipped to less than the note about what was omitted.
func (f *fitted) clipTail(room int) {
	if f.tailTokens <= room {
		return
	}
	level := max(text.ClipReserve, sharedLevel(sizes(f.tail), room))
	clippedTail := make([]memory.Turn, len(f.tail))
	f.tailTokens = 0
	for i, t := range f.tail {
		clippedTail[i] = memory.Turn{Messages: slices.Clone(t.Messages)}
		for j := range t.Messages {
			f.clipMessage(&clippedTail[i].Messages[j], level)
		}
		f.tailTokens += clippedTail[i].Tokens()
	}
	f.tail = clippedTail
}

func (f *fitted) clipMessage(m *memory.Message, level int) {
	if m.Tokens <= level || m.Blank() {
		return
	}
	before := m.Content
	m.Content, m.Tokens = text.Clip(before, level)
	f.truncated = f.truncated || m.Content != before
}

func sizes(turns []memory.Turn) []int {
	var all []int
	for _, t := range turns {
		for _, m := range t.Messages {
			all = append(all, max(0, m.Tokens))
		}
	}
	return all
}

// sharedLevel gives the greatest level for which the sum of min(size, level) is at most room.
func sharedLevel(sizes []int, room int) int {
	slices.Sort(sizes)
	for i, size := range sizes {
		if share := room / (len(sizes) - i); size > share {
			return share
		}
		room -= size
	}
	return room
}
