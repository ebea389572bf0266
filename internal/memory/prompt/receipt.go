package prompt

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/google/uuid"
)

// Receipt describes the content of a prompt. Its JSON is part of the HTTP contract.
type Receipt struct {
	BriefVersion int64 `json:"brief_version"`
	// BriefTokens is the size of the brief as shown, 0 when none is shown.
	BriefTokens int `json:"brief_tokens"`
	// CoveredThroughSeq is 0 where the brief cannot be read, because it then claims no coverage.
	CoveredThroughSeq int64 `json:"covered_through_seq"`
	BridgeTurns       int   `json:"bridge_turns"`
	TailTurns         int   `json:"tail_turns"`
	TailTokens        int   `json:"tail_tokens"`
	BridgeTokens      int   `json:"bridge_tokens"`
	// DroppedTurns counts the turns that are in neither brief nor prompt: 0 unless folds are late, turns are huge or
	// the brief went back.
	// In a simple chat those are all older turns.
	DroppedTurns int                 `json:"dropped_turns" description:"Turns that were neither in the brief nor in the prompt."`
	Truncated    bool                `json:"truncated" description:"Whether the brief or a message had to be shortened."`
	Strategy     memory.StrategyName `json:"strategy" description:"The chat's memory strategy."`
	// KeptMessages are the pinned and important messages that are shown beside the turns, LeftOutMessages
	// those without room.
	KeptMessages    int `json:"kept_messages,omitempty" description:"Pinned and important messages shown beside the turns."`
	KeptTokens      int `json:"kept_tokens,omitempty"`
	LeftOutMessages int `json:"left_out_messages,omitempty"`
	// Files are the contents that are shown, LeftOutFiles those without room.
	Files        int `json:"files,omitempty" description:"Files that were shown."`
	FileTokens   int `json:"file_tokens,omitempty"`
	LeftOutFiles int `json:"left_out_files,omitempty"`
	Sources      int `json:"sources,omitempty" description:"Sources of the question that were shown."`
	// BriefUnreadable reports that the stored brief is malformed and was not shown.
	BriefUnreadable bool `json:"brief_unreadable,omitempty"`
	// Recalled are the first messages of the turns that were recalled for the question, and RecallTokens their tokens.
	// Recall says how they were found: words or meaning; none when there was nothing to recall, and late or failed when
	// the lookup was. All three are absent where recall is off.
	Recalled []int64 `json:"recalled,omitzero" nullable:"false" description:"The seqs with which the earlier turns begin that were quoted for the question."`
	// RecalledElsewhere are the turns of the user's other chats that were recalled. There are none beside turns of the chat.
	RecalledElsewhere []ChatTurn `json:"recalled_elsewhere,omitempty" nullable:"false" doc:"recalled_elsewhere"`
	RecallTokens      *int       `json:"recall_tokens,omitempty" nullable:"false"`
	Recall            string     `json:"recall,omitempty" enum:"words,meaning,none,late,failed,denied" doc:"recall"`
	// Memories are the user's memories that were shown, and MemoryTokens their tokens. Both are absent where the chat shows
	// none: where long-term memory is off, for the user or the chat.
	Memories     []uuid.UUID `json:"memories,omitzero" nullable:"false" doc:"receipt.memories"`
	MemoryTokens *int        `json:"memory_tokens,omitempty" nullable:"false"`
	// Topic is the topic that was named because the conversation has come back to it; uuid.Nil for none.
	Topic uuid.UUID `json:"topic,omitzero" nullable:"false" doc:"topic"`
	// Sections are the accounts of the prompt's sections, in their order, with those that are missing because their
	// items had no room or could not be retrieved.
	Sections []Account `json:"sections" nullable:"false" doc:"sections"`
}

