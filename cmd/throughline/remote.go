package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/client"
	"github.com/arcoscribe/throughline/internal/config"
	"github.com/arcoscribe/throughline/internal/terminal"
	"github.com/google/uuid"
)

// defaultURL is where `make run` serves.
const defaultURL = "http://127.0.0.1:8080"

// withClient makes a command of one that uses a client of the server that its flags name. By default that is the one that
// `make run` starts on this machine, with the token of its local user. It connects when the first request is sent.
func withClient(makes func(line *commandLine) clientRunner) func(*commandLine) runner {
	return func(line *commandLine) runner {
		address := line.String("url", defaultURL, "the API's address")
		given := line.String("token", "", "an access token; by default THROUGHLINE_TOKEN, or else one of the local user")
		do := makes(line)
		return func(ctx context.Context, stdout, stderr io.Writer) error {
			cfg, err := config.Load(true)
			if err != nil {
				return err
			}
			parsed, err := url.Parse(*address)
			if err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "" {
				return &usageError{"--url must be the server's address, such as https://api.example.com"}
			}
			token, err := accessToken(cfg, *given)
			if err != nil {
				return err
			}
			c := client.New(parsed.String(), token)
			defer c.Close()
			return do(ctx, c, stdout, stderr)
		}
	}
}

// accessToken returns the given token, or mints one for the local user.
func accessToken(cfg config.Config, given string) (string, error) {
	if token := cmp.Or(given, cfg.AccessToken); token != "" {
		return token, nil
	}
	if cfg.SupabaseJWTSecret == "" {
		return "", &usageError{"an access token is needed: --token or THROUGHLINE_TOKEN"}
	}
	return cfg.LocalToken()
}

type clientRunner func(ctx context.Context, c *client.Client, stdout, stderr io.Writer) error

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

func listMemories(line *commandLine) clientRunner {
	about := line.String("about", "", "only memories that have these words, the best matches first")
	status := line.String("status", "", "active, inbox, superseded, archived or all; by default active and inbox")
	return listOf(line, "/v1/memories", api.MaxMemories, func() url.Values {
		return given("q", *about, "status", *status)
	}, func(page client.MemoryPage) (lines []string, next *string) {
		for _, memory := range page.Memories {
			lines = append(lines, fmt.Sprintf("%s  %s", memory.ID, terminal.MemoryLine(memory)))
		}
		return lines, page.NextCursor
	})
}

func importMemories(line *commandLine) clientRunner {
	return importOf(line, func(ctx context.Context, c *client.Client, file io.Reader, _ io.Writer) (json.RawMessage, error) {
		return c.ImportMemories(ctx, file)
	}, func(stdout io.Writer, done api.MemoryImport) {
		fmt.Fprintf(stdout, "%d imported, %d skipped, from %s\n", done.Imported, done.Skipped, terminal.OneLine(done.Format))
		for _, left := range done.Refused {
			fmt.Fprintf(stdout, "line %d is left out: %s\n", left.Line, terminal.OneLine(left.Reason))
		}
	})
}

// forgetMemories forgets one memory by its id, or all that words mean.
func forgetMemories(line *commandLine) clientRunner {
	line.takesArgument = true
	yes := line.Bool("yes", false, "do not ask")
	return func(ctx context.Context, c *client.Client, stdout, stderr io.Writer) error {
		if line.argument == "" {
			return line.wrong("what? `throughline memories list` shows the ids; words in quotes are one argument")
		}
		if id, err := uuid.Parse(line.argument); err == nil {
			return forgetOne(ctx, c, id, *yes, stdout, stderr)
		}
		found, err := c.ProposeForgetting(ctx, line.argument)
		if err != nil {
			return err
		}
		if len(found.Candidates) == 0 {
			fmt.Fprintln(stdout, "Nothing is remembered of that.")
			return nil
		}
		for _, candidate := range found.Candidates {
			fmt.Fprintf(stderr, "%s  %s\n", candidate.ID, terminal.OneLine(candidate.Content))
		}
		if err := confirm(*yes, "Forget this for good?", stderr); err != nil {
			return err
		}
		forgotten, err := c.Forget(ctx, found.Token)
		if err != nil {
			return err
		}
		fmt.Fprintln(stdout, terminal.CountForgotten(forgotten))
		return nil
	}
}

func forgetOne(ctx context.Context, c *client.Client, id uuid.UUID, yes bool, stdout, stderr io.Writer) error {
	if err := confirm(yes, "Forget this memory and its history for good?", stderr); err != nil {
		return err
	}
	if err := c.ForgetMemory(ctx, id); err != nil {
		return err
	}
	fmt.Fprintln(stdout, terminal.CountForgotten(1))
	return nil
}
