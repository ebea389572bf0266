package prompt

import (
	"cmp"
	"slices"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// selectTurns selects what is shown of a chat's turns, which are those of its buffer, by the chat's strategy; and the messages
// that it keeps. A hybrid chat has a third of the prompt's budget for those, used or not, so that the tail does not shift
// when a message is pinned. In other chats they come on top, and take of the turns' room only what a small window lacks.
func selectTurns(c *memory.Chat, turns []memory.Turn, l memory.Limits) selection {
	budget, room := l.KeptTokenBudget(), l.PromptTokenBudget+l.BridgeTokenBudget
	switch c.Strategy {
	case memory.StrategyHybrid:
		l.PromptTokenBudget -= budget
		room -= budget
	case memory.StrategySimple:
		room = l.MaxHistoryTokens
	}
	s := selectBy(c, turns, l, budget)
	if over := room + s.keptTokens - l.HistoryTokens; over > 0 && l.HistoryTokens > 0 {
		s = selectBy(c, turns, l.Less(over), s.keptTokens)
	}
	return s
}

func selectBy(c *memory.Chat, turns []memory.Turn, l memory.Limits, keptBudget int) (s selection) {
	if c.Strategy == memory.StrategySimple {
		s = selectSimple(c, turns, l)
	} else {
		s = selectSummary(c, turns, l)
	}
	s.keptBudget = keptBudget
	s.keep(keptCandidates(c, s.unseen))
	return s
}

// selectSummary selects brief, bridge and tail.
func selectSummary(c *memory.Chat, turns []memory.Turn, l memory.Limits) selection {
	both := l.PromptTokenBudget + l.BridgeTokenBudget
	s := selection{brief: c.Brief, briefBudget: l.SummaryTokenCap}
	if l.BridgeTokenBudget > 0 {
		s.makeRoom(tokensOf(turns[max(0, len(turns)-l.KRawTurns):]), both)
	}
	d := divide(s.brief.Tokens, turns, l)
	s.unseen, s.bridge, s.bridgeTokens = turns[:d.bridge], turns[d.bridge:d.tail], d.bridgeTokens
	s.fit(turns[d.tail:], both-d.bridgeTokens)
	s.recentBudget = both - s.brief.Tokens
	return s
}

// selectSimple selects the newest turns that fit, and at least one. The brief of a chat that had another strategy
// before is not shown.
func selectSimple(c *memory.Chat, turns []memory.Turn, l memory.Limits) selection {
	n, tokens := 0, 0
	for n < len(turns) && (c.MaxTurns == 0 || n < c.MaxTurns) {
		tokens += turns[len(turns)-1-n].Tokens()
		if n > 0 && tokens > l.MaxHistoryTokens {
			break
		}
		n++
	}
	first := len(turns) - n
	s := selection{unseen: turns[:first], recentBudget: l.MaxHistoryTokens}
	s.fit(turns[first:], l.MaxHistoryTokens)
	return s
}

// keptCandidates returns the messages that the chat keeps and that are not shown anyway: those before the buffer, and those
// of unseen turns.
func keptCandidates(c *memory.Chat, unseen []memory.Turn) []memory.Message {
	all := slices.Clone(c.Kept)
	quoteMessages(all) // unseen turns are quoted already
	for _, t := range unseen {
		all = append(all, t.Messages...)
	}
	return slices.DeleteFunc(all, func(m memory.Message) bool { return !c.Keeps(&m) || m.Blank() })
}

// keep selects the messages that fit their budget: pinned before important, then the more important, then the newer.
// The first one is clipped rather than left out. The selected ones are in seq order.
func (s *selection) keep(messages []memory.Message) {
	slices.SortStableFunc(messages, compareKept)
	for _, m := range messages {
		if len(s.kept) == 0 && m.Tokens > s.keptBudget && s.keptBudget >= text.ClipReserve {
			before := m.Tokens
			m.Content, m.Tokens = text.Clip(m.Content, s.keptBudget)
			s.cut("kept", before, m.Tokens)
		}
		if s.keptTokens+m.Tokens > s.keptBudget {
			s.keptLeftOut++
			continue
		}
		s.keptTokens += m.Tokens
		s.kept = append(s.kept, m)
	}
	slices.SortFunc(s.kept, func(a, b memory.Message) int { return cmp.Compare(a.Seq, b.Seq) })
}

func compareKept(a, b memory.Message) int {
	if a.Pinned != b.Pinned {
		if a.Pinned {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(b.Importance, a.Importance), cmp.Compare(b.Seq, a.Seq))
}
