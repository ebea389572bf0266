package supabase

import _ "embed" // for the text of bootstrap.sql

// BootstrapSQL makes a plain Postgres look like a fresh Supabase project: roles, auth, realtime.
// It runs as a superuser that is not called postgres, once per database; again is harmless. For the
// private cluster and for tests, never for a real project.
//
//go:embed bootstrap.sql
var BootstrapSQL string
