package inspect

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/arcoscribe/throughline/internal/memory"
)

// page is a report in progress.
type page struct{ strings.Builder }

// line adds one line. The caller passes foreign text through printable.
func (p *page) line(format string, args ...any) {
	fmt.Fprintf(&p.Builder, format, args...)
	p.WriteByte('\n')
}

func (p *page) chats(chats []chatRow) {
	rows := [][]string{{"chat", "last message", "messages", "brief", "buffer", "title"}}
	for _, c := range chats {
		brief := "version " + strconv.FormatInt(c.Version, 10)
		if c.Stale {
			brief += ", stale"
		}
		rows = append(rows, []string{
			c.ID, ago(c.Quiet), strconv.FormatInt(c.Messages, 10), brief,
			fmt.Sprintf("%s, %d tokens", count(c.PendingTurns, "turn"), c.PendingTokens), printable(c.Title),
		})
	}
	p.table("", rows)
}

func (p *page) brief(chatID string, b briefRow) {
	p.line("Chat %s, %s: %s", chatID, count(b.Messages, "message"), printable(b.Title))
	p.line("  %s", rules(b))
	p.line("")
	if b.Version == 0 {
		p.line("BRIEF  none yet")
		return
	}
	p.line("BRIEF  version %d, %s, %d tokens, covers %s up to message %d",
		b.Version, ago(b.Age), b.BriefTokens, count(b.CoveredTurns, "turn"), b.CoveredSeq)
	if b.Stale {
		p.line("  stale: a message that it covers was edited or deleted, a rebuild is due")
		if b.Summary == "" {
			p.line("  its text is deleted, because it could not be written anew")
		}
	}
	for text := range strings.Lines(b.Summary) {
		p.line("  | %s", printable(strings.TrimRight(text, "\n")))
	}
}

// rules describes how the chat is remembered.
func rules(b briefRow) string {
	text := "strategy " + b.Strategy
	if b.MaxTurns != nil {
		text += ", at most " + count(*b.MaxTurns, "turn") + " out of the brief"
	}
	if b.ClearedSeq > 0 {
		text += fmt.Sprintf(", cleared up to message %d", b.ClearedSeq)
	}
	if b.Expired {
		text += ", expired"
	}
	return text
}

func (p *page) buffer(b briefRow, jobs []jobRow, limits memory.Limits) {
	p.line("")
	p.line("CHUNK BUFFER  %s, %d tokens, the oldest from %s", count(b.PendingTurns, "turn"), b.PendingTokens, ago(b.Oldest))
	p.line("  %s", distance(b, limits))
	if !b.CountersAgree {
		p.line("  the counters are wrong: they do not agree with the messages")
	}
	if b.FoldingNow {
		p.line("  a fold is at work")
	}
	if b.Pieces != nil {
		p.line("  %d of its %d pieces are done", *b.PiecesDone, *b.Pieces)
	}
	if b.RetryIn != nil {
		p.line("  put off after %s (%s), not tried again for %s", count(b.FoldFailures, "failure"), *b.FoldFailure, span(*b.RetryIn))
	}
	for _, j := range jobs {
		text := fmt.Sprintf("job %s is %s, attempt %d", j.Kind, j.State, j.Attempt)
		if j.Failure != nil {
			text += ", last error: " + printable(*j.Failure)
		}
		p.line("  %s", text)
	}
}

// distance describes what the buffer lacks until a fold is due: more tokens than the threshold, and more turns than the
// tail, unless the chat's own settings differ.
func distance(b briefRow, limits memory.Limits) string {
	limits = limits.For(b.settings())
	tokens := limits.ChunkThreshold + 1 - b.BriefTokens - b.PendingTokens
	turns := limits.KRawTurns + 1 - b.PendingTurns
	switch {
	case b.Stale:
		return "a rebuild is due"
	case b.Strategy == string(memory.StrategySimple):
		return "it is never folded: the newest turns are shown, and nothing of the others"
	case memory.Due(b.BriefTokens, b.PendingTokens, b.PendingTurns, limits):
		return "a fold is due"
	case turns <= 0:
		return fmt.Sprintf("the next fold is %d tokens away", tokens)
	case tokens <= 0:
		return fmt.Sprintf("the next fold is %s away", count(turns, "turn"))
	}
	return fmt.Sprintf("the next fold is %d tokens and %s away", tokens, count(turns, "turn"))
}

func (b *briefRow) settings() memory.Settings {
	s := memory.Settings{Strategy: memory.StrategyName(b.Strategy)}
	if b.MaxTurns != nil {
		s.MaxTurns = *b.MaxTurns
	}
	return s
}

