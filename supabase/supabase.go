// Package supabase holds the Supabase CLI project: its migrations, embedded and applied as the CLI would, and
// a wrapper around supabase-go for what only the auth server can do.
//
// It does not read tables: queries go through pgx, under row level security.
package supabase

import _ "embed" // for bootstrap.sql

// BootstrapSQL makes a plain Postgres look like a fresh Supabase project: roles, auth, realtime. Run it once
// per database, as a superuser that is not called postgres; running it again changes nothing. It is for the
// private cluster and for tests, never for a real project.
//
//go:embed bootstrap.sql
var BootstrapSQL string
