package system

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// A process without an API serves metrics at HTTP_ADDR, and listens nowhere without it.
func TestWorkerServesMetrics(t *testing.T) {
	t.Parallel()
	r := newStoppedRig(t, testkit.NewDatabase(t), nil, nil)
	watched := r.start(app.Role{Workers: true}, nil)
	testkit.Eventually(t, "it says where", func() bool { return strings.Contains(watched.logs.String(), watched.app.Addr()) })
	for path, want := range map[string]string{"/metrics": "go_goroutines", "/healthz": ""} {
		response, err := http.Get("http://" + watched.app.Addr() + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		if response.StatusCode != http.StatusOK || !strings.Contains(string(body), want) || err != nil {
			t.Errorf("%s: %d, %v, %s", path, response.StatusCode, err, body)
		}
		_ = response.Body.Close()
	}
	taken := r.config(env{"HTTP_ADDR": watched.app.Addr()})
	if _, err := app.New(t.Context(), taken, app.Role{Workers: true}, discard); err == nil || !strings.Contains(err.Error(), "HTTP_ADDR") {
		t.Errorf("at an address that is taken: %v", err)
	}
	if err := watched.stop(); err != nil {
		t.Error(err)
	}
	if response, err := http.Get("http://" + watched.app.Addr() + "/healthz"); err == nil {
		_ = response.Body.Close()
		t.Error("it still answers after its end")
	}
	if quiet := r.start(app.Role{Workers: true}, env{"HTTP_ADDR": ""}); quiet.app.Addr() != "" {
		t.Errorf("without the variable it listens at %s", quiet.app.Addr())
	}
	http.DefaultClient.CloseIdleConnections()
}
