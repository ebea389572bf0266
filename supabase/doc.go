// Package supabase is where the project meets Supabase outside of a query: the migrations of the
// Supabase CLI project in this folder, embedded and applied as the CLI would, and a small wrapper
// around supabase-go for what only the auth server can do.
//
// Tables are not reached through it: every query goes over pgx, under RLS.
package supabase
