package prompt

import (
	"cmp"
	"slices"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// selectTurns selects what is shown of a chat's turns, which are those of its buffer, by the chat's strategy.
func selectTurns(c *memory.Chat, turns []memory.Turn, l memory.Limits) selection {
	switch c.Strategy {
	case memory.StrategySimple:
		return selectSimple(c, turns, l)
	case memory.StrategyHybrid:
		return selectHybrid(c, turns, l)
	default:
		return selectSummary(c, turns, l)
	}
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

// selectHybrid selects what selectSummary does, and the kept messages. Those have a third of the prompt's budget to
// themselves, used or not, so that the tail does not shift when a message is pinned.
func selectHybrid(c *memory.Chat, turns []memory.Turn, l memory.Limits) selection {
	budget := l.KeptTokenBudget()
	l.PromptTokenBudget -= budget
	s := selectSummary(c, turns, l)
	s.keptBudget = budget
	s.keep(keptCandidates(c.Kept, s.unseen))
	return s
}

// keptCandidates returns the pinned and important messages that are not shown anyway: those that the brief covers,
// and those of unseen turns.
func keptCandidates(covered []memory.Message, unseen []memory.Turn) []memory.Message {
	all := slices.Clone(covered)
	quoteMessages(all) // unseen turns are quoted already
	for _, t := range unseen {
		all = append(all, t.Messages...)
	}
	return slices.DeleteFunc(all, func(m memory.Message) bool { return !m.IsKept() || m.Blank() })
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
