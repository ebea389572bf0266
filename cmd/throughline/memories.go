package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"

	"github.com/arcoscribe/throughline/internal/client"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/terminal"
	"github.com/google/uuid"
)

func listMemories(line *commandLine) clientRunner {
	about := line.String("about", "", "only memories that have these words, the best matches first")
	status := line.String("status", "", "active, inbox, superseded, archived or all; by default active and inbox")
	return listOf(line, "/v1/memories", history.MaxMemories, func() url.Values {
		return given("q", *about, "status", *status)
	}, func(page client.MemoryPage) (lines []string, next *string) {
		for _, memory := range page.Memories {
			lines = append(lines, fmt.Sprintf("%s  %s", memory.ID, terminal.MemoryLine(memory)))
		}
		return lines, page.NextCursor
	})
}

func exportMemories(line *commandLine) clientRunner {
	return exportTo(line, (*client.Client).ExportMemories)
}

func importMemories(line *commandLine) clientRunner {
	return importOf(line, func(ctx context.Context, c *client.Client, file io.Reader, _ io.Writer) (json.RawMessage, error) {
		return c.ImportMemories(ctx, file)
	}, func(stdout io.Writer, done history.MemoryImport) {
		fmt.Fprintf(stdout, "%d imported, %d skipped, from %s\n", done.Imported, done.Skipped, terminal.OneLine(done.Format))
		for _, left := range done.Refused {
			fmt.Fprintf(stdout, "line %d is left out: %s\n", left.Line, terminal.OneLine(left.Reason))
		}
	})
}

// forgetMemories forgets one memory by its id, or those that words mean.
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
