package dev

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/config"
	"github.com/arcoscribe/throughline/internal/dev/haproxy"
)

// cell is one of the installations of `make cells`.
type cell struct {
	config config.Config
	server *app.App
	admin  string // the superuser's DSN
}

// people are who talks: where no cell is named the admitting one takes them.
var people = []struct {
	name, cell string
	id         uuid.UUID
}{
	{"ann", "", uuid.MustParse("00000000-0000-4000-8000-00000000000a")},
	{"bob", "b", uuid.MustParse("00000000-0000-4000-8000-00000000000b")},
	{"cem", "", uuid.MustParse("00000000-0000-4000-8000-00000000000c")},
}

// Cells runs two cells, each with a Postgres and a server of its own, behind HAProxy at cfg.HTTPAddr. It prints to out what to
// try, and then where everybody is, when that changes. Settings of a database or a project do not count.
func Cells(ctx context.Context, cfg config.Config, root string, out io.Writer, logger *slog.Logger) error {
	cfg.SupabaseURL, cfg.SupabaseJWTSecret, cfg.AuthIssuers = "", config.LocalJWTSecret, nil
	address, dir := cfg.HTTPAddr, filepath.Join(root, ".local", "cells")
	cfg.HTTPAddr = "127.0.0.1:0"
	if !cfg.HasModel() {
		stop, err := startModels(ctx, &cfg, root, logger)
		if err != nil {
			return err
		}
		defer stop()
	}
	var cells []*cell
	ctx, cancel := context.WithCancel(ctx)
	running, stopping := errgroup.WithContext(ctx)
	defer cancel()
	for _, of := range []auth.Cell{{Name: "a", AdmitsNew: true}, {Name: "b"}} {
		c := &cell{config: cfg}
		c.config.Cell = of
		stop, err := c.start(ctx, filepath.Join(dir, of.Name), logger.With("cell", of.Name))
		if err != nil {
			return fmt.Errorf("cell %s: %w", of.Name, err)
		}
		defer stop()
		defer func() { cancel(); _ = running.Wait() }() // its server ends before its Postgres
		cells = append(cells, c)
		running.Go(func() error { return c.server.Run(stopping) })
	}
	running.Go(func() error {
		dir, err := filepath.Abs(dir)
		if err != nil {
			return err
		}
		proxy, err := startProxy(stopping, root, dir, address, cells)
		if err != nil {
			return err
		}
		defer proxy.Stop()
		if err := printCells(out, dir, address, cells); err != nil {
			return err
		}
		watch(stopping, out, cells)
		return nil
	})
	return running.Wait()
}

// start starts the cell but for its server, which the caller runs.
func (c *cell) start(ctx context.Context, dir string, logger *slog.Logger) (stop func(), err error) {
	stop, admin, err := startPostgres(ctx, &c.config, dir, 0, logger)
	if err != nil {
		return nil, err
	}
	c.admin = admin
	defer func() {
		if err != nil {
			stop()
		}
	}()
	if _, _, err = app.Migrate(ctx, c.config, logger); err != nil {
		return nil, err
	}
	for _, user := range people {
		if err = makeUser(ctx, c.config.DatabaseDirectURL, user.id, user.name); err != nil {
			return nil, err
		}
	}
	c.server, err = app.New(ctx, c.config, app.Role{API: true, Workers: true}, logger)
	return stop, err
}

func startProxy(ctx context.Context, root, dir, address string, cells []*cell) (*haproxy.Proxy, error) {
	text, err := haproxy.Cells(root, dir, address, cells[0].server.Addr(), cells[1].server.Addr())
	if err != nil {
		return nil, err
	}
	return haproxy.Start(ctx, dir, text, address)
}

// printCells prints what to paste.
func printCells(out io.Writer, dir, address string, cells []*cell) error {
	here, _ := addresses(address)
	fmt.Fprintf(out, "\nTwo cells, a and b, run behind HAProxy at %s. New users begin in a, unless their token names b.\n\n", here)
	fmt.Fprint(out, "The page, signed in as each:\n\n")
	var tokens []string
	for _, user := range people {
		claims := jwt.MapClaims{
			"sub": user.id, "aud": "authenticated", "role": "authenticated", "iat": time.Now().Unix(), "exp": time.Now().Add(24 * time.Hour).Unix(),
		}
		if user.cell != "" {
			claims["app_metadata"] = map[string]string{"cell": user.cell}
		}
		token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(config.LocalJWTSecret))
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "  %s  %s\n", user.name, pageLink(here, token))
		tokens = append(tokens, token)
	}
	fmt.Fprintf(out, cellsToPaste, tokens[0], here,
		dir, dir, cells[0].config.DatabaseDirectURL, people[0].id, cells[1].config.DatabaseDirectURL)
	return nil
}

const cellsToPaste = `
Or say something as ann:

  export ANN=%s
  curl -N %s/v1/message/first -H "Authorization: Bearer $ANN" -H 'Content-Type: application/json' -d '{"content": "Hello"}'

Then move ann to b; her token stays as it is:

  export HAPROXY_MAP=%s/cells.map HAPROXY_SOCKET=%s/moves.sock
  DATABASE_URL='%s' .local/bin/throughline move %s \
    --to '%s' --cell b --then deploy/haproxy/moved

Who is where:

`

// watch prints where everybody is, when that changes.
func watch(ctx context.Context, out io.Writer, cells []*cell) {
	for last := ""; ctx.Err() == nil; {
		var line strings.Builder
		for _, user := range people {
			fmt.Fprintf(&line, "  %s %-14s", user.name, whereabouts(ctx, cells, user.id))
		}
		now := line.String()
		if now != last && ctx.Err() == nil {
			fmt.Fprintln(out, time.Now().Format(" 15:04:05")+now)
			last = now
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second / 2):
		}
	}
}

// whereabouts are the cells that have rows of a user, with the turns there.
func whereabouts(ctx context.Context, cells []*cell, user uuid.UUID) string {
	var found []string
	for _, c := range cells {
		var is bool
		var turns int
		var why string
		conn, err := pgx.Connect(ctx, c.admin)
		if err == nil {
			err = conn.QueryRow(ctx, `select exists (select from throughline.accounts where user_id = $1),
				(select count(*) from messages where user_id = $1 and role = 'user'),
				coalesce((select why from throughline.departed where user_id = $1), '')`, user).Scan(&is, &turns, &why)
			_ = conn.Close(ctx) // it has answered
		}
		switch {
		case err != nil:
			found = append(found, c.config.Cell.Name+" ?")
		case why == "moving":
			found = append(found, c.config.Cell.Name+" moving")
		case is:
			found = append(found, fmt.Sprintf("%s, turns: %d", c.config.Cell.Name, turns))
		}
	}
	if found == nil {
		return "-"
	}
	return strings.Join(found, " + ")
}
