// Package dev runs `throughline dev`: everything on this machine, by default with a private Postgres and an offline
// model. Its folders are for development; no shipped package imports them.
package dev

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/config"
	"github.com/arcoscribe/throughline/internal/dev/localpg"
	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/supabase"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// The defaults of dev. jwtSecret is not secret: every local Supabase stack has it, and dev listens only on this machine.
const (
	postgresPort = 54322
	jwtSecret    = "super-secret-jwt-token-with-at-least-32-characters-long"
	tokenLife    = 24 * time.Hour
	// pieceDelay makes the offline model's replies slow enough to read.
	pieceDelay = 15 * time.Millisecond
)

// User is the user that Run makes and prints a token for.
var User = uuid.MustParse("00000000-0000-4000-8000-000000000001")

// Defaults fills in the defaults of a running `dev`, for commands that connect to it.
func Defaults(cfg config.Config) config.Config {
	if cfg.DatabaseURL == "" {
		cfg.DatabaseURL = fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", postgresPort)
	}
	if cfg.DatabaseDirectURL == "" {
		cfg.DatabaseDirectURL = cfg.DatabaseURL
	}
	if cfg.SupabaseJWTSecret == "" && cfg.SupabaseURL == "" {
		cfg.SupabaseJWTSecret = jwtSecret
	}
	return cfg
}

// Run runs everything on this machine: a private Postgres unless DATABASE_URL names one, migrations,
// the offline model unless there is a key, API and workers. It prints to out what to try, and stops
// everything that it started.
func Run(ctx context.Context, cfg config.Config, root string, out io.Writer, logger *slog.Logger) (err error) {
	if cfg.DatabaseURL == "" {
		stop, err := startPostgres(ctx, &cfg, root, logger)
		if err != nil {
			return err
		}
		defer stop()
	}
	cfg = Defaults(cfg)
	if _, err := supabase.Migrate(ctx, cfg.DatabaseDirectURL, logger); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if cfg.OpenAIAPIKey == "" {
		model, err := offline.Start(offline.Options{Logger: logger, PieceDelay: pieceDelay})
		if err != nil {
			return err
		}
		defer func() { _ = model.Close() }() // the program is about to end
		cfg.OpenAIAPIKey, cfg.OpenAIBaseURL = "offline", model.BaseURL()
	}
	server, err := app.New(ctx, cfg, app.Role{API: true, Workers: true}, logger)
	if err != nil {
		return err
	}
	if err := printWelcome(ctx, server.Addr(), cfg, out); err != nil {
		server.Close()
		return err
	}
	return server.Run(ctx)
}

// startPostgres starts the private cluster and fills in its address.
func startPostgres(ctx context.Context, cfg *config.Config, root string, logger *slog.Logger) (stop func(), err error) {
	cluster, err := localpg.Start(ctx, localpg.Options{Dir: filepath.Join(root, ".local", "postgres"), Port: postgresPort, Root: root, Logger: logger})
	if err != nil {
		return nil, err
	}
	stop = func() {
		if err := cluster.Stop(); err != nil {
			logger.Error("Postgres not stopped", "error", err)
		}
	}
	if err := localpg.Bootstrap(ctx, cluster.DSN(localpg.Superuser, "postgres"), supabase.BootstrapSQL); err != nil {
		stop()
		return nil, fmt.Errorf("prepare Postgres: %w", err)
	}
	cfg.DatabaseURL = cluster.DSN("postgres", "postgres")
	cfg.DatabaseDirectURL = cfg.DatabaseURL
	return stop, nil
}

// printWelcome prints the addresses, a token and a line to paste.
func printWelcome(ctx context.Context, address string, cfg config.Config, out io.Writer) error {
	base := "http://" + address
	fmt.Fprintf(out, "\nThroughline is running.\n\n  API       %s\n  OpenAPI   %s/openapi.json\n  Metrics   %s/metrics\n", base, base, base)
	if cfg.RiverUI {
		fmt.Fprintf(out, "  River UI  %s/river/\n", base)
	}
	fmt.Fprintf(out, "  Postgres  %s\n", cfg.DatabaseURL)
	if cfg.OpenAIAPIKey == "offline" {
		fmt.Fprintf(out, "  Model     offline (set OPENAI_API_KEY for a real one)\n")
	}
	if cfg.SupabaseJWTSecret == "" {
		fmt.Fprintf(out, "\nCall it with an access token of %s.\n\n", cfg.SupabaseURL)
		return nil
	}
	if err := makeUser(ctx, cfg.DatabaseDirectURL); err != nil {
		return err
	}
	token, err := auth.Mint([]byte(cfg.SupabaseJWTSecret), User, cfg.Issuer(), tokenLife, time.Now())
	if err != nil {
		return fmt.Errorf("token: %w", err)
	}
	fmt.Fprintf(out, `
Say something (paste all of it):

  export TOKEN=%s
  curl -N %s/v1/message/first -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \
    -d '{"content": "My cello teacher is called Ilse. Which scale should I practise first?"}'

Go on with the chat_id of the first event:

  curl -N %s/v1/message -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \
    -d '{"chat_id": "…", "content": "What is my teacher called?"}'

`, token, base, base)
	return nil
}

// makeUser inserts the user of the printed token, as a sign-up would.
func makeUser(ctx context.Context, dsn string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return fmt.Errorf("make the local user: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }() // the insert was confirmed
	_, err = conn.Exec(ctx, `insert into auth.users (id, aud, role, email, created_at, updated_at)
		values ($1, 'authenticated', 'authenticated', 'dev@throughline.invalid', now(), now()) on conflict do nothing`, User)
	if err != nil {
		return fmt.Errorf("make the local user: %w", err)
	}
	return nil
}
