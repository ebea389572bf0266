package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/arcoscribe/throughline/internal/dev/inspect"
	"github.com/arcoscribe/throughline/internal/terminal"
)

// billRows is about how many turns the token bill shows.
const billRows = 14

// Bill is what one prompt, or all of them, had or would have had of the past, and what the model counted, in tokens.
type Bill struct {
	// Memory is brief, bridge and tail. History is all earlier messages: the cost of sending them all.
	Memory, History int
	// Input is the whole prompt as the model counted it; Cached is the part of it that the model had cached.
	Input, Cached int
}

// report prints the chat's memory, if there is a database, and the token bill.
func (s *Summary) report(ctx context.Context, o Options) error {
	var out strings.Builder
	if s.Interrupted {
		fmt.Fprintln(&out, "\nInterrupted: this is what there is so far.")
	}
	if s.ChatID == uuid.Nil {
		fmt.Fprintln(&out, "\nNo chat was started.")
		_, err := io.WriteString(o.Out, out.String())
		return err
	}
	fmt.Fprintln(&out)
	var memoryErr error
	if o.DatabaseURL != "" {
		memoryErr = errors.Join(inspect.Print(ctx, &out, o.DatabaseURL, s.ChatID.String(), o.Limits), s.checkCoverage(ctx, o.DatabaseURL))
	}
	if len(s.Turns) > 0 {
		s.writeBill(&out)
	}
	for _, a := range s.Answers {
		fmt.Fprintf(&out, "\nAnd does it remember? (brief v%d, %s of memory, %s recalled)\n\n  > %s\n  < %s\n", a.Receipt.BriefVersion,
			count(a.Tokens.Memory, "token"), count(len(a.Receipt.Recalled), "turn"), terminal.OneLine(a.Question), strings.TrimSpace(terminal.Clean(a.Text)))
	}
	fmt.Fprintf(&out, "\nLook further:  make inspect CHAT=%s\n               %s/river/  (the jobs, in River UI)\n", s.ChatID, o.URL)
	_, err := io.WriteString(o.Out, out.String())
	if err == nil {
		err = memoryErr
	}
	return err
}

// writeBill writes the bill of some turns and of all together.
func (s *Summary) writeBill(out io.Writer) {
	fmt.Fprintf(out, "\nTOKEN BILL  %s, played in %s: what each prompt had of the past, beside the whole history\n", count(len(s.Turns), "turn"), s.Elapsed.Round(time.Second))
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', tabwriter.AlignRight)
	row := func(name string, b Bill) {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t\n", name, grouped(b.Memory), grouped(b.History), grouped(b.Input), grouped(b.Cached))
	}
	fmt.Fprintln(table, "turn\tmemory\twhole history\tmodel's input\tcached\t")
	var sum Bill
	peak, dropped := 0, 0
	for i, turn := range s.Turns {
		b := turn.Tokens
		sum = Bill{sum.Memory + b.Memory, sum.History + b.History, sum.Input + b.Input, sum.Cached + b.Cached}
		peak, dropped = max(peak, b.Memory), dropped+turn.Receipt.DroppedTurns
		if (i+1)%max(1, len(s.Turns)/billRows) == 0 || i == len(s.Turns)-1 {
			row(strconv.Itoa(turn.Number), b)
		}
	}
	row("all", sum)
	_ = table.Flush() // writes into memory
	fmt.Fprintf(out, "\n  The whole history would have been %.1f times as many tokens. The largest memory of any turn was %s.\n",
		float64(sum.History)/float64(max(1, sum.Memory)), count(peak, "token"))
	if s.FailedTurns > 0 {
		fmt.Fprintf(out, "  Replies that failed: %d.\n", s.FailedTurns)
	}
	source, unseen := "by the receipts", dropped
	if s.CoverageChecked {
		source, unseen = "checked against the stored messages", max(dropped, s.UnseenTurns)
	}
	if unseen == 0 {
		fmt.Fprintf(out, "  No turn was left out: each was in the brief or in the prompt of every later reply (%s).\n", source)
		return
	}
	fmt.Fprintf(out, "  Turns LEFT OUT of prompts, added up over all replies: %d by the receipts", dropped)
	if s.CoverageChecked {
		fmt.Fprintf(out, ", %d by the stored messages", s.UnseenTurns)
	}
	fmt.Fprintln(out, ". Folds were late, or turns huge.")
}

var english = message.NewPrinter(language.English)

// grouped formats a number with commas between the thousands.
func grouped(n int) string { return english.Sprint(n) }

// count formats a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return grouped(n) + " " + thing + "s"
}
