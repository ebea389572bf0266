package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/arcoscribe/throughline/internal/dev/localpg"
	"github.com/arcoscribe/throughline/internal/proof/stack"
	"github.com/arcoscribe/throughline/supabase"
	"github.com/jackc/pgx/v5"
)

type size struct {
	rows          int // messages
	sharedBuffers string
	samples       int // of each statement
	vacuumed      int // one row in so many is changed before the vacuum
	erased        int // chats
	users         int // of the routing
}

var (
	full = size{rows: 200_000, sharedBuffers: "256MB", samples: 400, vacuumed: 20, erased: 20, users: 200_000}
	tiny = size{rows: 2000, sharedBuffers: "64MB", samples: 3, vacuumed: 20, erased: 2, users: 5000}
)

type cluster struct{ *localpg.Cluster }

// startCluster makes an empty project in a temporary folder. Nothing of its durability is traded for
// speed. Autovacuum is off because the vacuum is one of the things measured.
func startCluster(ctx context.Context, size size) (cluster, error) {
	started, err := stack.StartCluster(ctx, map[string]string{
		"shared_buffers": size.sharedBuffers, "max_wal_size": "8GB", "autovacuum": "off", "maintenance_work_mem": "256MB",
	})
	if err != nil {
		return cluster{}, err
	}
	c := cluster{started}
	if err := c.prepare(ctx); err != nil {
		return cluster{}, errors.Join(err, c.Destroy())
	}
	return c, nil
}

// template is the migrated database that each layout begins with.
const template = "migrated"

func (c cluster) prepare(ctx context.Context) error {
	if err := execute(ctx, c.DSN(localpg.Superuser, "postgres"), "create database "+template); err != nil {
		return err
	}
	admin := c.DSN(localpg.Superuser, template)
	if err := localpg.Bootstrap(ctx, admin, supabase.BootstrapSQL); err != nil {
		return err
	}
	if err := execute(ctx, admin, "grant all on database "+template+" to postgres"); err != nil {
		return err
	}
	_, err := supabase.Migrate(ctx, c.DSN("postgres", template), slog.New(slog.DiscardHandler))
	return err
}

// execute runs statements one by one, each in its own transaction, as commands on databases need it.
func execute(ctx context.Context, dsn string, statements ...string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // nothing of it is left to do
	return execAll(ctx, conn, statements...)
}

// database is one layout's. Closing it drops it.
type database struct {
	server string // the address that the server connects to
	name   string
	home   string    // the address of the superuser in another database
	admin  *pgx.Conn // superuser: prepares and looks, is never measured
}

func (c cluster) newDatabase(ctx context.Context, name string) (*database, error) {
	d := &database{server: c.DSN("postgres", name), name: name, home: c.DSN(localpg.Superuser, "postgres")}
	if err := execute(ctx, d.home, "create database "+name+" template "+template, "grant all on database "+name+" to postgres"); err != nil {
		return nil, err
	}
	var err error
	d.admin, err = pgx.Connect(ctx, c.DSN(localpg.Superuser, name))
	return d, err
}

func (d *database) close(ctx context.Context) error {
	err := d.admin.Close(ctx)
	return errors.Join(err, execute(ctx, d.home, "drop database "+d.name+" with (force)"))
}

// do runs statements as the superuser.
func (d *database) do(ctx context.Context, statements ...string) error {
	return execAll(ctx, d.admin, statements...)
}

func execAll(ctx context.Context, conn *pgx.Conn, statements ...string) error {
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%.300s: %w", statement, err)
		}
	}
	return nil
}

// ask reads one number as the superuser.
func (d *database) ask(ctx context.Context, query string) (float64, error) {
	var n float64
	err := d.admin.QueryRow(ctx, query).Scan(&n)
	return n, err
}
