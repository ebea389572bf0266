package demo

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/client"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/terminal"
)

// report prints the brief's versions, the latest one whole, and the bill.
func (p *player) report(ctx context.Context, took time.Duration) error {
	var page history.BriefRevisionPage
	if err := call(ctx, p.Client, http.MethodGet, client.ChatPath(p.chat, "/memory/revisions"), nil, nil, &page); err != nil {
		return err
	}
	fmt.Fprintf(p.Out, "\nBRIEF  %d versions\n", len(page.Revisions))
	for n, r := range page.Revisions {
		fmt.Fprintf(p.Out, "  version %d, %s: messages %d to %d, %d turns, %s, %d tokens read, %d written\n",
			r.Version, r.Kind, r.SeqFrom, r.SeqTo, r.Turns, terminal.OneLine(r.Model), r.InputTokens, r.OutputTokens)
		if n == 0 && r.Text != nil {
			for line := range strings.Lines(strings.TrimSpace(*r.Text)) {
				fmt.Fprintf(p.Out, "  | %s\n", terminal.OneLine(line))
			}
		}
	}
	p.bill(took)
	fmt.Fprintf(p.Out, "\nLook further: make inspect CHAT=%s\n", p.chat)
	return nil
}

// bill prints what each prompt had of the past, beside the whole history.
func (p *player) bill(took time.Duration) {
	fmt.Fprintf(p.Out, "\nTOKEN BILL  %d turns, played in %s\n", len(p.turns), took.Round(time.Second))
	memory, all, peak, dropped := 0, 0, 0, 0
	for _, turn := range p.turns {
		memory, all, peak = memory+turn.Memory, all+turn.History, max(peak, turn.Memory)
		dropped += turn.Receipt.DroppedTurns
	}
	fmt.Fprintf(p.Out, "  Memory was %d tokens in all, the largest of a turn %d. The whole history would have been %d, %.1f times as many.\n",
		memory, peak, all, float64(all)/float64(max(1, memory)))
	if dropped == 0 {
		fmt.Fprintln(p.Out, "  No turn was left out: each was in the brief or in the prompt of every later reply.")
		return
	}
	fmt.Fprintf(p.Out, "  Turns LEFT OUT of prompts, added up over all replies: %d. Folds were late, or turns huge.\n", dropped)
}
