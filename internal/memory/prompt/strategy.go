package prompt

import (
	"cmp"
	"slices"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// strategy picks what a prompt shows of a chat's turns, which are those of its buffer.
type strategy interface {
	pick(c *memory.Chat, turns []memory.Turn, l memory.Limits) selection
}

func strategyOf(name memory.StrategyName) strategy {
	switch name {
	case memory.StrategySimple:
		return simple{}
	case memory.StrategyHybrid:
		return hybrid{}
	default:
		return summary{}
	}
}

// summary shows brief, bridge and tail.
type summary struct{}

func (summary) pick(c *memory.Chat, turns []memory.Turn, l memory.Limits) selection {
	d := divide(c.Brief.Tokens, turns, l)
	s := selection{
		brief: c.Brief, unseen: turns[:d.bridge], bridge: turns[d.bridge:d.tail], bridgeTokens: d.bridgeTokens, briefBudget: l.SummaryTokenCap,
	}
	s.fit(turns[d.tail:], l.PromptTokenBudget)
	s.recentBudget = l.PromptTokenBudget - s.brief.Tokens + l.BridgeTokenBudget
	return s
}

// fit shortens brief and tail to a budget.
func (s *selection) fit(tail []memory.Turn, budget int) {
	f := fit(s.brief, tail, budget)
	s.brief.Summary, s.brief.Tokens = f.summary, f.summaryTokens
	s.tail, s.tailTokens, s.truncated = f.tail, f.tailTokens, s.truncated || f.truncated
}

// simple shows the newest turns that fit, and at least one. The brief of a chat that had another strategy
// before is not shown.
type simple struct{}

func (simple) pick(c *memory.Chat, turns []memory.Turn, l memory.Limits) selection {
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

// hybrid is summary beside the messages that are to stay word for word. Those have a third of the prompt's
// budget to themselves, whether they need it or not, so that the tail does not shift when one is pinned.
type hybrid struct{}

func (hybrid) pick(c *memory.Chat, turns []memory.Turn, l memory.Limits) selection {
	room := l.KeptRoom()
	l.PromptTokenBudget -= room
	s := summary{}.pick(c, turns, l)
	s.keptBudget = room
	s.keep(keepable(c.Kept, s.unseen))
	return s
}

// keepable gives the pinned and important messages that are not shown anyway: those the brief covers, and
// those of turns that have no room.
func keepable(covered []memory.Message, unseen []memory.Turn) []memory.Message {
	all := slices.Clone(covered)
	for _, t := range unseen {
		all = append(all, t.Messages...)
	}
	return slices.DeleteFunc(all, func(m memory.Message) bool { return !m.Keeps() || m.Blank() })
}

// keep takes what fits into the budget: pinned before important, then the more important, then the newer. The
// first one is clipped rather than left out. What is taken is in seq order.
func (s *selection) keep(messages []memory.Message) {
	room := s.keptBudget
	slices.SortStableFunc(messages, beforeInKeeping)
	for _, m := range messages {
		if len(s.kept) == 0 && m.Tokens > room && room >= text.ClipReserve {
			m.Content, m.Tokens = text.Clip(m.Content, room)
			s.truncated = true
		}
		if s.keptTokens+m.Tokens > room {
			s.leftOut++
			continue
		}
		s.keptTokens += m.Tokens
		s.kept = append(s.kept, m)
	}
	slices.SortFunc(s.kept, func(a, b memory.Message) int { return cmp.Compare(a.Seq, b.Seq) })
}

func beforeInKeeping(a, b memory.Message) int {
	if a.Pinned != b.Pinned {
		if a.Pinned {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(b.Importance, a.Importance), cmp.Compare(b.Seq, a.Seq))
}
