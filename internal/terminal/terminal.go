// Package terminal is a conversation in a terminal: lines are sent to a server as messages, replies are printed as
// they stream, and lines that begin with a slash are commands. It uses only the server's API.
//
// Text from the server is cleaned before it is printed: see Cleaner.
package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/client"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/streaming"
)

// Options of Run. Client, Out and Interrupts are required.
type Options struct {
	Client *client.Client
	Out    io.Writer
	// Interrupts receives Ctrl-C while a reply streams; at the prompt Ctrl-C is a key.
	Interrupts <-chan os.Signal
	// ChatID is the chat to continue; uuid.Nil starts one with the first message.
	ChatID uuid.UUID
	// Temporary makes new chats of which nothing is remembered in others.
	Temporary bool
	// Model is the model variant; "" for the server's first.
	Model string
	// HistoryFile stores the typed lines; "" for none.
	HistoryFile string
}

const (
	promptText = "you> "
	hello      = "Say something, or /help. Ctrl-C stops a reply, Ctrl-D leaves.\n"
)

type talk struct {
	Options
	editor *editor
	chatID uuid.UUID
	last   uuid.UUID // the chat's last message that was shown; uuid.Nil for any
	// listed are the chats that /sessions showed last.
	listed []api.Chat
	// remembered are the memories that /memories showed last, versions the messages that /versions did.
	remembered []api.Memory
	versions   []uuid.UUID
}

// Run reads lines until Ctrl-D, /quit, or the end of the input or of ctx.
func Run(ctx context.Context, o Options) error {
	t := &talk{Options: o, editor: newEditor(o.HistoryFile)}
	defer t.editor.close()
	if o.HistoryFile != "" && t.editor.historyErr != nil {
		t.print("What you type is not kept: %v\n", t.editor.historyErr)
	}
	if o.ChatID != uuid.Nil {
		if err := t.load(ctx, o.ChatID); err != nil {
			return err
		}
	}
	t.print(hello)
	for {
		line, err := t.editor.prompt(ctx, promptText)
		switch {
		case errors.Is(err, io.EOF):
			t.print("\n")
			return nil
		case err != nil:
			return err
		}
		line = strings.TrimSpace(line)
		if line == "/quit" || line == "/exit" {
			return nil
		}
		if err := t.run(ctx, line); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			t.print("%s\n", OneLine(err.Error()))
		}
	}
}

// run sends a line or runs it as a command.
func (t *talk) run(ctx context.Context, line string) error {
	switch {
	case line == "":
		return nil
	case strings.HasPrefix(line, "//"):
		return t.say(ctx, line[1:])
	case strings.HasPrefix(line, "/"):
		return t.command(ctx, line)
	}
	return t.say(ctx, line)
}

func (t *talk) print(format string, args ...any) {
	fmt.Fprintf(t.Out, format, args...)
}

// told prints the result, unless there is an error.
func (t *talk) told(err error, format string, args ...any) error {
	if err == nil {
		t.print(format, args...)
	}
	return err
}

func (t *talk) say(ctx context.Context, content string) error {
	return t.deliver(ctx, client.Message{Content: content, ModelVariant: t.Model, Temporary: t.Temporary})
}

// deliver sends a message to the chat and prints the reply.
func (t *talk) deliver(ctx context.Context, message client.Message) error {
	message.ChatID, message.ClientMessageID = t.chatID, uuid.New()
	reply, err := t.send(ctx, message)
	if client.IsCode(err, fault.ChatExpired) {
		revived, reviveErr := t.offerRevival(ctx, t.chatID)
		if reviveErr != nil || !revived {
			return reviveErr
		}
		reply, err = t.send(ctx, message)
	}
	if err == nil {
		reply, err = t.approve(ctx, reply)
	}
	if err != nil {
		return err
	}
	t.printEnd(reply)
	return nil
}

// errLeft means that the user did not wait for the reply.
var errLeft = errors.New("left alone; the reply goes on, and /history shows it")

// send sends a message once.
func (t *talk) send(ctx context.Context, message client.Message) (client.Reply, error) {
	return t.hear(ctx, func(ctx context.Context, listener client.Listener) (client.Reply, error) {
		return t.Client.Send(ctx, message, listener)
	})
}

