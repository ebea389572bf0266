package dev

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/config"
	"github.com/arcoscribe/throughline/internal/dev/embedder"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/supabase"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// configured is the configuration of dev with these variables.
func configured(t *testing.T, set map[string]string) config.Config {
	c, err := config.Parse(lookup(set), true)
	require.NoError(t, err)
	return c
}

func lookup(set map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { value, ok := set[name]; return value, ok }
}

// runDev runs dev until the test ends, and returns what it printed up to the last line of its welcome.
func runDev(t *testing.T, set map[string]string) string {
	t.Helper()
	if set["RECALL_DEADLINE"] == "" {
		set["RECALL_DEADLINE"] = "20s" // on a loaded machine a look-up takes longer than a person would wait
	}
	ctx, stop := context.WithCancel(context.Background())
	read, write := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		root := t.TempDir()
		cfg, stopTools, err := OfferTools(configured(t, set), root, lookup(set))
		if err == nil {
			err = Run(ctx, cfg, root, write, slog.New(slog.DiscardHandler))
			stopTools()
		}
		_ = write.CloseWithError(io.EOF)
		ended <- err
	}()
	t.Cleanup(func() {
		stop()
		assert.NoError(t, testkit.Receive(t, "dev ends", ended), "dev")
	})
	printed, chunk := "", make([]byte, 4096)
	for !strings.Contains(printed, "Model     ") || !strings.HasSuffix(printed, "\n\n") {
		n, err := read.Read(chunk)
		printed += string(chunk[:n])
		require.NoErrorf(t, err, "dev ended: %s", printed)
	}
	go func() { _, _ = io.Copy(io.Discard, read) }()
	return printed
}

// The page's link comes first, and has the only token. The printed call, pasted as it is, is answered, and the next chat knows it.
func TestFirstLinesToPaste(t *testing.T) {
	t.Parallel()
	printed := runDev(t, map[string]string{"DATABASE_URL": testkit.NewEmptyDatabase(t).Direct(), "HTTP_ADDR": "127.0.0.1:0"})
	assert.Truef(t, !strings.Contains(printed, "Phone") && !strings.Contains(printed, "Anybody") && strings.Contains(printed, "offline: it knows nothing"),
		"printed: %s", printed)
	link, rest, _ := strings.Cut(strings.TrimSpace(printed), "\n")
	here, token, found := strings.Cut(link, "/app/#token=")
	require.Truef(t, found && strings.Contains(rest, ".local/bin/throughline chat --url "+here+"\n") && !strings.Contains(rest, token), "printed: %s", printed)
	call := callIn(printed)
	text := pasted(t, call)
	assert.NotEmpty(t, text, "the first answer")
	testkit.Eventually(t, "the message is remembered", func() bool {
		return strings.Contains(shell(t, "sleep 0.2; curl -s "+here+`/v1/memories -H "Authorization: Bearer `+token+`"`), "allergic to walnuts")
	})
	ask := strings.ReplaceAll(call, "My name is Ada, and I am allergic to walnuts.", "What do you know about me?")
	if text := pasted(t, ask); !strings.Contains(text, "Your name is Ada. You are allergic to walnuts.") {
		t.Errorf("the next chat: %s", text)
	}
}

// callIn returns the printed call with the link's token in place of the program that prints one, which its own tests run.
func callIn(printed string) string {
	_, token, _ := strings.Cut(printed, "#token=")
	token, _, _ = strings.Cut(token, "\n")
	_, call, _ := strings.Cut(printed, "Or call it:\n")
	call, _, _ = strings.Cut(call, "'\n\n")
	return strings.ReplaceAll(call, "$(.local/bin/throughline token)", token) + "'"
}

// shell runs lines and returns what they print.
func shell(t *testing.T, lines string) string {
	t.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	cmd := exec.Command("sh", "-c", lines)
	cmd.Env = append(os.Environ(), "no_proxy=127.0.0.1")
	out, err := cmd.Output()
	require.Truef(t, err == nil, "%v: %s", err, lines)
	return string(out)
}

// pasted runs lines in a shell and returns the text that was streamed.
func pasted(t *testing.T, lines string) (text string) {
	t.Helper()
	for line := range strings.Lines(shell(t, lines)) {
		var data struct{ Delta string }
		if raw, ok := strings.CutPrefix(line, "data: "); ok && json.Unmarshal([]byte(raw), &data) == nil {
			text += data.Delta
		}
	}
	return text
}

