package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/arcoscribe/throughline/internal/client"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/terminal"
	"github.com/arcoscribe/throughline/internal/transfer"
	"github.com/google/uuid"
)

var sessionCommands = map[string]command{
	"list": listChats, "show": showChat, "export": exportChat, "import": importChats, "delete": deleteChat, "prune": pruneChats,
}

// sessions runs one of the commands about the user's chats.
func sessions(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return &usageError{"sessions: list, show, export, import, delete or prune?"}
	}
	do, known := sessionCommands[args[0]]
	if !known {
		return &usageError{fmt.Sprintf("sessions: there is no command %q; there are list, show, export, import, delete, prune", args[0])}
	}
	return do(ctx, args[1:], stdout, stderr)
}

// parseNamed is parse for a command with one optional argument, before or after its flags. It returns the argument.
func parseNamed(flags *flag.FlagSet, args []string) (string, error) {
	name := ""
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		name, args = args[0], args[1:]
	}
	flags.SetOutput(io.Discard)
	if err := flags.Parse(args); err != nil || name != "" || flags.NArg() != 1 {
		return name, parse(flags, args)
	}
	return flags.Arg(0), nil
}

// named parses the arguments of a command about one chat and connects.
func named(flags *flag.FlagSet, args []string) (*client.Client, uuid.UUID, error) {
	server := remoteFlags(flags)
	text, err := parseNamed(flags, args)
	if err != nil {
		return nil, uuid.Nil, err
	}
	if text == "" {
		return nil, uuid.Nil, &usageError{flags.Name() + ": which chat? `throughline sessions list` shows the ids"}
	}
	id, err := optionalChatID(flags.Name(), text)
	if err != nil {
		return nil, uuid.Nil, err
	}
	c, err := server.connect()
	return c, id, err
}

func printJSON(out io.Writer, answer json.RawMessage) error {
	_, err := fmt.Fprintln(out, strings.TrimSpace(string(answer)))
	return err
}

func listChats(ctx context.Context, args []string, stdout, _ io.Writer) error {
	flags := newFlags("sessions list")
	server := remoteFlags(flags)
	asJSON := flags.Bool("json", false, "print the API's JSON, one page per line")
	expired := flags.Bool("expired", false, "list expired chats as well")
	tag := flags.String("tag", "", "only chats that have this tag")
	limit := flags.Int("limit", 0, "how many; 0 for all")
	if err := parse(flags, args); err != nil {
		return err
	}
	if *limit < 0 {
		return &usageError{"sessions list: --limit must not be negative"}
	}
	c, err := server.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	query := url.Values{}
	if *expired {
		query.Set("include_expired", "true")
	}
	if *tag != "" {
		query.Set("tag", *tag)
	}
	for left := *limit; ; {
		size := history.MaxChats
		if *limit > 0 {
			size = min(left, size)
		}
		query.Set("limit", strconv.Itoa(size))
		answer, err := c.Call(ctx, http.MethodGet, "/v1/chats", query, nil)
		if err != nil {
			return err
		}
		var page client.ChatPage
		if err := json.Unmarshal(answer, &page); err != nil {
			return fmt.Errorf("read the chats: %w", err)
		}
		if err := printPage(stdout, page, answer, *asJSON); err != nil {
			return err
		}
		left -= len(page.Chats)
		if page.NextCursor == nil || *limit > 0 && left <= 0 {
			return nil
		}
		query.Set("cursor", *page.NextCursor)
	}
}

func printPage(out io.Writer, page client.ChatPage, answer json.RawMessage, asJSON bool) error {
	if asJSON {
		return printJSON(out, answer)
	}
	for _, chat := range page.Chats {
		if _, err := fmt.Fprintf(out, "%s  %s\n", chat.ID, terminal.ChatLine(chat)); err != nil {
			return err
		}
	}
	return nil
}

// shownMessages is the number of messages that show prints.
const shownMessages = 50

