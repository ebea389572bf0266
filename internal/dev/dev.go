// Package dev runs what `make run` starts: everything on this machine, by default with a private Postgres and an offline
// model. Its folders are for development; nothing that is shipped imports them.
package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/config"
	"github.com/arcoscribe/throughline/internal/dev/embedder"
	"github.com/arcoscribe/throughline/internal/dev/localpg"
	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/supabase"
	"github.com/google/uuid"
	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// offlineKey is the key of the offline model, which accepts any.
	offlineKey = "offline"
	// pieceDelay makes the offline model's replies slow enough to read.
	pieceDelay = 15 * time.Millisecond
	// extractDelay is how long a chat rests before the offline model, which costs nothing, reads memories out of it. Two
	// minutes, the usual delay, are long for somebody who looks on.
	extractDelay = 5 * time.Second
	// titleDelay is how long one rests before the offline model gives it a title.
	titleDelay = time.Second
)

// Run runs everything on this machine: a private Postgres unless DATABASE_URL names one, migrations,
// the offline model unless there is a key or an address of another, API and workers. It prints to out what to try, and stops
// everything that it started.
func Run(ctx context.Context, cfg config.Config, root string, out io.Writer, logger *slog.Logger) (err error) {
	starting := true
	defer func() {
		if starting && ctx.Err() != nil {
			err = nil // it failed because somebody stopped it
		}
	}()
	if cfg.DatabaseURL == "" {
		stop, _, err := startPostgres(ctx, &cfg, filepath.Join(root, ".local", "postgres"), postgresPort, logger)
		if err != nil {
			return err
		}
		defer stop()
	}
	if _, _, err := app.Migrate(ctx, cfg, logger); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if !cfg.HasModel() {
		stop, err := startModels(ctx, &cfg, root, logger)
		if err != nil {
			return err
		}
		defer stop()
	}
	server, err := app.New(ctx, cfg, app.Role{API: true, Workers: true}, logger, app.Doubles{OfflineModel: cfg.OpenAIAPIKey == offlineKey})
	if err != nil {
		return err
	}
	token, err := localToken(ctx, cfg)
	if err != nil {
		server.Close()
		return err
	}
	printWelcome(out, cfg, server.Addr(), token)
	starting = false
	return server.Run(ctx)
}

// postgresPort is the private cluster's port unless another program has it. It is none that Supabase's local stack takes.
const postgresPort = 54390

// serverLogin lets the server's role log in, as operators do. The migrations leave a role that is there as it is.
const serverLogin = `
do $$ begin
  create role ` + supabase.ServerRole + ` noinherit;
exception when duplicate_object then null;
end $$;
alter role ` + supabase.ServerRole + ` login;
`

// startPostgres starts the private cluster of a folder, fills in its addresses and returns the superuser's.
func startPostgres(ctx context.Context, cfg *config.Config, dir string, port int, logger *slog.Logger) (stop func(), admin string, err error) {
	cluster, err := localpg.Start(ctx, localpg.Options{Dir: dir, Port: port, Logger: logger})
	if errors.Is(err, localpg.ErrInUse) {
		return nil, "", errors.New("`make run` is running in this folder already: stop it first, or set DATABASE_URL to another Postgres")
	}
	if err != nil {
		return nil, "", err
	}
	stop = func() {
		if err := cluster.Stop(); err != nil {
			logger.Error("Postgres not stopped", "error", err)
		}
	}
	admin = cluster.DSN(localpg.Superuser, "postgres")
	if err := localpg.Bootstrap(ctx, admin, supabase.BootstrapSQL+serverLogin); err != nil {
		stop()
		return nil, "", fmt.Errorf("prepare Postgres: %w", err)
	}
	outdated, err := isOutdated(ctx, admin)
	if outdated {
		err = fmt.Errorf("the database in %s has migrations of another version: delete that folder, and with it what was said, to begin anew", dir)
	}
	if err != nil {
		stop()
		return nil, "", err
	}
	cfg.DatabaseURL = cluster.DSN(supabase.ServerRole, "postgres")
	cfg.DatabaseDirectURL = cluster.DSN("postgres", "postgres")
	return stop, admin, nil
}

// isOutdated reports whether a database has an earlier text of one of our migrations, which is not applied again.
func isOutdated(ctx context.Context, dsn string) (outdated bool, err error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close(ctx) }() // only read
	rows, err := conn.Query(ctx, "select version || '_' || name, statements[1] from supabase_migrations.schema_migrations")
	var name, applied string
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&name, &applied}, func() error {
			ours, err := supabase.Migrations.ReadFile("migrations/" + name + ".sql")
			outdated = outdated || err == nil && string(ours) != applied
			return nil
		})
	}
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == pgerrcode.UndefinedTable {
		return false, nil
	}
	return outdated, err
}

// startModels starts the offline model, and the embedder beside it unless another is configured or none is wanted, and
// fills in their addresses. Without an embedder words have to do.
func startModels(ctx context.Context, cfg *config.Config, root string, logger *slog.Logger) (stop func(), err error) {
	stopVectors := func() {}
	if cfg.LongTerm.ExtractDelay == config.DefaultExtractDelay {
		cfg.LongTerm.ExtractDelay = extractDelay
	}
	if cfg.ChatTitles == config.DefaultChatTitles {
		cfg.ChatTitles = titleDelay
	}
	ours := (cfg.Recall || cfg.LongTerm.On) && cfg.EmbeddingModel == config.DefaultEmbeddingModel && cfg.EmbeddingBaseURL == ""
	if ours {
		meaning, err := embedder.Start(ctx, root, logger)
		if err != nil {
			logger.Warn("texts are compared by their words alone", "error", err)
			cfg.EmbeddingModel = ""
		} else {
			stopVectors = meaning.Close
			cfg.EmbeddingModel, cfg.EmbeddingBaseURL = embedder.Model, meaning.BaseURL()
		}
	}
	model, err := offline.Start(offline.Options{Logger: logger, PieceDelay: pieceDelay})
	if err != nil {
		stopVectors()
		return nil, err
	}
	cfg.OpenAIAPIKey, cfg.OpenAIBaseURL = offlineKey, model.BaseURL()
	return func() {
		stopVectors()
		_ = model.Close() // the program is about to end
	}, nil
}

// localToken makes the local user and returns an access token for it; "" when this machine cannot sign one.
func localToken(ctx context.Context, cfg config.Config) (string, error) {
	if cfg.SupabaseJWTSecret == "" {
		return "", nil
	}
	if err := makeUser(ctx, cfg.DatabaseDirectURL, config.LocalUser, "dev"); err != nil {
		return "", err
	}
	token, err := cfg.LocalToken()
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	return token, nil
}

// makeUser inserts the user of a printed token, as a sign-up would.
func makeUser(ctx context.Context, dsn string, id uuid.UUID, name string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return fmt.Errorf("make the local user: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }() // the insert was confirmed
	_, err = conn.Exec(ctx, `insert into auth.users (id, aud, role, email, created_at, updated_at)
		values ($1, 'authenticated', 'authenticated', $2 || '@throughline.invalid', now(), now()) on conflict do nothing`, id, name)
	if err != nil {
		return fmt.Errorf("make the local user: %w", err)
	}
	return nil
}
