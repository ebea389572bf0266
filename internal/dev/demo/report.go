package demo

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"
)

// earlyTurn is the turn whose memory is compared with that of the last turn.
const earlyTurn = 50

// report prints the summary.
func report(out io.Writer, s Summary, o Options) error {
	var w strings.Builder
	writeReport(&w, s, o)
	_, err := io.WriteString(out, w.String())
	return err
}

func writeReport(w io.Writer, s Summary, o Options) {
	if s.Interrupted {
		fmt.Fprintf(w, "\nInterrupted: this is what there is so far.\n")
	}
	if s.ID == uuid.Nil {
		fmt.Fprintln(w, "\nNo chat was started.")
		return
	}
	if o.DatabaseURL != "" {
		writeBrief(w, s.Chat)
		writeRevisions(w, s.Revisions)
	}
	writeChart(w, s.Chat)
	writeTotals(w, s)
	writeCoverage(w, s.Chat)
	writeOthers(w, s.Others)
	writeRecall(w, s.Recall)
	fmt.Fprintf(w, "\nLook further:  make inspect CHAT=%s\n               %s/river/  (the jobs, in River UI)\n", s.ID, o.URL)
}

func heading(w io.Writer, text string) { fmt.Fprintf(w, "\n%s\n\n", text) }

func writeBrief(w io.Writer, c Chat) {
	if c.Brief.Text == "" {
		heading(w, "The brief is still empty: nothing had to be folded yet.")
	} else {
		heading(w, fmt.Sprintf("The brief, version %d: %s, covers messages 1 to %d (%s after it)",
			c.Brief.Version, count(c.Brief.Tokens, "token"), c.Brief.CoveredSeq, count(c.Brief.PendingTurns, "turn")))
		writeWrapped(w, "  │ ", c.Brief.Text, width)
	}
	if c.PendingFold != "" {
		fmt.Fprintf(w, "\n  A fold is still pending (%s), so this brief is not the last word.\n", c.PendingFold)
	}
}

func writeRevisions(w io.Writer, revisions []Revision) {
	if len(revisions) == 0 {
		return
	}
	heading(w, "Its revisions")
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "  version\tkind\tturns\tmessages\ttheir tokens\tbrief before\tafter\tms\t  by")
	for _, r := range revisions {
		fmt.Fprintf(table, "%d\t%s\t%d\t%d–%d\t%s\t%s\t%s\t%s\t  %s (%s)\n", r.Version, r.Kind, r.Turns, r.SeqFrom, r.SeqTo,
			grouped(r.TurnsTokens), grouped(r.TokensBefore), grouped(r.TokensAfter), grouped(int(r.Took.Milliseconds())), clean(r.Model), r.PromptMode)
	}
	_ = table.Flush() // writes into memory
}

func writeChart(w io.Writer, c Chat) {
	memory, history := c.series()
	if len(memory) == 0 {
		return
	}
	heading(w, "Tokens of the past that each reply was given:  █ memory (brief, bridge, tail)  ░ the whole history")
	fmt.Fprint(w, chart(memory, history, width), turnAxis(len(memory), width))
	fmt.Fprintf(w, "\n%*s %s\n", chartMargin-1, "memory", sparkline(memory, width))
	fmt.Fprintf(w, "%*s from 0 to %s\n", chartMargin-1, "alone,", count(c.Totals().Peak, "token"))
}

