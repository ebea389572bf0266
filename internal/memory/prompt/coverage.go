package prompt

import (
	"fmt"
	"strings"

	"github.com/arcoscribe/throughline/internal/memory"
)

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
	switch {
	case c.Brief.Dropped() && c.LostTurns() > 0:
		b.WriteString(" A message that the brief covered was changed: its old text is deleted, and it could not be written anew yet.")
	case c.Brief.Stale && r.BriefVersion > 0:
		b.WriteString(" A message that the brief covers was changed: it is being written anew, and claims no coverage until then.")
	}
	if c.Brief.ClearedSeq > 0 {
		fmt.Fprintf(b, " What was said up to message %d was left behind when the context was cleared.", c.Brief.ClearedSeq)
	}
}

func upTo(brief memory.Brief) string {
	if brief.CoveredSeq == 0 || brief.Dropped() {
		return ""
	}
	return fmt.Sprintf(" (up to message %d)", brief.CoveredSeq)
}

func turns(n int) string { return counted(n, "1 turn", "%d turns") }

func are(n int) string { return counted(n, "turn is", "%d turns are") }

func all(n int) string { return counted(n, "The one turn so far is", "All %d turns are") }
