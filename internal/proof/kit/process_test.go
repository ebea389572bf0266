package kit_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// A server is killed, Postgres crashes, and both come back where they were.
func TestStackComesBack(t *testing.T) {
	t.Parallel()
	postgres, err := kit.StartPostgres(t.Context(), map[string]string{"shared_buffers": "64MB"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := postgres.Destroy(); err != nil {
			t.Error(err)
		}
	}()
	program := filepath.Join(t.TempDir(), "throughline")
	if err := kit.Build(t.Context(), "../../..", program); err != nil {
		t.Fatal(err)
	}
	model := testkit.NewModel(t, nil)
	serve := kit.Command{Program: program, Args: []string{"serve"}, Env: map[string]string{
		"DATABASE_URL": postgres.DSN(), "HTTP_ADDR": "127.0.0.1:0", "SUPABASE_JWT_SECRET": testkit.JWTSecret,
		"OPENAI_API_KEY": "offline", "OPENAI_BASE_URL": model.BaseURL(), "EMBEDDING_MODEL": "none", "TOPICS": "off", "LONG_TERM_MEMORY": "false",
	}}
	server := start(t, serve)
	serve.Env["HTTP_ADDR"] = server.Address
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := postgres.Crash(); err != nil {
		t.Fatal(err)
	}
	if err := postgres.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := start(t, serve)
	if again.Address != server.Address {
		t.Errorf("it listens at %s, before at %s", again.Address, server.Address)
	}
	response, err := http.Get("http://" + again.Address + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		t.Errorf("readyz: %d", response.StatusCode)
	}
	if err := again.Terminate(time.Minute); err != nil {
		t.Error(err)
	}
}

// What cannot start says why, and what does not compile is no program.
func TestStackFailures(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "throughline")
	if err := kit.Build(t.Context(), t.TempDir(), program); err == nil {
		t.Error("an empty folder was built")
	}
	if err := kit.Build(t.Context(), "../../..", program); err != nil {
		t.Fatal(err)
	}
	var log testkit.Log
	_, err := kit.Start(t.Context(), kit.Command{Program: program, Args: []string{"serve"}, Log: &log})
	if err == nil || !strings.Contains(log.String(), "DATABASE_URL") {
		t.Errorf("without a database: %v, %s", err, log.String())
	}
}

func start(t *testing.T, command kit.Command) *kit.Process {
	t.Helper()
	log := &testkit.Log{}
	command.Log = log
	process, err := kit.Start(t.Context(), command)
	if err != nil {
		t.Fatalf("%v: %s", err, log)
	}
	t.Cleanup(func() { _ = process.Kill() })
	return process
}
