package demo

import (
	"bytes"
	"context"
	_ "embed" // the conversation about a bow
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/client"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/terminal"
	"github.com/arcoscribe/throughline/internal/transfer"
	"github.com/arcoscribe/throughline/internal/transfer/bundle"
)

// tell says something in a chat, or in a new one (uuid.Nil), and prints both sides.
func (o Options) tell(ctx context.Context, chat uuid.UUID, content string) (uuid.UUID, Turn, error) {
	p := &player{Options: o, chat: chat}
	turn, err := p.say(ctx, content)
	if err == nil {
		fmt.Fprintf(o.Out, "  > %s\n  < %s\n", content, terminal.OneLine(turn.Text))
	}
	return p.chat, turn, err
}

// builtinQuestions are about the beginning of the built-in conversation.
var builtinQuestions = []string{"Which bar goes to C sharp?", "What did the set of strings with a titanium A cost?"}

func (o Options) askBack(ctx context.Context, chat uuid.UUID) error {
	fmt.Fprintln(o.Out, "\nRECALL  what the brief left out")
	for _, question := range builtinQuestions {
		_, turn, err := o.tell(ctx, chat, question)
		if err != nil {
			return err
		}
		fmt.Fprintf(o.Out, "    (%d turns recalled)\n", len(turn.Receipt.Recalled))
	}
	return nil
}

// toolQuestions ask for the demo tools of make run: dice, and a postcard that has to be approved.
var toolQuestions = []string{"Roll two dice.", "Send a postcard to Anna: Greetings from the demo!"}

// showTools has the model call tools.
func (o Options) showTools(ctx context.Context) error {
	fmt.Fprintln(o.Out, "\nTOOLS  what the model does, and what it asks for first")
	chat := uuid.Nil
	for _, question := range toolQuestions {
		next, turn, err := o.tell(ctx, chat, question)
		if err != nil {
			return err
		}
		chat = next
		for _, part := range turn.Parts {
			switch part.Type {
			case memory.PartCall:
				fmt.Fprintf(o.Out, "    (called %s %s)\n", terminal.OneLine(part.Name), terminal.OneLine(string(part.Arguments)))
			case memory.PartApproval:
				fmt.Fprintln(o.Out, "    (approved by the demo)")
			case memory.PartResult:
				fmt.Fprintf(o.Out, "    (%s: %s)\n", part.Status, terminal.OneLine(string(part.Output)))
			case memory.PartReasoning, memory.PartSource: // said beside the text
			}
		}
		if len(turn.Parts) == 0 {
			fmt.Fprintln(o.Out, "    No tool was called: the server has other tools, or none.")
		}
	}
	return nil
}

// approve approves the first call that waits for its user.
func (p *player) approve(ctx context.Context, reply client.Reply, listener client.Listener) (client.Reply, error) {
	for _, call := range reply.End.Awaiting.Open {
		if call.Approval {
			return p.Client.AnswerCall(ctx, reply, call.CallID, map[string]any{"approved": true}, listener)
		}
	}
	return reply, errors.New("the reply waits for an app")
}

// introduction is how somebody introduces themselves, and everydayQuestions are what they ask in their next chat.
const introduction = "My name is Rosa Lindqvist, I live in Freiburg and I am allergic to walnuts. I play the cello, and my dog is called Bruno."

var everydayQuestions = []string{
	"What is my name?", "Where do I live?", "What is my dog called?", "Which instrument do I play?", "What am I allergic to?",
}

// showMemories introduces somebody to one chat, asks the next one, and has something forgotten.
func (o Options) showMemories(ctx context.Context) error {
	fmt.Fprintln(o.Out, "\nMEMORIES  what one chat is told, the next one knows")
	told, _, err := o.tell(ctx, uuid.Nil, introduction)
	if err != nil {
		return err
	}
	read, err := client.Ask[api.Extraction](ctx, o.Client, http.MethodPost, client.ChatPath(told, "/extract"), nil, map[string]any{})
	if client.IsCode(err, fault.MemoryOff) {
		fmt.Fprintln(o.Out, "    The server keeps no memories (LONG_TERM_MEMORY=false).")
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "    (%d memories added)\n", read.Added)
	next := uuid.Nil
	for _, question := range everydayQuestions {
		var turn Turn
		if next, turn, err = o.tell(ctx, next, question); err != nil {
			return err
		}
		if len(turn.Receipt.Memories) == 0 {
			return errors.New("what one chat was told did not reach the next one")
		}
	}
	found, err := o.Client.ProposeForgetting(ctx, "walnuts")
	if err != nil {
		return err
	}
	forgotten, err := o.Client.Forget(ctx, found.Token)
	if err == nil {
		fmt.Fprintf(o.Out, "  forget \"walnuts\": %d forgotten\n", forgotten)
	}
	return err
}