func receiptOf(c *memory.Chat, s *selection, sections []Account) Receipt {
	r := Receipt{
		BriefVersion: s.brief.Version, BriefTokens: s.brief.Tokens, CoveredThroughSeq: s.brief.CoveredSeq,
		BridgeTurns: len(s.bridge), BridgeTokens: s.bridgeTokens, TailTurns: len(s.tail), TailTokens: s.tailTokens,
		DroppedTurns: s.dropped(), Truncated: len(s.cuts) > 0, Strategy: cmp.Or(c.Strategy, memory.StrategySummary),
		KeptMessages: len(s.kept), KeptTokens: s.keptTokens, LeftOutMessages: s.keptLeftOut,
		Files: s.files.shown, FileTokens: s.files.tokens, LeftOutFiles: s.files.leftOut,
		Sources:         len(s.sources.texts),
		BriefUnreadable: c.Brief.Unreadable, Sections: append([]Account{}, sections...),
	}
	if c.Brief.Unreadable {
		r.CoveredThroughSeq = 0
	}
	for _, section := range s.question.Retrieved {
		switch section.Name {
		case "memories":
			r.Memories, r.MemoryTokens = append([]uuid.UUID{}, section.IDs...), new(section.Tokens)
		case "topic":
			if len(section.IDs) > 0 {
				r.Topic = section.IDs[0]
			}
		case "recall":
			r.Recalled, r.RecallTokens = append([]int64{}, section.Seqs...), new(section.Tokens)
			r.RecalledElsewhere = section.Elsewhere
			r.Recall = cmp.Or(section.Failure, section.How, "none")
		}
	}
	return r
}

// dropped returns how many turns are in neither brief nor prompt.
func (s *selection) dropped() int { return len(s.unseen) + s.unread }

// Section returns the account of a section, the zero Account where there is none.
func (r *Receipt) Section(name string) Account {
	for _, a := range r.Sections {
		if a.Name == name {
			return a
		}
	}
	return Account{}
}

// Coverage returns one sentence, or a few where something is wrong, about where the turns of a chat are: in the brief,
// word for word in the prompt of that receipt, or in neither.
func Coverage(c memory.Chat, r Receipt) string {
	shown, inBrief := r.BridgeTurns+r.TailTurns, c.BriefTurns()
	total := inBrief + shown + r.DroppedTurns
	var b strings.Builder
	switch {
	case r.BriefUnreadable:
		fmt.Fprintf(&b, "The stored brief cannot be read; the last %s word for word in the prompt.", are(shown))
	case total == 0:
		b.WriteString("There is nothing to remember yet.")
	case c.Strategy == memory.StrategySimple:
		b.WriteString(windowCoverage(total, shown))
	case r.DroppedTurns > 0:
		fmt.Fprintf(&b, "Of %s %d are in the brief%s and %d word for word in the prompt; %d are in neither until the next fold.",
			turns(total), inBrief, upTo(c.Brief), shown, r.DroppedTurns)
	case inBrief == 0:
		b.WriteString(all(total) + " word for word in the prompt.")
	default:
		fmt.Fprintf(&b, "%s remembered: %d in the brief%s, %d word for word in the prompt.", all(total), inBrief, upTo(c.Brief), shown)
	}
	writeRemarks(&b, c, r)
	return b.String()
}

func windowCoverage(total, shown int) string {
	if shown == total {
		return all(total) + " word for word in the prompt."
	}
	return fmt.Sprintf("The last %d of %s are word for word in the prompt; the %d before are in no summary.", shown, turns(total), total-shown)
}

func writeRemarks(b *strings.Builder, c memory.Chat, r Receipt) {
	for i := range parts {
		if parts[i].remark != nil {
			b.WriteString(parts[i].remark(r.Section(parts[i].name)))
		}
	}
	if r.Truncated {
		b.WriteString(" Something had to be shortened to fit.")
	}
	if c.Brief.ClearedSeq > 0 {
		fmt.Fprintf(b, " What was said up to message %d was left behind when the context was cleared.", c.Brief.ClearedSeq)
	}
}

func upTo(brief memory.Brief) string {
	if brief.CoveredSeq == 0 {
		return ""
	}
	return fmt.Sprintf(" (up to message %d)", brief.CoveredSeq)
}

func turns(n int) string { return counted(n, "1 turn", "%d turns") }

func are(n int) string { return counted(n, "turn is", "%d turns are") }

func all(n int) string { return counted(n, "The one turn so far is", "All %d turns are") }
