package prompt

import (
	"slices"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// division divides a buffer: turns[:bridge] are unseen, turns[bridge:tail] are the bridge, the rest is the tail.
type division struct {
	bridge, tail int
	bridgeTokens int
}

// divide determines tail and bridge. The tail is the last K turns, less its oldest while brief and tail are over the
// prompt's budget. The bridge is what fits before the tail, newest first and without a gap. The last K turns may take
// all that the budgets of prompt and bridge leave together; older turns get no more than the bridge's own.
func divide(briefTokens int, turns []memory.Turn, l memory.Limits) division {
	older := max(0, len(turns)-l.KRawTurns)
	d := division{tail: older}
	used := briefTokens + tokensOf(turns[d.tail:])
	for used > l.PromptTokenBudget && len(turns)-d.tail > max(1, l.MinTailTurns) {
		used -= turns[d.tail].Tokens()
		d.tail++
	}
	d.bridge = d.tail
	for room := l.PromptTokenBudget + l.BridgeTokenBudget - used; d.bridge > 0 && l.BridgeTokenBudget > 0; d.bridge-- {
		if d.bridge <= older {
			room = min(room, l.BridgeTokenBudget)
		}
		next := turns[d.bridge-1].Tokens()
		if next > room {
			break
		}
		room -= next
		d.bridgeTokens += next
	}
	return d
}

// Unseen returns how many of the buffer's turns neither tail nor bridge would show: the oldest.
func Unseen(briefTokens int, turns []memory.Turn, l memory.Limits) int {
	return divide(briefTokens, turns, l).bridge
}

func tokensOf(turns []memory.Turn) int {
	sum := 0
	for i := range turns {
		sum += turns[i].Tokens()
	}
	return sum
}

// fit shortens brief and tail to a common budget: first the brief, then the longest messages of the tail, and when
// those cannot get shorter, the brief once more.
func (s *selection) fit(tail []memory.Turn, budget int) {
	s.tail, s.tailTokens = tail, tokensOf(tail)
	if s.brief.Tokens+s.tailTokens <= budget {
		return
	}
	s.shortenBrief(s.briefRoom(budget))
	s.clipTail(budget - s.brief.Tokens)
	s.shortenBrief(budget - s.tailTokens)
}

// briefShare is the fraction of the budget (one in four) that a brief may keep when the tail has to be clipped in any
// case: one pasted book must not make the assistant forget the whole conversation.
const briefShare = 4

// makeRoom shortens the brief if that alone makes room for turns of so many tokens.
func (s *selection) makeRoom(tokens, budget int) {
	if room := budget - tokens; room < s.brief.Tokens && room >= s.shortestBrief() {
		s.shortenBrief(room)
	}
}

// shortestBrief returns the size of the brief's last sentence.
func (s *selection) shortestBrief() int { return text.Tokens(text.NewestSentences(s.brief.Summary, 0)) }

// briefRoom returns what the tail leaves to the brief. Where that is less than the brief's last sentence, shortening the
// brief would not be enough, and it gets its share.
func (s *selection) briefRoom(budget int) int {
	room := budget - s.tailTokens
	if room >= s.shortestBrief() {
		return room
	}
	return max(room, budget/briefShare)
}

// shortenBrief shortens the brief to room tokens: its oldest sentences go first; when the last one is too long by itself,
// it is cut at a word end.
func (s *selection) shortenBrief(room int) {
	if s.brief.Tokens <= room {
		return
	}
	shorter := ""
	if room > 0 {
		shorter = text.FitCap(text.NewestSentences(s.brief.Summary, room), room)
	}
	tokens := text.Tokens(shorter)
	if shorter != s.brief.Summary {
		s.cut("brief", s.brief.Tokens, tokens)
	}
	s.brief.Summary, s.brief.Tokens = shorter, tokens
}

// clipTail shortens the tail to room tokens by clipping its longest messages to a common level. A message is never
// clipped to less than the note about what was omitted.
func (s *selection) clipTail(room int) {
	if s.tailTokens <= room {
		return
	}
	level := max(text.ClipReserve, sharedLevel(sizes(s.tail), room))
	for _, t := range s.tail {
		for i := range t.Messages {
			s.clip(&t.Messages[i], level)
		}
	}
	s.tailTokens = tokensOf(s.tail)
}

// clip shortens a message to limit tokens.
func (s *selection) clip(m *memory.Message, limit int) {
	if m.Tokens <= limit || m.Blank() {
		return
	}
	before := *m
	m.Content, m.Tokens = text.Clip(before.Content, limit)
	if m.Content != before.Content {
		s.cut("recent", before.Tokens, m.Tokens)
	}
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

// sharedLevel returns the greatest level for which the sum of min(size, level) is at most room.
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