//go:embed topics.jsonl
var wandering string

// The conversation that wanders: it began long ago, and its first topic has faded by now.
const (
	wanderingAge   = 75 * 24 * time.Hour
	wanderingGap   = 30 * time.Hour // between two turns
	wanderingTurns = 4              // that may be outside the brief
	topicsPatience = time.Minute
	bowTitle       = "Cello bow"
	bowQuestion    = "Back to my cello bow: which rosin did I choose for it?"
)

// showTopics imports a chat that wandered off long ago, and comes back to its first topic.
func (o Options) showTopics(ctx context.Context) error {
	fmt.Fprintln(o.Out, "\nTOPICS  what a chat was about, forgotten and found again")
	chat, err := o.importWandering(ctx)
	if err != nil {
		return err
	}
	if err := o.awaitBow(ctx, chat, "archived"); err != nil {
		return err
	}
	_, turn, err := o.tell(ctx, chat, bowQuestion)
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "    (%d turns recalled)\n", len(turn.Receipt.Recalled))
	return o.awaitBow(ctx, chat, "active")
}

// awaitBow waits until the topic of the bow is in a state. Without an embedder all turns are one topic: then it says so.
func (o Options) awaitBow(ctx context.Context, chat uuid.UUID, state string) error {
	ctx, cancel := context.WithTimeout(ctx, topicsPatience)
	defer cancel()
	for {
		topics, err := o.Client.Topics(ctx, chat, nil)
		isThere := func(t api.Topic) bool { return strings.HasPrefix(t.Title, bowTitle) && t.State == state }
		if at := slices.IndexFunc(topics, isThere); err == nil && at >= 0 {
			t := topics[at]
			fmt.Fprintf(o.Out, "  %d topics; %q is %s, priority %.2f, half-life %g days\n",
				len(topics), terminal.OneLine(t.Title), t.State, t.Priority, t.HalfLifeDays)
			return nil
		}
		select {
		case <-ctx.Done():
			if len(topics) < 2 {
				fmt.Fprintln(o.Out, "    The server has no topics, or no embedder that tells texts apart.")
				return nil
			}
			return fmt.Errorf("the topic of the bow is not %s: %w", state, errors.Join(err, context.Cause(ctx)))
		case <-time.After(foldPoll):
		}
	}
}

func (o Options) importWandering(ctx context.Context) (uuid.UUID, error) {
	lines, err := readLines(strings.NewReader(wandering))
	if err != nil {
		return uuid.Nil, err
	}
	file, err := wanderingBundle(lines, time.Now().Add(-wanderingAge))
	if err != nil {
		return uuid.Nil, err
	}
	raw, err := o.Client.Import(ctx, bytes.NewReader(file), func(transfer.Progress) {})
	if err != nil {
		return uuid.Nil, err
	}
	var done transfer.Result
	if err := json.Unmarshal(raw, &done); err != nil || len(done.Chats) != 1 {
		return uuid.Nil, errors.Join(errors.New("the import's answer cannot be read"), err)
	}
	fmt.Fprintf(o.Out, "  imported %d messages from %s on\n", done.Messages, time.Now().Add(-wanderingAge).Format("2 January 2006"))
	return done.Chats[0].ChatID, nil
}

// wanderingBundle returns the conversation as a file for the import.
func wanderingBundle(lines []Line, began time.Time) ([]byte, error) {
	var file bytes.Buffer
	to := bundle.NewLines(&file)
	turns, remember := wanderingTurns, false
	err := to.Begin(time.Now(), bundle.Chat{
		ID: uuid.NewString(), Title: "A bow, and everything else", MaxTurns: &turns, Remember: &remember, CreatedAt: began,
	})
	seq := int64(0)
	for n := 0; n+1 < len(lines); n += 2 {
		at := began.Add(time.Duration(n/2) * wanderingGap)
		for _, prefix := range []string{"", "And once more: "} { // two turns make a topic
			for _, line := range lines[n : n+2] {
				seq++
				at = at.Add(time.Second)
				message := bundle.Message{ID: uuid.NewString(), Seq: seq, Role: line.Role, Content: prefix + line.Content, CreatedAt: at}
				err = errors.Join(err, to.Write(bundle.Record{Message: &message}))
			}
		}
	}
	err = errors.Join(err, to.End())
	return file.Bytes(), err
}
