package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/config"
	"github.com/arcoscribe/throughline/internal/dev"
	"github.com/arcoscribe/throughline/supabase"
	"github.com/google/uuid"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

const usage = `throughline is a conversation backend for mobile apps on Supabase.

  throughline dev                            run everything on this machine: Postgres, model, API, workers
  throughline serve [--no-workers]           run the API, with workers unless told otherwise
  throughline work                           run workers alone
  throughline migrate                        apply pending migrations
  throughline token --user UUID [--ttl 1h]   mint a local access token, from SUPABASE_JWT_SECRET
  throughline inspect [--chat UUID]          show what the memory holds of a chat
  throughline demo [--conversation FILE]     play a long conversation through a running server
  throughline chat [--chat UUID]             talk to a running server; a pipe sends one message
  throughline sessions COMMAND               list, show, export, import, delete, prune your chats
  throughline mcp [--url URL]                give a running server's tools to an editor, over stdin and stdout
  throughline version

Configuration is in environment variables; .env.example lists them.
`

// usageError is a wrong command line.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// command is one line of the usage. It defines its flags and returns what runs after they are parsed.
type command func(line *commandLine) runner

type runner func(ctx context.Context, stdout, stderr io.Writer) error

var commands = map[string]command{
	"dev": runDev, "serve": serve, "work": work, "migrate": migrate, "token": token, "inspect": inspectChat, "demo": playDemo,
	"mcp": bridgeTools, "chat": withClient(chat), "version": printVersion,
}

// run is the whole program, as a test can call it. It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 || args[0] == "help" || args[0] == "--help" || args[0] == "-h" {
		fmt.Fprint(stdout, usage)
		if len(args) == 0 {
			return exitUsage
		}
		return exitDone
	}
	do, err := findCommand(args)
	if err == nil {
		err = do(ctx, stdout, stderr)
	}
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, usage)
		return exitDone
	}
	return exitCode(err, stderr)
}

// findCommand returns the command that args call, with its flags parsed.
func findCommand(args []string) (runner, error) {
	name, rest := args[0], args[1:]
	do, known := commands[name]
	switch {
	case name == "sessions" && len(rest) == 0:
		return nil, &usageError{"sessions: list, show, export, import, delete or prune?"}
	case name == "sessions":
		if do, known = sessionCommands[rest[0]]; !known {
			return nil, &usageError{fmt.Sprintf("sessions: there is no command %q; there are list, show, export, import, delete, prune", rest[0])}
		}
		name, rest = name+" "+rest[0], rest[1:]
	case !known:
		return nil, &usageError{fmt.Sprintf("there is no command %q; `throughline help` lists them", name)}
	}
	line := &commandLine{FlagSet: flag.NewFlagSet(name, flag.ContinueOnError)}
	runs := do(line)
	return runs, line.parse(rest)
}

// commandLine is the flags of a command, and its argument.
type commandLine struct {
	*flag.FlagSet
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
		return l.wrong("%v", err)
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

// wrong is the error of a wrong use of the command.
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

// loadConfig reads the configuration of a server and checks that it has what the command requires.
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

func newLogger(cfg config.Config, out io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: cfg.LogLevel}
	if cfg.LogText {
		return slog.New(slog.NewTextHandler(out, options))
	}
	return slog.New(slog.NewJSONHandler(out, options))
}

func printVersion(*commandLine) runner {
	return func(_ context.Context, stdout, _ io.Writer) error {
		_, err := fmt.Fprintln(stdout, app.Version)
		return err
	}
}

func runDev(*commandLine) runner {
	return func(ctx context.Context, stdout, stderr io.Writer) error {
		cfg, err := config.Load(true)
		if err != nil {
			return err
		}
		return dev.Run(ctx, cfg, ".", stdout, newLogger(cfg, stderr))
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
	a, err := app.New(ctx, cfg, role, newLogger(cfg, stderr))
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
		applied, err := supabase.Migrate(ctx, cfg.DatabaseDirectURL, newLogger(cfg, stderr))
		for _, name := range applied {
			fmt.Fprintln(stdout, "applied "+name)
		}
		if err == nil && len(applied) == 0 {
			fmt.Fprintln(stdout, "nothing to apply")
		}
		return err
	}
}

func token(line *commandLine) runner {
	user := line.String("user", "", "the user's id")
	ttl := line.Duration("ttl", time.Hour, "how long the token is valid")
	return func(_ context.Context, stdout, _ io.Writer) error {
		userID, err := uuid.Parse(*user)
		if err != nil || userID == uuid.Nil {
			return line.wrong("--user must be a user's uuid")
		}
		if *ttl <= 0 {
			return line.wrong("--ttl must be a positive duration, such as 1h")
		}
		cfg, err := loadConfig()
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
