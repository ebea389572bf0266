// Command throughline is the conversation backend: see `throughline help`.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/client"
	"github.com/arcoscribe/throughline/internal/config"
	"github.com/arcoscribe/throughline/internal/judge"
	"github.com/arcoscribe/throughline/supabase"
	"github.com/google/uuid"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

type command struct {
	name string
	// synopsis is what may follow the name, in one line.
	synopsis string
	does     string
	// define defines the flags and returns what runs after they are parsed.
	define func(line *commandLine) runner
}

type runner func(ctx context.Context, stdout, stderr io.Writer) error

var commands = []command{
	{"serve", "[--no-workers]", "run the API, with workers unless told otherwise", serve},
	{"work", "", "run workers alone", work},
	{"migrate", "", "apply pending migrations, and list AUTH_ISSUERS", migrate},
	{"erase", "UUID, or --issuer URL --subject TEXT", "delete all that is stored of a user, but no login", erase},
	{"move", "USER --to DSN --cell b [--wait 2m] [--then CMD]", "take all that is stored of a user to the database of another cell", moveUser},
	{"migrations copy", "[--to DIR]", "write the migrations into your own Supabase project, for its CLI", copyMigrations},
	{"token", "[--user UUID] [--ttl 1h]", "mint an access token, from SUPABASE_JWT_SECRET or for the server of `make run`", token},
	{"chat", "[--chat UUID] [--temporary]", "talk to a running server; a pipe sends one message", withClient(chat)},
	{"export", "[-o FILE]", "write everything about you to a file or stdout", withClient(exportOf((*client.Client).ExportAccount))},
	{"import", "[FILE]", "take in such a file, or chats, from a file or stdin", withClient(importChats)},
	{"sessions list", "[--tag TAG] [--limit N]", "list your chats", withClient(listChats)},
	{"sessions show", "CHAT", "print a chat and its last messages", withClient(showChat)},
	{"sessions export", "CHAT [-o FILE]", "write a chat to a file or stdout", withClient(exportChat)},
	{"sessions import", "[FILE]", "import chats from a file or stdin", withClient(importChats)},
	{"sessions delete", "CHAT [--yes]", "delete a chat, its messages and its memory", withClient(deleteChat)},
	{"sessions prune", "--older-than-days N", "delete chats without recent activity", withClient(pruneChats)},
	{"memories list", "[--about WORDS] [--limit N]", "list what you are remembered for", withClient(listMemories)},
	{"memories export", "[-o FILE]", "write your memories to a file or stdout", withClient(exportOf((*client.Client).ExportMemories))},
	{"memories import", "[FILE]", "take in memories of ours, mem0, Zep, ChatGPT, or one a line", withClient(importMemories)},
	{"memories forget", "MEMORY or WORDS [--yes]", "forget a memory, or those that words mean", withClient(forgetMemories)},
	{"quality", "[--languages en,de] [--all]", "tell what the configured models are worth: labelled cases in ten languages", quality},
	{"health", "[--ready]", "ask the server or worker of this machine whether it lives", health},
	{"version", "", "print the version", printVersion},
}

// run is the whole program, as a test can call it. It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	switch {
	case len(args) == 0:
		printCommands(stdout, "")
		return exitUsage
	case isHelp(args[0]) && len(args) == 1:
		printCommands(stdout, "")
		return exitDone
	case isHelp(args[0]):
		args = append(args[1:], "--help")
	case args[0] == "--version" || args[0] == "-version":
		args[0] = "version"
	}
	if len(args) == 2 && isHelp(args[1]) && len(group(args[0])) > 0 {
		printCommands(stdout, args[0]+" ")
		return exitDone
	}
	found, line, err := parseCommand(args)
	if errors.Is(err, flag.ErrHelp) {
		found.printHelp(stdout, line)
		return exitDone
	}
	if err == nil {
		err = line.run(ctx, stdout, stderr)
	}
	return exitCode(err, stderr)
}

func isHelp(arg string) bool {
	return arg == "help" || arg == "--help" || arg == "-help" || arg == "-h"
}

func printCommands(out io.Writer, prefix string) {
	fmt.Fprint(out, "throughline is a conversation backend for mobile apps on Supabase.\n\n")
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	for _, c := range commands {
		if strings.HasPrefix(c.name, prefix) {
			fmt.Fprintf(table, "  throughline %s %s\t%s\n", c.name, c.synopsis, c.does)
		}
	}
	_ = table.Flush() // what cannot be printed cannot be told
	fmt.Fprint(out, "\n`throughline COMMAND --help` lists a command's flags.\n"+configuredBy)
}

const configuredBy = "Configuration is in environment variables; .env.example lists them.\n"

