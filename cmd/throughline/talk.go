package main

import (
	"context"
	"flag"
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

// connect gives a client of the server. It sends nothing yet.
func (r *remote) connect() (*client.Client, error) {
	if err := r.load(); err != nil {
		return nil, err
	}
	address, err := r.address()
	if err != nil {
		return nil, err
	}
	token, err := r.accessToken()
	if err != nil {
		return nil, err
	}
	return client.New(address.String(), token), nil
}

// talk is a conversation in a terminal or, in a pipe, one message and its reply.
func talk(ctx context.Context, args []string, stdout, _ io.Writer) error {
	flags := flag.NewFlagSet("chat", flag.ContinueOnError)
	to := remoteFlags(flags)
	chat := flags.String("chat", "", "the id of the chat to go on with")
	model := flags.String("model", "", "the model variant; by default the server's first")
	if err := parse(flags, args); err != nil {
		return err
	}
	chatID, err := optionalChatID("chat", *chat)
	if err != nil {
		return err
	}
	c, err := to.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	if !isTerminal(stdout) || !terminal.Attended() {
		return terminal.Once(ctx, c, client.Message{ChatID: chatID, ModelVariant: *model}, os.Stdin, stdout, isTerminal(stdout))
	}
	// Ctrl-C stops a reply and not the program: main's context, which ends with it, is not for this one.
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

// historyFile is where what was typed is kept; "" where a user has no folder.
func historyFile() string {
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".local", "state", "throughline", "history")
}
