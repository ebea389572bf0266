package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/config"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// nobody is an address at which no Postgres listens.
const nobody = "postgres://u@127.0.0.1:1/x"

// forServers is one to which workers may not connect, by a name that Supavisor takes.
const forServers = "postgres://throughline_server.abc@127.0.0.1:1/x"

func TestExitCodes(t *testing.T) {
	t.Parallel()
	whole := env{"DATABASE_URL": nobody, "OPENAI_API_KEY": "k", "SUPABASE_JWT_SECRET": testkit.JWTSecret, "HTTP_ADDR": "127.0.0.1:0"}
	without := func(name string) env {
		e := env{}
		for n, value := range whole {
			if n != name {
				e[n] = value
			}
		}
		return e
	}
	with := func(name, value string) env {
		e := without(name)
		e[name] = value
		return e
	}
	for _, c := range []struct {
		args string
		env  env
		code int
		says string // one line on stderr
	}{
		{"", nil, exitUsage, ""},
		{"help", nil, exitDone, ""},
		{"version", nil, exitDone, ""},
		{"sessions", nil, exitUsage, "list, show, export"},
		{"sing", nil, exitUsage, `no command "sing"`},
		{"serve --sing", whole, exitUsage, "-sing"},
		{"serve now", whole, exitUsage, `unexpected argument "now"`},
		{"work --no-workers", whole, exitUsage, "-no-workers"},
		{"serve", without("DATABASE_URL"), exitUsage, "DATABASE_URL"},
		{"serve", with("RIVER_UI", "true"), exitUsage, "RIVER_UI"},
		{"serve", with("HTTP_ADDR", "192.0.2.1:80"), exitFailed, "HTTP_ADDR"},
		{"serve", with("DATABASE_URL", forServers), exitUsage, "DATABASE_DIRECT_URL, which is DATABASE_URL where it is not set"},
		{"work", with("DATABASE_DIRECT_URL", forServers), exitUsage, "DATABASE_DIRECT_URL, which is DATABASE_URL where it is not set"},
		{"migrate", whole, exitFailed, "connect"},
		{"erase", whole, exitUsage, "name a user's uuid"},
		{"erase " + uuid.NewString() + " --issuer https://a.example --subject u", whole, exitUsage, "name a user's uuid"},
		{"erase --issuer https://a.example/auth/v1 --subject u", whole, exitUsage, "--subject"},
		{"move --to " + nobody + " --cell b", whole, exitUsage, "name a user's uuid"},
		{"move " + uuid.NewString() + " --cell b", whole, exitUsage, "--to must be"},
		{"move " + uuid.NewString() + " --cell B --to " + nobody, whole, exitUsage, "--cell must be"},
		{"move " + uuid.NewString() + " --cell b --to " + nobody, with("CELL", "b"), exitUsage, "would leave"},
		{"move " + uuid.NewString() + " --cell b --wait -1s --to " + nobody, whole, exitUsage, "--wait must be"},
		{"move " + uuid.NewString() + " --cell b --to " + nobody, without("DATABASE_URL"), exitUsage, "DATABASE_URL"},
		{"move " + uuid.NewString() + " --cell b --to nowhere", whole, exitFailed, "--to: "},
		{"move " + uuid.NewString() + " --cell b --to " + nobody, whole, exitFailed, "move: DATABASE_DIRECT_URL: "},
		{"migrations", nil, exitUsage, "after migrations comes copy"},
		{"migrations copy", nil, exitFailed, "there is no Supabase project here"},
		{"migrations copy --to nowhere/migrations", nil, exitFailed, "there is no Supabase project here: neither nowhere/migrations nor nowhere/config.toml exists"},
		{"sessions list --url http://127.0.0.1:1", env{"SUPABASE_URL": "https://abc.example"}, exitUsage, "an access token is needed"},
		{"work", with("HTTP_ADDR", "192.0.2.1:80"), exitFailed, "HTTP_ADDR"},
		{"token --user " + uuid.Nil.String(), whole, exitUsage, "--user"},
		{"token --user " + uuid.NewString() + " --ttl -1h", whole, exitUsage, "--ttl"},
		{"token --user " + uuid.NewString(), env{"SUPABASE_URL": "https://abc.example"}, exitUsage, "SUPABASE_JWT_SECRET"},
		{"sessions list more", env{"THROUGHLINE_TOKEN": "none"}, exitUsage, "throughline: "},
		{"sessions list --limit -1", env{"THROUGHLINE_TOKEN": "none"}, exitUsage, "throughline: "},
		{"sessions show 7", env{"THROUGHLINE_TOKEN": "none"}, exitUsage, "throughline: "},
		{"sessions export --json", env{"THROUGHLINE_TOKEN": "none"}, exitUsage, "throughline: "},
		{"sessions prune --older-than-days 0", env{"THROUGHLINE_TOKEN": "none"}, exitUsage, "throughline: "},
		{"sessions import nowhere.jsonl", env{"THROUGHLINE_TOKEN": "none"}, exitUsage, "throughline: "},
		{"sessions list --url ftp://x", env{"THROUGHLINE_TOKEN": "none"}, exitUsage, "throughline: "},
		{"chat --temporary --chat " + uuid.NewString(), env{"THROUGHLINE_TOKEN": "none"}, exitUsage, "--temporary is for a new chat"},
		{"chat --chat 7", env{"THROUGHLINE_TOKEN": "none"}, exitUsage, "throughline: "},
		{"chat --url nowhere", env{"THROUGHLINE_TOKEN": "none"}, exitUsage, "throughline: "},
	} {
		code, _, stderr := finish(t, c.env, strings.Fields(c.args)...)
		last := stderr[strings.LastIndex(strings.TrimRight(stderr, "\n"), "\n")+1:]
		assert.Truef(t, code == c.code && strings.Contains(last, c.says) && (c.says == "") == (stderr == ""),
			"%s: exit code %d, want %d, and on stderr %q, want %q", c.args, code, c.code, stderr, c.says)
		assert.Truef(t, c.code != exitUsage || strings.Count(stderr, "\n") <= 1,
			"%s: more than one line: %s", c.args, stderr)
		assert.NotContainsf(t, stderr, testkit.JWTSecret, "%s: the secret is told", c.args)
	}
}