func writeTotals(w io.Writer, s Summary) {
	if len(s.Turns) == 0 {
		return
	}
	sum, last := s.Totals(), s.Turns[len(s.Turns)-1]
	heading(w, fmt.Sprintf("Totals of %s, played in %s", count(len(s.Turns), "turn"), clock(s.Elapsed)))
	line := func(name, value string) { fmt.Fprintf(w, "  %-34s %s\n", name, value) }
	line("memory sent", count(sum.MemoryTokens, "token"))
	line("the whole history would have been", fmt.Sprintf("%s, %.1f times as many", count(sum.HistoryTokens, "token"), sum.Saving()))
	line("input as the model counted it", fmt.Sprintf("%s (with instructions and messages), %s of them cached", count(sum.InputTokens, "token"), grouped(sum.CachedTokens)))
	line("largest memory of any turn", count(sum.Peak, "token"))
	line(memoryGrowth(s.Turns, last))
	if s.FailedTurns > 0 {
		line("replies that failed", grouped(s.FailedTurns))
	}
	if s.FoldWaits > 0 {
		line("messages that waited for a fold", fmt.Sprintf("%s, %s together", grouped(s.FoldWaits), s.FoldWaited.Round(100*time.Millisecond)))
	}
	if s.Waits > 0 {
		line("the server asked to wait", fmt.Sprintf("%s, %s together", count(s.Waits, "time"), s.Waited.Round(time.Second)))
	}
}

// memoryGrowth compares the last turn's memory with an early one's.
func memoryGrowth(turns []Turn, last Turn) (name, value string) {
	if len(turns) <= earlyTurn {
		return fmt.Sprintf("memory at turn %d", last.Number), count(last.MemoryTokens(), "token")
	}
	early := turns[earlyTurn-1]
	return fmt.Sprintf("memory at turn %d, at turn %d", early.Number, last.Number),
		fmt.Sprintf("%s and %s tokens (the history: %s and %s)", grouped(early.MemoryTokens()), grouped(last.MemoryTokens()),
			grouped(early.HistoryTokens), grouped(last.HistoryTokens))
}

func writeCoverage(w io.Writer, c Chat) {
	sum := c.Totals()
	if len(c.Turns) == 0 {
		return
	}
	fmt.Fprintln(w)
	verdict := "No turn unseen."
	if sum.DroppedTurns > 0 || sum.UnseenTurns > 0 {
		verdict = fmt.Sprintf("Turns UNSEEN, added up over all replies: %d by the receipts (dropped_turns), %d by the check. Folds were late, or turns huge.",
			sum.DroppedTurns, sum.UnseenTurns)
	}
	how := "The check holds each receipt against the stored messages: an earlier turn is seen when it is at or before covered_through_seq, " +
		"or among the newest turns that bridge and tail count."
	if !c.CoverageChecked {
		how = "That is what the receipts say themselves; it was not held against the stored messages."
	}
	writeWrapped(w, "  ", verdict+" "+how, width)
	if sum.TruncatedReplies > 0 {
		writeWrapped(w, "  ", fmt.Sprintf("In %s a long message or the brief was shown shortened (truncated).", replies(sum.TruncatedReplies)), width)
	}
}

func replies(n int) string {
	if n == 1 {
		return "1 reply"
	}
	return grouped(n) + " replies"
}

func writeOthers(w io.Writer, others []Chat) {
	if len(others) == 0 {
		return
	}
	heading(w, "The chats played beside it")
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "  chat\tturns\tfailed\tmemory tokens\thistory tokens\tbrief\tunseen turns\t")
	for _, c := range others {
		sum := c.Totals()
		fmt.Fprintf(table, "  %s\t%d\t%d\t%s\t%s\tv%d\t%d\t\n", c.ID, len(c.Turns), c.FailedTurns,
			grouped(sum.MemoryTokens), grouped(sum.HistoryTokens), c.Brief.Version, sum.UnseenTurns)
	}
	_ = table.Flush() // writes into memory
}

func writeRecall(w io.Writer, r Recall) {
	if r.Question == "" {
		return
	}
	heading(w, fmt.Sprintf("And does it remember? (brief v%d, %s of memory)", r.Turn.Receipt.BriefVersion, count(r.Turn.MemoryTokens(), "token")))
	writeWrapped(w, "  > ", r.Question, width)
	writeWrapped(w, "  < ", strings.TrimSpace(r.Answer), width)
}
