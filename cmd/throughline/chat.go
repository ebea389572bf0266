package main

import (
	"context"
	"fmt"
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
func chat(ctx context.Context, args []string, stdout, _ io.Writer) error {
	flags := newFlags("chat")
	server := remoteFlags(flags)
	id := flags.String("chat", "", "the id of the chat to continue")
	model := flags.String("model", "", "the model variant; by default the server's first")
	if err := parse(flags, args); err != nil {
		return err
	}
	chatID, err := optionalChatID("chat", *id)
	if err != nil {
		return err
	}
	c, err := server.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	if !isTerminal(stdout) || !terminal.Attended() {
		return terminal.Once(ctx, c, client.Message{ChatID: chatID, ModelVariant: *model}, os.Stdin, stdout, isTerminal(stdout))
	}
	// Ctrl-C stops a reply, not the program: so ctx must not be main's, which ends with Ctrl-C.
	ctx, stop := signal.NotifyContext(context.WithoutCancel(ctx), syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	interrupts := make(chan os.Signal, 8)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	return terminal.Run(ctx, terminal.Options{
		Client: c, Out: stdout, Interrupts: interrupts, ChatID: chatID, Model: *model, HistoryFile: historyFile(),
	})
}

func optionalChatID(command, text string) (uuid.UUID, error) {
	if text == "" {
		return uuid.Nil, nil
	}
	id, err := uuid.Parse(text)
	if err != nil || id == uuid.Nil {
		return uuid.Nil, &usageError{fmt.Sprintf("%s: %q is not a chat's uuid", command, text)}
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
