package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/client"
	"github.com/arcoscribe/throughline/internal/terminal"
	"github.com/arcoscribe/throughline/internal/transfer"
	"github.com/google/uuid"
)

func (l *commandLine) chatArgument() (uuid.UUID, error) {
	if l.argument == "" {
		return uuid.Nil, l.wrong("which chat? `throughline sessions list` shows the ids")
	}
	return l.chatID(l.argument)
}

func printJSON(out io.Writer, answer json.RawMessage) error {
	_, err := fmt.Fprintln(out, strings.TrimSpace(string(answer)))
	return err
}

func decode[T any](answer json.RawMessage) (T, error) {
	var into T
	if err := json.Unmarshal(answer, &into); err != nil {
		return into, fmt.Errorf("read the answer: %w", err)
	}
	return into, nil
}

func listChats(line *commandLine) clientRunner {
	expired := line.Bool("expired", false, "list expired chats as well")
	tag := line.String("tag", "", "only chats that have this tag")
	return listOf(line, "/v1/chats", api.MaxChats, func() url.Values {
		query := given("tag", *tag)
		if *expired {
			query.Set("include_expired", "true")
		}
		return query
	}, func(page client.ChatPage) (lines []string, next *string) {
		for _, chat := range page.Chats {
			lines = append(lines, fmt.Sprintf("%s  %s", chat.ID, terminal.ChatLine(chat)))
		}
		return lines, page.NextCursor
	})
}

// given is the query with the values that the command line names.
func given(namesAndValues ...string) url.Values {
	query := url.Values{}
	for pair := range slices.Chunk(namesAndValues, 2) {
		if pair[1] != "" {
			query.Set(pair[0], pair[1])
		}
	}
	return query
}

// listOf prints a list of the API, of which a request returns at most so many entries. shown makes a line of each entry of
// a page, and returns where the next page begins.
func listOf[Page any](
	line *commandLine, path string, most int, query func() url.Values, shown func(Page) (lines []string, next *string),
) clientRunner {
	asJSON := line.Bool("json", false, "print the API's JSON, one page per line")
	limit := line.Int("limit", 0, "how many; 0 for all")
	return func(ctx context.Context, c *client.Client, stdout, _ io.Writer) error {
		if *limit < 0 {
			return line.wrong("--limit must not be negative")
		}
		query := query()
		for left := cmp.Or(*limit, math.MaxInt); left > 0; {
			query.Set("limit", strconv.Itoa(min(left, most)))
			answer, err := c.Call(ctx, http.MethodGet, path, query, nil)
			if err != nil {
				return err
			}
			page, err := decode[Page](answer)
			if err != nil {
				return err
			}
			lines, next := shown(page)
			if *asJSON {
				err = printJSON(stdout, answer)
			} else {
				err = printLines(stdout, lines)
			}
			if err != nil || next == nil {
				return err
			}
			left -= len(lines)
			query.Set("cursor", *next)
		}
		return nil
	}
}

func printLines(out io.Writer, lines []string) error {
	for _, text := range lines {
		if _, err := fmt.Fprintln(out, text); err != nil {
			return err
		}
	}
	return nil
}

const shownMessages = 50

func showChat(line *commandLine) clientRunner {
	line.takesArgument = true
	asJSON := line.Bool("json", false, "print the API's JSON: the chat, then a page of messages")
	return func(ctx context.Context, c *client.Client, stdout, _ io.Writer) error {
		id, err := line.chatArgument()
		if err != nil {
			return err
		}
		if *asJSON {
			return showJSON(ctx, c, id, stdout)
		}
		chat, err := c.Chat(ctx, id)
		if err != nil {
			return err
		}
		page, err := c.Messages(ctx, id, shownMessages)
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "%s\nid %s, strategy %s, %d messages", terminal.ChatLine(chat), chat.ID, terminal.OneLine(chat.MemoryStrategy), chat.MessageCount)
		if len(chat.Tags) > 0 {
			fmt.Fprintf(stdout, ", tags %s", terminal.OneLine(strings.Join(chat.Tags, ", ")))
		}
		if chat.ExpiresAt != nil {
			fmt.Fprintf(stdout, ", expires %s", chat.ExpiresAt.Local().Format("2006-01-02 15:04"))
		}
		fmt.Fprint(stdout, "\n\n")
		if page.HasMore {
			fmt.Fprintf(stdout, "(the last %d messages)\n", len(page.Messages))
		}
		for _, message := range page.Messages {
			fmt.Fprint(stdout, terminal.MessageText(message))
		}
		return nil
	}
}

func showJSON(ctx context.Context, c *client.Client, id uuid.UUID, stdout io.Writer) error {
	for _, path := range []string{"", "/messages"} {
		answer, err := c.Call(ctx, http.MethodGet, client.ChatPath(id, path), nil, nil)
		if err != nil {
			return err
		}
		if err := printJSON(stdout, answer); err != nil {
			return err
		}
	}
	return nil
}

func exportChat(line *commandLine) clientRunner {
	line.takesArgument = true
	format := line.String("format", "jsonl", "jsonl, json or markdown")
	file := line.String("o", "", "the file to write; by default stdout")
	return func(ctx context.Context, c *client.Client, stdout, _ io.Writer) error {
		id, err := line.chatArgument()
		if err != nil {
			return err
		}
		return writeTo(*file, stdout, func(out io.Writer) error { return c.Export(ctx, id, *format, out) })
	}
}

// file opens the file that the argument names; without one it is stdin.
func (l *commandLine) file() (*os.File, error) {
	if l.argument == "" {
		return os.Stdin, nil
	}
	opened, err := os.Open(l.argument)
	if err != nil {
		return nil, l.wrong("%v", err)
	}
	return opened, nil
}