// hear prints a reply while it comes. The first Ctrl-C stops the reply, the second one stops waiting for that.
func (t *talk) hear(ctx context.Context, from func(context.Context, client.Listener) (client.Reply, error)) (client.Reply, error) {
	waiting, leave := context.WithCancel(ctx)
	defer leave()
	started, ended := make(chan uuid.UUID, 1), make(chan struct{})
	watched := make(chan struct{})
	t.forgetInterrupts()
	go func() {
		defer close(watched)
		t.watch(waiting, started, ended, leave)
	}()
	var cleaner Cleaner
	reply, err := from(waiting, client.Listener{
		Part:    t.printPart,
		Started: func(event streaming.Started) { t.chatID = event.ChatID; started <- event.ChatID },
		Text:    func(piece string) { t.print("%s", cleaner.Clean(piece)) },
		Waiting: func(reason error, pause time.Duration) {
			t.print("(%s; trying again in %s)\n", OneLine(reason.Error()), pause.Round(time.Millisecond))
		},
	})
	close(ended)
	<-watched
	if err != nil && waiting.Err() != nil && ctx.Err() == nil {
		err = errLeft
	}
	if reply.Started.ChatID != uuid.Nil {
		t.chatID, t.last = reply.Started.ChatID, reply.Started.MessageID
	}
	return reply, err
}

// forgetInterrupts drops earlier interrupts, from when no reply was running.
func (t *talk) forgetInterrupts() {
	for {
		select {
		case <-t.Interrupts:
		default:
			return
		}
	}
}

// watch waits for Ctrl-C. A reply can be stopped once it has a chat.
func (t *talk) watch(ctx context.Context, started <-chan uuid.UUID, ended <-chan struct{}, leave func()) {
	select {
	case <-t.Interrupts:
	case <-ended:
		return
	}
	for {
		select {
		case chatID := <-started:
			started = nil
			// If this fails the reply goes on, and another Ctrl-C leaves it.
			_ = t.Client.Cancel(ctx, chatID)
		case <-t.Interrupts:
			leave()
			return
		case <-ended:
			return
		}
	}
}

func (t *talk) printEnd(reply client.Reply) {
	end := reply.End
	switch {
	case end.Cancelled != nil:
		t.print("\n(stopped; what was said is kept)\n")
	case end.Failed != nil:
		t.print("\n(the reply broke off: %s)\n", OneLine(end.Failed.Message))
	case end.Awaiting != nil:
		t.print("(waits for the app that has %s; your next message goes on without it)\n", namesOf(end.Awaiting.Open))
	case end.Completed.FinishReason != "stop":
		t.print("\n(the model ended early: %s)\n", OneLine(end.Completed.FinishReason))
	default:
		t.print("\n")
	}
}

func (t *talk) offerRevival(ctx context.Context, chatID uuid.UUID) (revived bool, err error) {
	yes, err := t.ask(ctx, "This chat has expired. Bring it back?")
	if err != nil || !yes {
		return false, err
	}
	_, err = t.Client.Change(ctx, chatID, map[string]any{"revive": true})
	return err == nil, err
}

// ask asks a question; every answer but y and yes is no.
func (t *talk) ask(ctx context.Context, question string) (bool, error) {
	answer, err := t.editor.ask(ctx, question+" [y/N] ", "")
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes", err
}

const (
	// maxPiped is the longest message in bytes: the API's limit in characters of 4 bytes.
	maxPiped = 4 * 32_000
	// stopTimeout bounds the request that stops a reply after an interrupt.
	stopTimeout = 5 * time.Second
)

// Once sends message, whose ChatID and ModelVariant may be set, with the whole of in as its content, and prints the
// reply and nothing else. clean is for output to a terminal: see Cleaner. When ctx ends, the reply is stopped.
func Once(ctx context.Context, c *client.Client, message client.Message, in io.Reader, out io.Writer, clean bool) error {
	content, err := io.ReadAll(io.LimitReader(in, maxPiped+1))
	if err != nil {
		return fmt.Errorf("read the message: %w", err)
	}
	if len(content) > maxPiped {
		return errors.New("the input is longer than a message may be")
	}
	message.Content = string(content)
	var cleaner Cleaner
	var written error
	say := func(piece string) {
		if clean {
			piece = cleaner.Clean(piece)
		}
		_, err := io.WriteString(out, piece)
		written = errors.Join(written, err)
	}
	reply, err := c.Send(ctx, message, client.Listener{Text: say})
	if ctx.Err() != nil && reply.Started.ChatID != uuid.Nil {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		return errors.Join(errors.New("stopped"), c.Cancel(stopping, reply.Started.ChatID))
	}
	if err != nil {
		return err
	}
	say("\n")
	return errors.Join(written, failure(reply.End))
}

func failure(end streaming.Terminal) error {
	switch {
	case end.Cancelled != nil:
		return errors.New("the reply was stopped")
	case end.Failed != nil:
		return fmt.Errorf("the reply broke off: %s", OneLine(end.Failed.Message))
	case end.Awaiting != nil:
		return fmt.Errorf("the reply waits for an answer to %s", namesOf(end.Awaiting.Open))
	}
	return nil
}
