// Package demo plays a conversation through a running server, as an app would: over HTTP, one message after the other,
// reading each reply as it streams. Then it prints the chat's brief, its versions, and the tokens of memory in each prompt
// beside those of the whole history; and three scenes: what the model does with tools, what one chat is told and the next one knows,
// and a topic that fades and comes back.
//
// It starts no server, mints no token, and reads neither the environment nor Postgres.
package demo

import (
	"context"
	_ "embed" // the built-in conversation
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/client"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/terminal"
)

// Options of Run. Client and Out are required.
type Options struct {
	// Client is of the user who talks.
	Client *client.Client
	// Conversation to play, JSON lines; nil for the built-in one, which the scenes follow. The caller closes it.
	Conversation io.Reader
	// Turns is the number of user messages to play; 0 for all.
	Turns int
	Out   io.Writer
}

// Turn is a message and the reply to it.
type Turn struct {
	Text    string
	Receipt prompt.Receipt
	// Parts are what the reply held beside its text.
	Parts []memory.Part
	// Memory and History are tokens: of what the prompt had of the past, and of all earlier messages.
	Memory, History int
}

type player struct {
	Options
	chat    uuid.UUID
	history int // tokens of all messages so far
	turns   []Turn
}

// Run plays the conversation and prints the report. When ctx ends early, it reports the turns so far.
func Run(ctx context.Context, o Options) error {
	messages, err := o.messages()
	if err != nil {
		return err
	}
	if err := o.Client.Reach(ctx); err != nil {
		return err
	}
	p := &player{Options: o}
	fmt.Fprintf(o.Out, "Playing %d messages. Replies stream; folds run beside them.\n", len(messages))
	began := time.Now()
	err = p.playAll(ctx, messages)
	if len(p.turns) == 0 {
		return err
	}
	reporting, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTimeout)
	defer cancel()
	err = errors.Join(err, p.report(reporting, time.Since(began)))
	if err != nil || o.Conversation != nil {
		return err
	}
	return errors.Join(o.askBack(ctx, p.chat), o.showTools(ctx), o.showMemories(ctx), o.showTopics(ctx))
}

const (
	// reportTimeout bounds the report; an interrupt does not shorten it.
	reportTimeout = 10 * time.Second
	// foldPatience is the longest wait for a fold, foldPoll the time between two looks.
	foldPatience = 10 * time.Second
	foldPoll     = 200 * time.Millisecond
	// progressLines is about how many lines say how far it is.
	progressLines = 12
)

func (p *player) playAll(ctx context.Context, messages []string) error {
	for n, content := range messages {
		turn, err := p.say(ctx, content)
		if err != nil {
			return fmt.Errorf("message %d: %w", n+1, err)
		}
		p.turns = append(p.turns, turn)
		size := text.Tokens(content) + text.Tokens(turn.Text)
		p.history += size
		if (n+1)%max(1, len(messages)/progressLines) == 0 || n+1 == len(messages) {
			fmt.Fprintf(p.Out, "  %d of %d: brief v%d, memory %d of %d tokens\n", n+1, len(messages), turn.Receipt.BriefVersion, turn.Memory, p.history)
		}
		if turn.Memory+size > memory.DefaultLimits().ChunkThreshold {
			if err := p.awaitFold(ctx, turn.Receipt.BriefVersion); err != nil {
				return err
			}
		}
	}
	return nil
}

// awaitFold waits for a while until a fold that is due has made a new version. Minutes pass between two messages of a
// person; without the wait the demo would measure folds that are late only because it is fast.
func (p *player) awaitFold(ctx context.Context, last int64) error {
	for patience := time.NewTimer(foldPatience); ; {
		now, err := p.Client.Memory(ctx, p.chat)
		if err != nil || now.Receipt.BriefVersion > last {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-patience.C:
			return nil
		case <-time.After(foldPoll):
		}
	}
}

// say sends one message to the chat, or begins it, and reads the reply.
func (p *player) say(ctx context.Context, content string) (Turn, error) {
	var words strings.Builder
	turn := Turn{History: p.history}
	listener := client.Listener{
		Text: func(piece string) { words.WriteString(piece) },
		Part: func(part memory.Part) { turn.Parts = append(turn.Parts, part) },
		Waiting: func(reason error, wait time.Duration) {
			if client.IsCode(reason, fault.OverRequestRateLimit) {
				fmt.Fprintf(p.Out, "  waiting for %s: the server takes only so many messages a minute\n", wait.Round(time.Second))
			}
		},
	}
	reply, err := p.Client.Send(ctx, client.Message{ChatID: p.chat, Content: content, WaitWhileBusy: true}, listener)
	for err == nil && reply.End.Awaiting != nil {
		reply, err = p.approve(ctx, reply, listener)
	}
	if reply.Started.ChatID != uuid.Nil {
		p.chat = reply.Started.ChatID
	}
	switch {
	case err != nil:
		return Turn{}, err
	case reply.End.Cancelled != nil:
		return Turn{}, errors.New("the reply was cancelled")
	case reply.End.Failed != nil:
		return Turn{}, fmt.Errorf("the reply failed (%s)", terminal.OneLine(reply.End.Failed.Code))
	}
	turn.Text = words.String()
	if err := json.Unmarshal(reply.End.Completed.Memory, &turn.Receipt); err != nil {
		return Turn{}, fmt.Errorf("the receipt cannot be read: %w", err)
	}
	turn.Memory = turn.Receipt.BriefTokens + turn.Receipt.BridgeTokens + turn.Receipt.TailTokens
	return turn, nil
}

// report prints the brief's versions, the latest one whole, and the bill.
func (p *player) report(ctx context.Context, took time.Duration) error {
	page, err := client.Ask[api.BriefRevisionPage](ctx, p.Client, http.MethodGet, client.ChatPath(p.chat, "/memory/revisions"), nil, nil)
	if err != nil {
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

//go:embed conversation.jsonl
var builtin string

// Line is a message of a conversation.
type Line struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// BuiltinConversation returns the conversation that is played by default.
func BuiltinConversation() ([]Line, error) { return readLines(strings.NewReader(builtin)) }

// messages returns what the user says in the conversation. Replies are the words of the server's own model.
func (o Options) messages() ([]string, error) {
	var conversation io.Reader = strings.NewReader(builtin)
	if o.Conversation != nil {
		conversation = o.Conversation
	}
	lines, err := readLines(conversation)
	if err != nil {
		return nil, fmt.Errorf("conversation: %w", err)
	}
	var messages []string
	for _, l := range lines {
		content := []rune(strings.TrimSpace(l.Content))
		if l.Role == "user" && len(content) > 0 && (o.Turns <= 0 || len(messages) < o.Turns) {
			messages = append(messages, strings.TrimSpace(string(content[:min(len(content), chat.MaxContent)])))
		}
	}
	if len(messages) == 0 {
		return nil, errors.New("the conversation has no user message with text")
	}
	return messages, nil
}

func readLines(r io.Reader) ([]Line, error) {
	var lines []Line
	for decoder := json.NewDecoder(r); ; {
		var next Line
		switch err := decoder.Decode(&next); {
		case errors.Is(err, io.EOF):
			return lines, nil
		case err != nil:
			return nil, fmt.Errorf("message %d: %w", len(lines)+1, err)
		}
		lines = append(lines, next)
	}
}
