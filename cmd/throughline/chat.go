package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/arcoscribe/throughline/internal/client"
	"github.com/arcoscribe/throughline/internal/terminal"
	"github.com/google/uuid"
)

// chat is a conversation in a terminal or, in a pipe, one message and its reply.
func chat(line *commandLine) clientRunner {
	id := line.String("chat", "", "the id of the chat to continue")
	temporary := line.Bool("temporary", false, "begin a chat of which nothing is remembered in others")
	model := line.String("model", "", "the model variant; by default the server's first")
	return func(ctx context.Context, c *client.Client, stdout, _ io.Writer) error {
		chatID := uuid.Nil
		if *id != "" {
			var err error
			if chatID, err = line.chatID(*id); err != nil {
				return err
			}
		}
		if *temporary && *id != "" {
			return line.wrong("--temporary is for a new chat: it excludes --chat")
		}
		if !terminal.IsTerminal(stdout) || !terminal.Attended() {
			return terminal.Once(ctx, c, client.Message{ChatID: chatID, ModelVariant: *model, Temporary: *temporary}, os.Stdin, stdout, terminal.IsTerminal(stdout))
		}
		// Ctrl-C stops a reply, not the program: so ctx must not be main's, which ends with Ctrl-C.
		ctx, stop := signal.NotifyContext(context.WithoutCancel(ctx), syscall.SIGTERM, syscall.SIGHUP)
		defer stop()
		interrupts := make(chan os.Signal, 8)
		signal.Notify(interrupts, os.Interrupt)
		defer signal.Stop(interrupts)
		return terminal.Run(ctx, terminal.Options{
			Client: c, Out: stdout, Interrupts: interrupts, ChatID: chatID, Model: *model, Temporary: *temporary, HistoryFile: historyFile(),
		})
	}
}

func (l *commandLine) chatID(text string) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil || id == uuid.Nil {
		return uuid.Nil, l.wrong("%q is not a chat's uuid", text)
	}
	return id, nil
}

// historyFile is where the typed lines are stored; "" when the user has no home folder.
func historyFile() string {
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".local", "state", "throughline", "history")
}
