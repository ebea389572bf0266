package terminal

import (
	"context"
	"slices"
	"strings"

	"github.com/arcoscribe/throughline/internal/client"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/streaming"
)

// approve asks about the calls that the user has to approve, until the reply ends or waits for an app.
func (t *talk) approve(ctx context.Context, reply client.Reply) (client.Reply, error) {
	for reply.End.Awaiting != nil {
		open := reply.End.Awaiting.Open
		at := slices.IndexFunc(open, func(call streaming.OpenCall) bool { return call.Approval })
		if at < 0 {
			break
		}
		yes, err := t.ask(ctx, "Let it call "+OneLine(open[at].Name)+"?")
		if err != nil {
			return reply, err
		}
		before := reply
		reply, err = t.hear(ctx, func(ctx context.Context, listener client.Listener) (client.Reply, error) {
			return t.Client.AnswerCall(ctx, before, open[at].CallID, map[string]any{"approved": yes}, listener)
		})
		if err != nil {
			return reply, err
		}
	}
	return reply, nil
}

// shownOfPart is how many characters of arguments and outputs are shown.
const shownOfPart = 300

// printPart prints what a reply holds beside its text, each on a line.
func (t *talk) printPart(part memory.Part) {
	switch part.Type {
	case memory.PartCall:
		t.print("\n[calls %s %s]\n", OneLine(part.Name), clip(string(part.Arguments)))
	case memory.PartResult:
		t.print("[%s] %s\n", OneLine(string(part.Status)), clip(string(part.Output)))
	case memory.PartReasoning:
		t.print("[thinks] %s\n", clip(part.Text))
	case memory.PartSource:
		t.print("[source] %s %s\n", OneLine(part.Title), OneLine(part.URL))
	case memory.PartApproval: // the user has just said so
	}
}

func clip(text string) string {
	line := []rune(OneLine(text))
	if len(line) > shownOfPart {
		return string(line[:shownOfPart]) + "…"
	}
	return string(line)
}

func namesOf(open []streaming.OpenCall) string {
	var names []string
	for _, call := range open {
		names = append(names, OneLine(call.Name))
	}
	return strings.Join(names, ", ")
}
