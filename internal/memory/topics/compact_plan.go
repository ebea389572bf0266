package topics

import (
	"cmp"
	"slices"

	"github.com/arcoscribe/throughline/internal/memory"
)

// Plan is what a compaction does.
type Plan struct {
	// Upto is the last message that is to be packed, if Pack is set, and in the summary, if Summarize is.
	Upto            int64
	Pack, Summarize bool
	// Summary is where the summary goes on, SummarySeq the last message that it holds, and New those to add to it.
	Summary       string
	SummaryTokens int
	SummarySeq    int64
	New           []memory.Message
}

// planOf decides what a topic needs; false for nothing. All but the last messages are packed of one that has too many
// active ones. One that the conversation has returned to stays whole while it is talked about. What is stale is made again
// from the first message on. A summary that an earlier compaction had to do without catches up, and so does that of a topic
// which was archived before its compaction.
func planOf(s *CompactSnapshot, settings Settings) (Plan, bool) {
	if s.State == Merged {
		return Plan{}, false
	}
	p := Plan{Upto: s.CompactedSeq, Pack: true, Summary: s.Summary, SummaryTokens: s.SummaryTokens, SummarySeq: s.SummarySeq}
	stays := s.Rehydrated && s.Current
	switch {
	case s.Stale:
		p.Upto, p.Pack, p.Summarize = s.target(settings), !stays, true
		p.Summary, p.SummaryTokens, p.SummarySeq = "", 0, 0
	case s.State == Archived:
		// It faded before all that was too much of it was summarized.
		p.Summarize = settings.OverLimit(s.unsummarized(s.SummarySeq))
	case settings.OverLimit(s.active()) && !stays:
		p.Upto, p.Summarize = max(p.Upto, s.target(settings)), true
	default:
		p.Summarize = s.SummarySeq < s.CompactedSeq
	}
	if p.Summarize {
		p.New = between(s.Messages, p.SummarySeq, p.Upto)
	}
	return p, p.Summarize
}

// target returns the last of the messages that are packed of a topic with too many, 0 of one that has few enough.
func (s *CompactSnapshot) target(settings Settings) int64 {
	keep := settings.KeepMessages
	if s.State == Archived {
		keep = 0
	} else if !settings.OverLimit(len(s.Messages)) {
		return 0
	}
	if n := len(s.Messages) - keep; n > 0 {
		return s.Messages[n-1].Seq
	}
	return 0
}

// active returns how many messages are not packed.
func (s *CompactSnapshot) active() int {
	return len(s.Messages) - len(upto(s.Messages, s.CompactedSeq))
}

// unsummarized returns how many messages are not in a summary of those up to seq.
func (s *CompactSnapshot) unsummarized(seq int64) int {
	return len(s.Messages) - len(upto(s.Messages, seq))
}

// upto returns the messages up to one, which are in order.
func upto(messages []memory.Message, seq int64) []memory.Message {
	n, _ := slices.BinarySearchFunc(messages, seq+1, func(m memory.Message, seq int64) int { return cmp.Compare(m.Seq, seq) })
	return messages[:n]
}

// between returns the messages after one, up to another.
func between(messages []memory.Message, after, last int64) []memory.Message {
	return upto(messages[len(upto(messages, after)):], last)
}