func (c command) printHelp(out io.Writer, line *commandLine) {
	fmt.Fprintf(out, "throughline %s %s\n\n%s%s.\n", c.name, c.synopsis, strings.ToUpper(c.does[:1]), c.does[1:])
	table, some := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0), false
	line.VisitAll(func(f *flag.Flag) {
		if !some {
			fmt.Fprintln(table)
		}
		some = true
		kind, usage := flag.UnquoteUsage(f)
		if f.DefValue != "" && f.DefValue != "0" && f.DefValue != "false" {
			usage += " (default " + f.DefValue + ")"
		}
		dashes := "--"
		if len(f.Name) == 1 {
			dashes = "-"
		}
		fmt.Fprintf(table, "  %s\t%s\n", strings.TrimSpace(dashes+f.Name+" "+kind), usage)
	})
	_ = table.Flush() // as above
	fmt.Fprint(out, "\n"+configuredBy)
}

// group returns the last words of the commands whose names begin with a word, such as sessions.
func group(name string) []string {
	var words []string
	for _, c := range commands {
		if word, ok := strings.CutPrefix(c.name, name+" "); ok {
			words = append(words, word)
		}
	}
	return words
}

// parseCommand returns the command that args call, with its flags parsed.
func parseCommand(args []string) (command, *commandLine, error) {
	name, rest := args[0], args[1:]
	words := group(name)
	if len(words) > 0 && len(rest) > 0 {
		name, rest = name+" "+rest[0], rest[1:]
	}
	at := slices.IndexFunc(commands, func(c command) bool { return c.name == name })
	switch {
	case at < 0 && len(words) > 0:
		return command{}, nil, &usageError{fmt.Sprintf("there is no command %q; after %s comes %s", name, args[0], strings.Join(words, ", "))}
	case at < 0:
		return command{}, nil, &usageError{fmt.Sprintf("there is no command %q; `throughline help` lists them", name)}
	}
	line := &commandLine{FlagSet: flag.NewFlagSet(name, flag.ContinueOnError)}
	line.run = commands[at].define(line)
	return commands[at], line, line.parse(rest)
}

// commandLine is the flags of a command, and its argument.
type commandLine struct {
	*flag.FlagSet
	run runner
	// takesArgument allows one argument, before or after the flags.
	takesArgument bool
	argument      string
}

func (l *commandLine) parse(args []string) error {
	if l.takesArgument && len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		l.argument, args = args[0], args[1:]
	}
	l.SetOutput(io.Discard)
	switch err := l.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return err
	case err != nil:
		return l.wrong("%v; `throughline %s --help` lists the flags", err, l.Name())
	}
	rest := l.Args()
	if l.takesArgument && l.argument == "" && len(rest) > 0 {
		l.argument, rest = rest[0], rest[1:]
	}
	if len(rest) > 0 {
		return l.wrong("unexpected argument %q", rest[0])
	}
	return nil
}

func (l *commandLine) wrong(format string, args ...any) error {
	return &usageError{l.Name() + ": " + fmt.Sprintf(format, args...)}
}

func exitCode(err error, stderr io.Writer) int {
	if err == nil {
		return exitDone
	}
	fmt.Fprintln(stderr, "throughline: "+strings.ReplaceAll(err.Error(), "\n", "; "))
	if _, wrong := errors.AsType[*config.Error](err); wrong {
		return exitUsage
	}
	if _, wrong := errors.AsType[*usageError](err); wrong {
		return exitUsage
	}
	return exitFailed
}

// loadConfig reads the configuration of a server and checks that it has the parts that the command requires.
func loadConfig(require ...func(*config.Config) error) (config.Config, error) {
	cfg, err := config.Load(false)
	if err != nil {
		return cfg, err
	}
	var missing []error
	for _, check := range require {
		missing = append(missing, check(&cfg))
	}
	return cfg, errors.Join(missing...)
}

func printVersion(*commandLine) runner {
	return func(_ context.Context, stdout, _ io.Writer) error {
		_, err := fmt.Fprintln(stdout, app.Build())
		return err
	}
}

func serve(line *commandLine) runner {
	noWorkers := line.Bool("no-workers", false, "run the API alone")
	return func(ctx context.Context, _, stderr io.Writer) error {
		cfg, err := loadConfig((*config.Config).RequireDatabase, (*config.Config).RequireModel, (*config.Config).RequireVerifier)
		if err != nil {
			return err
		}
		return runApp(ctx, cfg, app.Role{API: true, Workers: !*noWorkers}, stderr)
	}
}

func work(*commandLine) runner {
	return func(ctx context.Context, _, stderr io.Writer) error {
		cfg, err := loadConfig((*config.Config).RequireDatabase, (*config.Config).RequireModel)
		if err != nil {
			return err
		}
		return runApp(ctx, cfg, app.Role{Workers: true}, stderr)
	}
}

func runApp(ctx context.Context, cfg config.Config, role app.Role, stderr io.Writer) error {
	a, err := app.New(ctx, cfg, role, cfg.NewLogger(stderr))
	if err != nil {
		return err
	}
	return a.Run(ctx)
}

