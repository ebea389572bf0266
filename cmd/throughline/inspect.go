package main

import (
	"context"
	"io"
	"os"

	"github.com/arcoscribe/throughline/internal/config"
	"github.com/arcoscribe/throughline/internal/dev"
	"github.com/arcoscribe/throughline/internal/dev/demo"
	"github.com/arcoscribe/throughline/internal/dev/inspect"
	"github.com/google/uuid"
)

// The commands that look at a running system. Without configuration it is the one that
// `throughline dev` runs on this machine.

func inspectChat(ctx context.Context, args []string, stdout, _ io.Writer) error {
	flags := newFlags("inspect")
	chat := flags.String("chat", "", "the chat's id; without it the latest chats are listed")
	if err := parse(flags, args); err != nil {
		return err
	}
	if *chat != "" && uuid.Validate(*chat) != nil {
		return &usageError{"inspect: --chat must be a chat's uuid"}
	}
	cfg, err := config.Load(true)
	if err != nil {
		return err
	}
	cfg = dev.Defaults(cfg)
	return inspect.Print(ctx, stdout, cfg.DatabaseDirectURL, *chat, cfg.Memory)
}

func playDemo(ctx context.Context, args []string, stdout, _ io.Writer) error {
	flags := newFlags("demo")
	server := remoteFlags(flags)
	file := flags.String("conversation", "", "a file to play instead of the built-in conversation")
	format := flags.String("format", demo.FormatJSONL, "jsonl or longmemeval")
	index := flags.Int("index", 0, "which conversation of a longmemeval file, from 0")
	turns := flags.Int("turns", 0, "how many turns to play; 0 for all")
	parallel := flags.Int("parallel", 1, "how many chats play it at once")
	hurry := flags.Bool("hurry", false, "do not wait for due folds, as a person's pause would")
	question := flags.String("question", "", "what to ask at the end")
	if err := parse(flags, args); err != nil {
		return err
	}
	if err := server.load(); err != nil {
		return err
	}
	address, err := server.address()
	if err != nil {
		return err
	}
	token, err := server.accessToken()
	if err != nil {
		return err
	}
	options := demo.Options{
		URL: address.String(), Token: token, DatabaseURL: server.config.DatabaseDirectURL, Format: *format, Index: *index, Turns: *turns,
		Parallel: *parallel, Hurry: *hurry, Question: *question, Out: stdout, Interactive: isTerminal(stdout),
	}
	if *file != "" {
		conversation, err := os.Open(*file)
		if err != nil {
			return &usageError{"demo: " + err.Error()}
		}
		defer func() { _ = conversation.Close() }() // only read
		options.Conversation = conversation
	}
	_, err = demo.Run(ctx, options)
	return err
}

// isTerminal reports whether out is a terminal.
func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
