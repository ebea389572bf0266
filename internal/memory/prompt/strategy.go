package prompt

import (
	"cmp"
	"slices"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// strategy picks what a prompt shows of a chat's turns. What it leaves out it tells, so that nothing is
// ever unseen in silence: Coverage makes a sentence of that.
type strategy interface {
	pick(c *memory.Chat, l memory.Limits) picked
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

// picked is what a prompt shows. The turns of the buffer are in unseen, bridge and tail, in this order.
type picked struct {
	brief        memory.Brief // as shown: perhaps shortened; zero when none is
	kept         []memory.Message
	unseen       []memory.Turn
	bridge, tail []memory.Turn
	bridgeTokens int
	tailTokens   int
	keptTokens   int
	leftOut      int // pinned and important messages without room
	unread       int // turns that are unseen because they were too old to be read
	truncated    bool
}

// summary shows brief, bridge and tail.
type summary struct{}

func (summary) pick(c *memory.Chat, l memory.Limits) picked {
	s := choose(c.Brief.Tokens, c.Turns, l)
	p := picked{brief: c.Brief, unseen: c.Turns[:s.bridge], bridge: c.Turns[s.bridge:s.tail], bridgeTokens: s.bridgeTokens, unread: c.Unread()}
	p.fit(c.Turns[s.tail:], l.PromptTokenBudget)
	return p
}

// fit shortens brief and tail to a budget.
func (p *picked) fit(tail []memory.Turn, budget int) {
	f := fit(p.brief, tail, budget)
	p.brief.Summary, p.brief.Tokens = f.summary, f.summaryTokens
	p.tail, p.tailTokens, p.truncated = f.tail, f.tailTokens, p.truncated || f.truncated
}

// simple shows the newest turns that fit, and at least one. The brief of a chat that had another strategy
// before is not shown.
type simple struct{}

func (simple) pick(c *memory.Chat, l memory.Limits) picked {
	n, tokens := 0, 0
	for n < len(c.Turns) && (c.MaxTurns == 0 || n < c.MaxTurns) {
		tokens += c.Turns[len(c.Turns)-1-n].Tokens()
		if n > 0 && tokens > l.MaxHistoryTokens {
			break
		}
		n++
	}
	first := len(c.Turns) - n
	p := picked{unseen: c.Turns[:first], unread: c.Unread()}
	p.fit(c.Turns[first:], l.MaxHistoryTokens)
	return p
}

// hybrid is summary beside the messages that are to stay word for word. Those have a third of the prompt's
// budget to themselves, whether they need it or not, so that the tail does not shift when one is pinned.
type hybrid struct{}

func (hybrid) pick(c *memory.Chat, l memory.Limits) picked {
	room := l.KeptRoom()
	l.PromptTokenBudget -= room
	p := summary{}.pick(c, l)
	p.keep(keepable(c.Kept, p.unseen), room)
	return p
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

// keep takes what fits into room: pinned before important, then the more important, then the newer. The
// first one is clipped rather than left out. What is taken is in seq order.
func (p *picked) keep(messages []memory.Message, room int) {
	slices.SortStableFunc(messages, beforeInKeeping)
	for _, m := range messages {
		if len(p.kept) == 0 && m.Tokens > room && room >= text.ClipReserve {
			m.Content, m.Tokens = text.Clip(m.Content, room)
			p.truncated = true
		}
		if p.keptTokens+m.Tokens > room {
			p.leftOut++
			continue
		}
		p.keptTokens += m.Tokens
		p.kept = append(p.kept, m)
	}
	slices.SortFunc(p.kept, func(a, b memory.Message) int { return cmp.Compare(a.Seq, b.Seq) })
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