func exportOf(export func(*client.Client, context.Context, io.Writer) error) func(*commandLine) clientRunner {
	return func(line *commandLine) clientRunner {
		file := line.String("o", "", "the file to write; by default stdout")
		return func(ctx context.Context, c *client.Client, stdout, _ io.Writer) error {
			return writeTo(*file, stdout, func(out io.Writer) error { return export(c, ctx, out) })
		}
	}
}

// writeTo writes to a file; "" is stdout.
func writeTo(file string, stdout io.Writer, write func(io.Writer) error) error {
	if file == "" {
		return write(stdout)
	}
	return terminal.WriteFile(file, write)
}

// importOf takes in a file, and prints what became of it.
func importOf[Done any](
	line *commandLine, send func(ctx context.Context, c *client.Client, file io.Reader, stderr io.Writer) (json.RawMessage, error),
	tell func(stdout io.Writer, done Done),
) clientRunner {
	line.takesArgument = true
	asJSON := line.Bool("json", false, "print the API's JSON")
	return func(ctx context.Context, c *client.Client, stdout, stderr io.Writer) error {
		file, err := line.file()
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // only read
		answer, err := send(ctx, c, file, stderr)
		switch {
		case err != nil:
			return err
		case *asJSON:
			return printJSON(stdout, answer)
		}
		done, err := decode[Done](answer)
		if err == nil {
			tell(stdout, done)
		}
		return err
	}
}

func importChats(line *commandLine) clientRunner {
	return importOf(line, func(ctx context.Context, c *client.Client, file io.Reader, stderr io.Writer) (json.RawMessage, error) {
		answer, err := c.Import(ctx, file, importProgress(stderr))
		if terminal.IsTerminal(stderr) {
			fmt.Fprintln(stderr) // below the progress
		}
		return answer, err
	}, func(stdout io.Writer, done transfer.Result) {
		for _, chat := range done.Chats {
			what := fmt.Sprintf("%d messages", chat.Messages)
			if chat.Skipped {
				what = "there already"
			}
			fmt.Fprintf(stdout, "%s  %s: %s\n", chat.ChatID, terminal.OneLine(chat.Title), what)
		}
		fmt.Fprintf(stdout, "%d imported, %d skipped, %d messages\n", done.Imported, done.Skipped, done.Messages)
		if done.Memories+done.SkippedMemories > 0 {
			fmt.Fprintf(stdout, "%d memories imported, %d skipped\n", done.Memories, done.SkippedMemories)
		}
		if done.SkippedAttachments > 0 {
			fmt.Fprintf(stdout, "%d attachments are named in the messages; the file does not hold them\n", done.SkippedAttachments)
		}
	})
}

// importProgress prints the progress of an import: one line that is overwritten, or without a terminal one line per
// phase.
func importProgress(out io.Writer) func(transfer.Progress) {
	interactive := terminal.IsTerminal(out)
	var phase transfer.Phase
	return func(progress transfer.Progress) {
		if !interactive && progress.Phase == phase {
			return
		}
		start := "\r\x1b[K" // go to the start of the line and clear it
		if !interactive {
			start = ""
		}
		fmt.Fprintf(out, "%s%s: %d KiB, %d chats, %d "+
			"messages", start, terminal.OneLine(string(progress.Phase)), progress.Bytes>>10, progress.Chats, progress.Messages)
		if !interactive {
			fmt.Fprintln(out)
		}
		phase = progress.Phase
	}
}

func deleteChat(line *commandLine) clientRunner {
	line.takesArgument = true
	yes := line.Bool("yes", false, "do not ask")
	return func(ctx context.Context, c *client.Client, stdout, stderr io.Writer) error {
		id, err := line.chatArgument()
		if err != nil {
			return err
		}
		if err := confirm(*yes, "Delete the chat, its messages and its memory for good?", stderr); err != nil {
			return err
		}
		if err := c.Delete(ctx, id); err != nil {
			return err
		}
		fmt.Fprintln(stdout, "deleted "+id.String())
		return nil
	}
}

func pruneChats(line *commandLine) clientRunner {
	days := line.Int("older-than-days", 0, "days since the last activity")
	dryRun := line.Bool("dry-run", false, "count and delete nothing")
	yes := line.Bool("yes", false, "do not ask")
	asJSON := line.Bool("json", false, "print the API's JSON")
	return func(ctx context.Context, c *client.Client, stdout, stderr io.Writer) error {
		if *days < 1 {
			return line.wrong("--older-than-days says how old; 1 at least")
		}
		if !*dryRun && !*yes {
			answer, err := c.Prune(ctx, *days, true)
			if err != nil {
				return err
			}
			old, err := decode[api.Pruned](answer)
			if err != nil {
				return err
			}
			if err := confirm(false, fmt.Sprintf("Delete %d chats with %d messages for good?", old.Chats, old.Messages), stderr); err != nil {
				return err
			}
		}
		answer, err := c.Prune(ctx, *days, *dryRun)
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(stdout, answer)
		}
		pruned, err := decode[api.Pruned](answer)
		if err != nil {
			return err
		}
		what := "deleted"
		if pruned.DryRun {
			what = "would delete"
		}
		fmt.Fprintf(stdout, "%s %d chats with %d messages\n", what, pruned.Chats, pruned.Messages)
		return nil
	}
}

// confirm asks for confirmation, unless yes is set. It fails without a terminal to ask at.
func confirm(yes bool, question string, stderr io.Writer) error {
	if yes {
		return nil
	}
	if !terminal.Attended() {
		return &usageError{"nobody is there to be asked: say --yes"}
	}
	fmt.Fprint(stderr, question+" [y/N] ")
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("nothing was deleted")
}