func TestHelpNamesEveryCommand(t *testing.T) {
	t.Parallel()
	_, help, _ := finish(t, nil, "help")
	for _, c := range commands {
		assert.Containsf(t, help, "throughline "+c.name, "the help does not name %s", c.name)
	}
	_, version, _ := finish(t, nil, "version")
	assert.Equal(t, app.Build()+"\n", version, "the version")
	code, sessions, _ := finish(t, nil, "sessions", "--help")
	assert.Truef(t, code == exitDone && !strings.Contains(sessions, "serve") && strings.Contains(sessions, "sessions prune"),
		"sessions --help: exit code %d, %q", code, sessions)
}

// The help of a command needs no configuration, and lists each of its flags.
func TestEachCommandHasHelpWithItsFlags(t *testing.T) {
	t.Parallel()
	for _, c := range commands {
		line := &commandLine{FlagSet: flag.NewFlagSet(c.name, flag.ContinueOnError)}
		c.define(line)
		words := strings.Fields(c.name)
		for _, args := range [][]string{append(words, "--help"), append([]string{"help"}, words...)} {
			var out, errs strings.Builder
			code := run(t.Context(), args, &out, &errs)
			assert.Truef(t, code == exitDone && errs.Len() <= 0 && strings.HasPrefix(out.String(), "throughline "+c.name),
				"%v: exit code %d, %s %s", args, code, &out, &errs)
			line.VisitAll(func(f *flag.Flag) {
				assert.Truef(t, strings.Contains(out.String(), "  -"+strings.Repeat("-", min(1, len(f.Name)-1))+f.Name+" ") && strings.Contains(out.String(), f.Usage),
					"%v does not list -%s: %s", args, f.Name, &out)
			})
		}
	}
}

// What has no effect is in the log of a server's start.
func TestIgnoredSettingsAreLogged(t *testing.T) {
	t.Parallel()
	e := env{
		"DATABASE_URL": nobody, "OPENAI_BASE_URL": "http://127.0.0.1:1/v1", "SUPABASE_JWT_SECRET": testkit.JWTSecret, "HTTP_ADDR": "192.0.2.1:80",
		"SUPABASE_SECRET_KEY": "hunter2",
	}
	_, _, stderr := finish(t, e, "serve")
	for _, want := range []string{"SUPABASE_SECRET_KEY has no effect", "HTTP_ADDR: "} {
		assert.Containsf(t, stderr, want, "%q is not in %s", want, stderr)
	}
	assert.NotContainsf(t, stderr, "hunter2", "a value is told: %s", stderr)
}