func (p *page) revisions(revisions []revisionRow) {
	p.line("")
	p.line("REVISIONS  newest first")
	if len(revisions) == 0 {
		p.line("  none yet")
	}
	for _, r := range revisions {
		p.line("  version %d, %s at %s: %s (messages %d to %d), %d to %d tokens, %s, %s, %d ms", r.Version, r.Kind,
			r.CreatedAt.UTC().Format(time.RFC3339), count(r.Turns, "turn"), r.SeqFrom, r.SeqTo,
			r.TokensBefore, r.TokensAfter, printable(r.Model), printable(r.PromptRef), r.DurationMs)
		if r.Redacted {
			p.line("    redacted: a later rebuild took its words away")
		}
		for _, sentence := range r.Removed {
			p.line("    - %s", printable(sentence))
		}
		for _, sentence := range r.Added {
			p.line("    + %s", printable(sentence))
		}
	}
}

func (p *page) replies(replies []replyRow) {
	p.line("")
	p.line("RECEIPTS  what the latest replies were shown, newest first")
	if len(replies) == 0 {
		p.line("  none yet")
		return
	}
	rows := [][]string{{"turn", "message", "status", "variant", "brief", "bridge", "tail", "dropped", "tokens in/cached/out"}}
	for _, r := range replies {
		dropped := number(r.DroppedTurns)
		if r.Truncated {
			dropped += ", truncated"
		}
		rows = append(rows, []string{
			strconv.FormatInt(r.Turn, 10), r.ID, r.Status, printable(r.Variant),
			"version " + number(r.BriefVersion) + ", " + number(r.BriefTokens) + " tokens",
			number(r.BridgeTurns) + " turns, " + number(r.BridgeTokens) + " tokens",
			number(r.TailTurns) + " turns, " + number(r.TailTokens) + " tokens",
			dropped,
			number(r.InputTokens) + "/" + number(r.CachedTokens) + "/" + number(r.OutputTokens),
		})
	}
	p.table("  ", rows)
}

func (p *page) memories(memories []memoryRow, unread []unreadRow) {
	p.line("")
	p.line("MEMORIES  what its user is remembered for that was said here, oldest first")
	if len(memories) == 0 {
		p.line("  none yet")
	}
	for _, m := range memories {
		p.line("  %s  (%s)", printable(m.Content), strings.Join(m.remarks(), ", "))
	}
	for _, u := range unread {
		p.line("  not read yet: %s: %s", count(u.Turns, "turn"), printable(u.Reason))
	}
}

// remarks are what there is to know of a memory besides its content.
func (m *memoryRow) remarks() []string {
	remarks := []string{m.Kind, m.Status, fmt.Sprintf("confidence %.2f", m.Confidence), "said in " + count(m.Said, "message")}
	for _, mark := range []struct {
		name string
		on   bool
	}{{"pinned", m.Pinned}, {"edited", m.Edited}} {
		if mark.on {
			remarks = append(remarks, mark.name)
		}
	}
	if m.ValidFrom != nil {
		remarks = append(remarks, "since "+m.date(*m.ValidFrom))
	}
	if m.ValidTo != nil {
		remarks = append(remarks, "until "+m.date(*m.ValidTo))
	}
	if m.Successor != nil {
		remarks = append(remarks, "now: "+printable(*m.Successor))
	}
	return remarks
}

// date formats a time as precisely as it is known.
func (m *memoryRow) date(t time.Time) string {
	layout := time.DateOnly
	if m.ValidPrecision != nil {
		layout = map[string]string{"year": "2006", "month": "2006-01"}[*m.ValidPrecision]
	}
	if layout == "" {
		layout = time.DateOnly
	}
	return t.UTC().Format(layout)
}

// table writes rows in columns; the first row is their heading.
func (p *page) table(indent string, rows [][]string) {
	columns := tabwriter.NewWriter(p, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(columns, indent+strings.Join(row, "\t"))
	}
	_ = columns.Flush() // writes into memory
}

// printable makes foreign text safe for a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, text)
}

func number(n *int64) string {
	if n == nil {
		return "?"
	}
	return strconv.FormatInt(*n, 10)
}

func count[N int | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// ago formats an age in the largest unit that fits.
func ago(seconds *float64) string {
	switch {
	case seconds == nil:
		return "never"
	case *seconds < 60:
		return "just now"
	}
	return span(*seconds) + " ago"
}

// span formats a duration in the largest unit that fits.
func span(seconds float64) string {
	for _, unit := range []struct {
		name    string
		seconds float64
	}{{"day", 86400}, {"hour", 3600}, {"minute", 60}} {
		if seconds >= unit.seconds {
			return count(int(seconds/unit.seconds), unit.name)
		}
	}
	return "a moment"
}
