package config

import "github.com/google/uuid"

// LocalJWTSecret signs the tokens of a development server. It is not secret: every local Supabase stack has it.
const LocalJWTSecret = "super-secret-jwt-token-with-at-least-32-characters-long"

// LocalUser is the user of a development server, whose token it prints.
var LocalUser = uuid.MustParse("00000000-0000-4000-8000-000000000001")

// Local returns the configuration with what a development server on this machine has, where nothing else is set: for
// the server itself, and for commands that connect to it.
func (c Config) Local() Config {
	if c.DatabaseDirectURL == "" {
		c.DatabaseDirectURL = c.DatabaseURL
	}
	if c.SupabaseJWTSecret == "" && c.SupabaseURL == "" {
		c.SupabaseJWTSecret = LocalJWTSecret
	}
	return c
}