func migrate(*commandLine) runner {
	return func(ctx context.Context, stdout, stderr io.Writer) error {
		cfg, err := loadConfig((*config.Config).RequireDatabase)
		if err != nil {
			return err
		}
		applied, listed, err := app.Migrate(ctx, cfg, cfg.NewLogger(stderr))
		for _, name := range applied {
			fmt.Fprintln(stdout, "applied "+name)
		}
		if listed {
			fmt.Fprintf(stdout, "listed %d issuers\n", len(cfg.AuthIssuers))
		}
		if err == nil && len(applied) == 0 && !listed {
			fmt.Fprintln(stdout, "nothing to apply")
		}
		return err
	}
}

// erase is also what a webhook of an identity provider calls, so that one who is not known, or gone already, is no error.
func erase(line *commandLine) runner {
	line.takesArgument = true
	issuer := line.String("issuer", "", "the iss of the user's tokens")
	subject := line.String("subject", "", "their sub")
	return func(ctx context.Context, stdout, _ io.Writer) error {
		user, err := uuid.Parse(line.argument)
		if *issuer != "" && *subject != "" && line.argument == "" {
			user, err = auth.UserOf(*issuer, *subject)
		} else if *issuer != "" || *subject != "" || err != nil || user == uuid.Nil {
			return line.wrong("name a user's uuid, or --issuer and --subject")
		}
		if err != nil {
			return line.wrong("--subject cannot be one of this issuer's: %v", err)
		}
		cfg, err := loadConfig((*config.Config).RequireDatabase)
		if err != nil {
			return err
		}
		if err := app.Erase(ctx, cfg, user); err != nil {
			return err
		}
		_, err = fmt.Fprintln(stdout, "erased "+user.String())
		return err
	}
}

func copyMigrations(line *commandLine) runner {
	to := line.String("to", "supabase/migrations", "the project's folder of migrations")
	return func(_ context.Context, stdout, _ io.Writer) error {
		written, err := supabase.CopyMigrations(*to)
		for _, name := range written {
			fmt.Fprintln(stdout, "wrote "+filepath.Join(*to, name))
		}
		switch {
		case err != nil:
			return err
		case len(written) == 0:
			fmt.Fprintln(stdout, "nothing to write: all migrations are there")
		default:
			fmt.Fprintln(stdout, "\nNow apply them to the linked project:\n\n  supabase db push --include-all")
		}
		return nil
	}
}

func token(line *commandLine) runner {
	user := line.String("user", config.LocalUser.String(), "the user's id; by default that of make run")
	ttl := line.Duration("ttl", time.Hour, "how long the token is valid")
	return func(_ context.Context, stdout, _ io.Writer) error {
		userID, err := uuid.Parse(*user)
		if err != nil || userID == uuid.Nil {
			return line.wrong("--user must be a user's uuid")
		}
		if *ttl <= 0 {
			return line.wrong("--ttl must be a positive duration, such as 1h")
		}
		cfg, err := config.Load(true)
		if err != nil {
			return err
		}
		if cfg.SupabaseJWTSecret == "" {
			return &config.Error{Problems: []string{"SUPABASE_JWT_SECRET is required: the token is signed with it"}}
		}
		minted, err := auth.Mint([]byte(cfg.SupabaseJWTSecret), userID, cfg.Issuer(), *ttl, time.Now())
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(stdout, minted)
		return err
	}
}

// quality measures the configured models, before users do.
func quality(line *commandLine) runner {
	languages := line.String("languages", "", "only cases in these languages, such as en,de")
	all := line.Bool("all", false, "print everything that is wrong")
	return func(ctx context.Context, stdout, _ io.Writer) error {
		cfg, err := loadConfig((*config.Config).RequireModel)
		if err != nil {
			return err
		}
		cases, err := judge.Cases(strings.FieldsFunc(*languages, func(r rune) bool { return r == ',' || r == ' ' })...)
		if err != nil {
			return line.wrong("%v", err)
		}
		report, err := app.Judge(ctx, cfg, cases)
		if err != nil {
			return err
		}
		return report.Write(stdout, *all)
	}
}

// healthTimeout is below the one of the image's HEALTHCHECK, so that the reason is told.
const healthTimeout = 4 * time.Second

// health asks a process of this machine, for an image that has no shell and no curl.
func health(line *commandLine) runner {
	ready := line.Bool("ready", false, "ask whether it can serve, not only whether it lives")
	return func(ctx context.Context, stdout, _ io.Writer) error {
		cfg, err := config.Load(false)
		if err != nil {
			return err
		}
		path := "/healthz"
		if *ready {
			path = "/readyz"
		}
		return askHealth(ctx, "http://"+localAddress(cfg.HTTPAddr)+path, stdout)
	}
}

// localAddress is where to reach on this machine what listens at an address, which may be that of all interfaces.
func localAddress(listens string) string {
	host, port, _ := net.SplitHostPort(listens) // the configuration was checked
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost" // both 127.0.0.1 and ::1
	}
	return net.JoinHostPort(host, port)
}

func askHealth(ctx context.Context, url string, stdout io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // the rest is not needed
	said, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s %s", url, response.Status, strings.TrimSpace(string(said)))
	}
	_, err = fmt.Fprintln(stdout, strings.TrimSpace(string(said)))
	return err
}