// A listener beyond loopback has an address that a phone can open, and a warning. On its own Postgres the server connects as servers do.
func TestAddressForAPhone(t *testing.T) {
	t.Parallel()
	printed := runDev(t, map[string]string{"HTTP_ADDR": ":0"})
	_, phone, _ := strings.Cut(printed, "Phone     ")
	phone, _, _ = strings.Cut(phone, "\n")
	response, err := http.Get(phone + "/readyz") //nolint:noctx // a test's own server
	require.Truef(t, err == nil, "%v in %s", err, printed)
	said, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	assert.Truef(t, err == nil && strings.Contains(string(said), `"ready"`) && !bytes.Contains(said, []byte("warnings")), "%v: %s", err, said)
	assert.Truef(t, response.StatusCode == http.StatusOK && !strings.Contains(printed, "[::]") && !strings.Contains(printed, "0.0.0.0"),
		"%d at %s: %s", response.StatusCode, phone, printed)
	for _, want := range []string{"Anybody in your network", "River UI,", "the secret that signs them is public"} {
		assert.Containsf(t, printed, want, "%q is not in %s", want, printed)
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for listening, want := range map[string][2]string{
		"127.0.0.1:8080":   {"http://127.0.0.1:8080", ""},
		"[::1]:8080":       {"http://[::1]:8080", ""},
		"192.0.2.7:8080":   {"http://192.0.2.7:8080", "http://192.0.2.7:8080"},
		"[2001:db8::7]:80": {"http://[2001:db8::7]:80", "http://[2001:db8::7]:80"},
	} {
		here, phone := addresses(listening)
		assert.Truef(t, here == want[0] && phone == want[1], "%s: %s, %s", listening, here, phone)
	}
	for _, open := range []string{"[::]:8080", "0.0.0.0:8080"} {
		here, phone := addresses(open)
		host, _, err := net.SplitHostPort(strings.TrimPrefix(phone, "http://"))
		assert.Truef(t, here == "http://127.0.0.1:8080" && err == nil && host != "" && !net.ParseIP(host).IsUnspecified(),
			"%s: %s, %s", open, here, phone)
	}
}

func TestWelcomeHoldsNoPassword(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{
		"postgres://postgres.abc:hunter2@aws.pooler.supabase.com:6543/postgres", "host=db.example port=5433 user=app password=hunter2 dbname=app",
		"postgres://u@h/db?password=hunter2",
	} {
		var out strings.Builder
		cfg := configured(t, map[string]string{"DATABASE_URL": dsn, "OPENAI_BASE_URL": "http://me:hunter2@127.0.0.1:11434/v1"})
		printWelcome(&out, cfg, "127.0.0.1:8080", "token")
		text := out.String()
		assert.Truef(t, !strings.Contains(text, "hunter2") && strings.Contains(text, "Postgres  postgres://") && strings.Contains(text, "127.0.0.1:11434/v1"),
			"%v", text)
	}
}

// A server of one's own that needs no key is not replaced by the offline model.
func TestModelWithoutAKeyIsUsed(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/responses" && r.Header.Get("Authorization") == "" {
			asked.Add(1)
		}
		w.WriteHeader(http.StatusBadRequest)
	}))
	t.Cleanup(model.Close)
	address := model.URL + "/v1"
	printed := runDev(t, map[string]string{"DATABASE_URL": testkit.NewEmptyDatabase(t).Direct(), "HTTP_ADDR": "127.0.0.1:0", "OPENAI_BASE_URL": address})
	assert.Containsf(t, printed, "Model     "+address, "printed: %s", printed)
	pasted(t, callIn(printed))
	n := asked.Load()
	assert.Truef(t, n == 1, "it was asked %d times", n)
}