func showChat(ctx context.Context, args []string, stdout, _ io.Writer) error {
	flags := newFlags("sessions show")
	asJSON := flags.Bool("json", false, "print the API's JSON: the chat, then a page of messages")
	c, id, err := named(flags, args)
	if err != nil {
		return err
	}
	defer c.Close()
	if *asJSON {
		return showJSON(ctx, c, id, stdout)
	}
	chat, err := c.Chat(ctx, id)
	if err != nil {
		return err
	}
	page, err := c.Messages(ctx, id, shownMessages, 0)
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

func exportChat(ctx context.Context, args []string, stdout, _ io.Writer) error {
	flags := newFlags("sessions export")
	format := flags.String("format", "jsonl", "jsonl, json or markdown")
	file := flags.String("o", "", "the file to write; by default stdout")
	c, id, err := named(flags, args)
	if err != nil {
		return err
	}
	defer c.Close()
	if *file == "" {
		return c.Export(ctx, id, *format, stdout)
	}
	return terminal.WriteFile(*file, func(out io.Writer) error { return c.Export(ctx, id, *format, out) })
}

func importChats(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := newFlags("sessions import")
	server := remoteFlags(flags)
	asJSON := flags.Bool("json", false, "print the API's JSON")
	name, err := parseNamed(flags, args)
	if err != nil {
		return err
	}
	var file io.Reader = os.Stdin
	if name != "" {
		opened, err := os.Open(name)
		if err != nil {
			return &usageError{"sessions import: " + err.Error()}
		}
		defer func() { _ = opened.Close() }() // only read
		file = opened
	}
	c, err := server.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	answer, err := c.Import(ctx, file, importProgress(stderr))
	if isTerminal(stderr) {
		fmt.Fprintln(stderr) // below the progress
	}
	if err != nil {
		return err
	}
	if *asJSON {
		return printJSON(stdout, answer)
	}
	var done transfer.Result
	if err := json.Unmarshal(answer, &done); err != nil {
		return fmt.Errorf("read the result: %w", err)
	}
	for _, chat := range done.Chats {
		what := fmt.Sprintf("%d messages", chat.Messages)
		if chat.Skipped {
			what = "there already"
		}
		fmt.Fprintf(stdout, "%s  %s: %s\n", chat.ChatID, terminal.OneLine(chat.Title), what)
	}
	fmt.Fprintf(stdout, "%d imported, %d skipped, %d messages\n", done.Imported, done.Skipped, done.Messages)
	return nil
}

// importProgress prints the progress of an import: one line that is overwritten, or without a terminal one line per
// phase.
func importProgress(out io.Writer) func(transfer.Progress) {
	interactive := isTerminal(out)
	var phase transfer.Phase
	return func(progress transfer.Progress) {
		if !interactive && progress.Phase == phase {
			return
		}
		start := "\r\x1b[K" // go to the start of the line and clear it
		if !interactive {
			start = ""
		}
		fmt.Fprintf(out, "%s%s: %d KiB, %d chats, %d messages", start, terminal.OneLine(string(progress.Phase)), progress.Bytes>>10, progress.Chats, progress.Messages)
		if !interactive {
			fmt.Fprintln(out)
		}
		phase = progress.Phase
	}
}

func deleteChat(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := newFlags("sessions delete")
	yes := flags.Bool("yes", false, "do not ask")
	c, id, err := named(flags, args)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := confirm(*yes, "Delete the chat, its messages and its memory for good?", stderr); err != nil {
		return err
	}
	if err := c.Delete(ctx, id); err != nil {
		return err
	}
	fmt.Fprintln(stdout, "deleted "+id.String())
	return nil
}

func pruneChats(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := newFlags("sessions prune")
	server := remoteFlags(flags)
	days := flags.Int("older-than-days", 0, "days since the last activity")
	dryRun := flags.Bool("dry-run", false, "count and delete nothing")
	yes := flags.Bool("yes", false, "do not ask")
	asJSON := flags.Bool("json", false, "print the API's JSON")
	if err := parse(flags, args); err != nil {
		return err
	}
	if *days < 1 {
		return &usageError{"sessions prune: --older-than-days says how old; 1 at least"}
	}
	c, err := server.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	if !*dryRun && !*yes {
		old, err := c.Prune(ctx, *days, true)
		if err != nil {
			return err
		}
		if err := confirm(false, fmt.Sprintf("Delete %d chats with %d messages for good?", old.Chats, old.Messages), stderr); err != nil {
			return err
		}
	}
	answer, err := c.Call(ctx, http.MethodPost, "/v1/chats/prune", nil, map[string]any{"older_than_days": *days, "dry_run": *dryRun})
	if err != nil {
		return err
	}
	if *asJSON {
		return printJSON(stdout, answer)
	}
	var pruned history.Pruned
	if err := json.Unmarshal(answer, &pruned); err != nil {
		return fmt.Errorf("read the result: %w", err)
	}
	what := "deleted"
	if pruned.DryRun {
		what = "would delete"
	}
	fmt.Fprintf(stdout, "%s %d chats with %d messages\n", what, pruned.Chats, pruned.Messages)
	return nil
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