func TestTokenIsAccepted(t *testing.T) {
	t.Parallel()
	user := uuid.New()
	for _, project := range []string{"", "https://abc.supabase.co"} {
		e := env{"SUPABASE_JWT_SECRET": testkit.JWTSecret, "SUPABASE_URL": project}
		code, token, stderr := finish(t, e, "token", "--user", user.String(), "--ttl", "5m")
		require.Truef(t, code == exitDone, "exit code %d: %s", code, stderr)
		verifier, err := auth.New(t.Context(), auth.Settings{JWTSecret: []byte(testkit.JWTSecret), ProjectURL: project})
		require.NoError(t, err)
		if got, err := verifier.Verify(t.Context(), "Bearer "+strings.TrimSpace(token)); err != nil || got.UserID != user {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

// Beside the server of `make run` it needs no settings.
func TestTokenForTheLocalServer(t *testing.T) {
	t.Parallel()
	code, token, stderr := finish(t, env{}, "token")
	require.Truef(t, code == exitDone, "exit code %d: %s", code, stderr)
	verifier, err := auth.New(t.Context(), auth.Settings{JWTSecret: []byte(config.LocalJWTSecret)})
	require.NoError(t, err)
	got, err := verifier.Verify(t.Context(), "Bearer "+strings.TrimSpace(token))
	assert.True(t, err == nil && got.UserID == config.LocalUser, err)
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	e := env{"DATABASE_URL": testkit.NewEmptyDatabase(t).DSN}
	code, stdout, stderr := finish(t, e, "migrate")
	for _, name := range []string{"20261120000001_river_001", "20261124000105_messages"} {
		assert.Truef(t, code == exitDone && strings.Count(stdout, "applied "+name) == 1,
			"%s was not applied: %d %s %s", name, code, stdout, stderr)
	}
	if code, stdout, _ := finish(t, e, "migrate"); code != exitDone || stdout != "nothing to apply\n" {
		t.Errorf("once more: exit code %d, %q", code, stdout)
	}
}

// What an operator, or a webhook of the identity provider, calls: for one who is unknown or gone it is no error. migrate makes the
// list of issuers equal to the setting.
func TestEraseLeavesATombstone(t *testing.T) {
	t.Parallel()
	database := testkit.NewDatabase(t)
	const issuer = "https://issuer.example"
	e := env{"DATABASE_URL": database.DSN, "DATABASE_DIRECT_URL": database.Direct(), "AUTH_ISSUERS": issuer}
	for _, said := range []string{"listed 1 issuers\n", "nothing to apply\n"} {
		code, stdout, stderr := finish(t, e, "migrate")
		assert.Equal(t, said, stdout, "%d %s", code, stderr)
	}
	user, pool := testkit.NewUser(t, database), testkit.Connect(t, database.AdminDSN)
	testkit.Exec(t, pool, "insert into chats (user_id) values ($1)", user)
	foreign := auth.ForeignUser(issuer, "user_2x")
	for range 2 {
		code, stdout, stderr := finish(t, e, "erase", user.String())
		assert.Equal(t, "erased "+user.String()+"\n", stdout, "%d %s", code, stderr)
		code, stdout, stderr = finish(t, e, "erase", "--issuer", issuer, "--subject", "user_2x")
		assert.Equal(t, "erased "+foreign.String()+"\n", stdout, "%d %s", code, stderr)
	}
	assert.Equal(t, 0, testkit.Ask[int](t, pool, "select count(*) from chats"))
	assert.Equal(t, 2, testkit.Ask[int](t, pool, "select count(*) from throughline.departed where user_id in ($1, $2)", user, foreign))
}

// A name that is taken is told in one line, without SQL, and nothing is applied.
func TestMigrateTellsWhatIsTaken(t *testing.T) {
	t.Parallel()
	database := testkit.NewEmptyDatabase(t)
	testkit.Exec(t, testkit.Connect(t, database.DSN), "create table chats (); create schema inspect")
	e := env{"DATABASE_URL": database.DSN, "DATABASE_DIRECT_URL": database.Direct(), "HTTP_ADDR": "127.0.0.1:0"}
	code, stdout, stderr := finish(t, e, "migrate")
	const sentence = "throughline: Throughline cannot use this database, and nothing was applied: schema inspect, table public.chats " +
		"already exist: rename what is yours, or use another database\n"
	assert.Truef(t, code == exitFailed && stdout == "" && stderr == sentence, "exit code %d, %q, %q", code, stdout, stderr)
}

func TestMigrationsAreCopied(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "migrations")
	require.NoError(t, os.Mkdir(folder, 0o750))
	code, stdout, stderr := finish(t, nil, "migrations", "copy", "--to", folder)
	first := filepath.Join(folder, "20261119000000_check_names.sql")
	assert.Truef(t, code == exitDone && strings.HasPrefix(stdout, "wrote "+first+"\n") && strings.HasSuffix(stdout, "\n  supabase db push --include-all\n"),
		"exit code %d, %q, %q", code, stdout, stderr)
	_, err := os.Stat(first)
	assert.NoError(t, err)
	if code, stdout, _ := finish(t, nil, "migrations", "copy", "--to", folder); code != exitDone || stdout != "nothing to write: all migrations are there\n" {
		t.Errorf("the second time: exit code %d, %q", code, stdout)
	}
}