// Without a key texts are compared by meaning where the embedder is installed, and by their words elsewhere, which the
// log says.
func TestVectorsWithoutAKey(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		root        string
		set         map[string]string
		model, said string
		started     bool
	}{
		"installed":        {"../..", nil, embedder.Model, "", true},
		"not installed":    {t.TempDir(), nil, "", "texts are compared by their words alone", false},
		"none wanted":      {"../..", map[string]string{"EMBEDDING_MODEL": "none"}, "", "", false},
		"memories alone":   {"../..", map[string]string{"RECALL": "off"}, embedder.Model, "", true},
		"none needed":      {"../..", map[string]string{"RECALL": "off", "LONG_TERM_MEMORY": "false"}, config.DefaultEmbeddingModel, "", false},
		"another one":      {"../..", map[string]string{"EMBEDDING_MODEL": "e5"}, "e5", "", false},
		"another's server": {"../..", map[string]string{"EMBEDDING_BASE_URL": "http://127.0.0.1:1/v1"}, config.DefaultEmbeddingModel, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log strings.Builder
			cfg := configured(t, c.set)
			stop, err := startModels(t.Context(), &cfg, c.root, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})))
			require.NoError(t, err)
			started := cfg.EmbeddingBaseURL != "" && answers(cfg.EmbeddingBaseURL)
			assert.Truef(t, cfg.EmbeddingModel == c.model && started == c.started && strings.Contains(log.String(), c.said) && (c.said != "" || log.Len() <= 0),
				"%q at %q; logged: %s", cfg.EmbeddingModel, cfg.EmbeddingBaseURL, log.String())
			stop()
			assert.True(t, !started || !answers(cfg.EmbeddingBaseURL), "the embedder still runs")
		})
	}
}

// answers reports whether a server answers, be it with an error.
func answers(url string) bool {
	response, err := http.Get(url) //nolint:noctx // a test's own server
	return err == nil && response.Body.Close() == nil
}

func TestTakenPortIsNamed(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a test's own
	require.NoError(t, err)
	defer taken.Close()
	cfg := configured(t, map[string]string{"DATABASE_URL": testkit.NewEmptyDatabase(t).Direct(), "HTTP_ADDR": taken.Addr().String()})
	err = Run(t.Context(), cfg, t.TempDir(), io.Discard, slog.New(slog.DiscardHandler))
	assert.Truef(t, err != nil && strings.Contains(err.Error(), "HTTP_ADDR") && strings.Contains(err.Error(), "another program has "+taken.Addr().String()),
		"the API's port: %v", err)
}

func TestAnInterruptedStartIsNoError(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	cfg := configured(t, map[string]string{"DATABASE_URL": "postgres://127.0.0.1:1/none", "HTTP_ADDR": "127.0.0.1:0"})
	assert.NoError(t, Run(ctx, cfg, t.TempDir(), io.Discard, slog.New(slog.DiscardHandler)))
}

// A second `make run` in a folder ends with one sentence.
func TestOneRunPerFolder(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, ".local", "postgres"), 0o700))
	first, err := os.Create(filepath.Join(root, ".local", "postgres", "owner.lock"))
	require.NoError(t, err)
	defer first.Close()
	require.NoError(t, syscall.Flock(int(first.Fd()), syscall.LOCK_EX))
	err = Run(t.Context(), configured(t, map[string]string{"HTTP_ADDR": "127.0.0.1:0"}), root, io.Discard, slog.New(slog.DiscardHandler))
	assert.Truef(t, err != nil && strings.HasPrefix(err.Error(), "`make run` is running in this folder already") && !strings.Contains(err.Error(), "\n"),
		"the second: %v", err)
}

// A private Postgres of an earlier version says which folder to delete: no migration would mend it.
func TestOutdatedPostgresIsNamed(t *testing.T) {
	t.Parallel()
	cfg, dir := configured(t, nil), filepath.Join(t.TempDir(), "postgres")
	stop, admin, err := startPostgres(t.Context(), &cfg, dir, 0, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	_, err = supabase.Migrate(t.Context(), cfg.DatabaseDirectURL, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	outdated, err := isOutdated(t.Context(), admin)
	assert.Truef(t, err == nil && !outdated, "a new one: %v", err)
	conn, err := pgx.Connect(t.Context(), admin)
	require.NoError(t, err)
	testkit.Exec(t, conn, "update supabase_migrations.schema_migrations set statements = '{select 1}' where version like '%127'")
	require.NoError(t, conn.Close(t.Context()))
	stop()
	_, _, err = startPostgres(t.Context(), &cfg, dir, 0, slog.New(slog.DiscardHandler))
	assert.ErrorContains(t, err, dir+" has migrations of another version: delete")
}
