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

func inspectChat(line *commandLine) runner {
	chat := line.String("chat", "", "the chat's id; without it the latest chats are listed")
	return func(ctx context.Context, stdout, _ io.Writer) error {
		if *chat != "" && uuid.Validate(*chat) != nil {
			return line.wrong("--chat must be a chat's uuid")
		}
		cfg, err := config.Load(true)
		if err != nil {
			return err
		}
		cfg = dev.Defaults(cfg)
		return inspect.Print(ctx, stdout, cfg.DatabaseDirectURL, *chat, cfg.Memory)
	}
}

func playDemo(line *commandLine) runner {
	server := remoteFlags(line)
	file := line.String("conversation", "", "a file to play instead of the built-in conversation: JSON lines or LongMemEval")
	history := line.Int("history", 0, "which history of a LongMemEval file, from 0")
	turns := line.Int("turns", 0, "how many turns to play; 0 for all")
	question := line.String("question", "", "what to ask at the end")
	return func(ctx context.Context, stdout, _ io.Writer) error {
		if *history != 0 && *file == "" {
			return line.wrong("--history chooses from a file: --conversation names it")
		}
		address, token, err := server.access()
		if err != nil {
			return err
		}
		options := demo.Options{
			URL: address, Token: token, DatabaseURL: server.config.DatabaseDirectURL, Limits: server.config.Memory, Turns: *turns, History: *history,
			Question: *question, NoTopics: server.config.Topics.Mode == config.TopicsOff, Out: stdout, Interactive: isTerminal(stdout),
		}
		if *file != "" {
			conversation, err := os.Open(*file)
			if err != nil {
				return line.wrong("%v", err)
			}
			defer func() { _ = conversation.Close() }() // only read
			options.Conversation = conversation
		}
		_, err = demo.Run(ctx, options)
		return err
	}
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
