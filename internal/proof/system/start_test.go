package system

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// checkWaits checks that a process lives and says what it waits for, to programs and to people, and nothing of where that is.
func checkWaits(t *testing.T, at testkit.Client, code, part string) {
	assert.Equal(t, http.StatusOK, at.Call(http.MethodGet, "/healthz", nil).Status, "/healthz")
	got := at.Call(http.MethodGet, "/readyz", nil)
	said := got.JSON(t)
	assert.Equal(t, http.StatusServiceUnavailable, got.Status)
	assert.NotEmpty(t, got.Header.Get("Retry-After"))
	assert.Equalf(t, []any{"waiting", []any{part}, code}, []any{said["status"], said["waits_for"], said["code"]}, "%s", got.Text)
	assert.NotEmpty(t, said["message"])
	assert.NotContains(t, got.Text, "127.0.0.1")
}

// downProxy is where a server will be, but is not yet.
func downProxy(t *testing.T, address string) *testkit.Proxy {
	proxy := testkit.NewProxy(t, testkit.HostOf(address))
	proxy.Down()
	return proxy
}

func TestPostgresComesLater(t *testing.T) {
	t.Parallel()
	db := testkit.NewDatabase(t)
	network := downProxy(t, db.Direct())
	r := newStoppedRig(t, db, nil, env{"DATABASE_URL": network.DSN(testkit.AsServer(db.Direct())), "DATABASE_DIRECT_URL": network.DSN(db.Direct())})
	r.newUser()
	r.node = r.start(app.Role{API: true, Workers: true}, nil)
	worker := r.start(app.Role{Workers: true}, nil)
	alone := testkit.Client{T: t, Base: "http://" + worker.app.Addr()}
	for _, at := range []testkit.Client{r.Client, alone} {
		checkWaits(t, at, "database_unreachable", "postgres")
	}
	refused := r.Call(http.MethodGet, "/v1/chats", nil)
	assert.Truef(t, refused.Status == http.StatusServiceUnavailable && refused.Code() == "not_ready" && refused.Header.Get("Retry-After") != "",
		"/v1/chats: %d %s", refused.Status, refused.Text)
	network.Up()
	for _, at := range []testkit.Client{r.Client, alone} {
		testkit.Eventually(t, "ready", func() bool { return at.Call(http.MethodGet, "/readyz", nil).Status == http.StatusOK })
	}
	r.Say("", "My cello teacher is called Ilse.")
	testkit.Eventually(t, "workers run", func() bool { return r.count("select count(*) from river.river_leader") == 1 })
}

func TestAuthKeysComeLater(t *testing.T) {
	t.Parallel()
	keys := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"keys":[]}`)) }))
	t.Cleanup(keys.Close)
	network := downProxy(t, keys.URL)
	r := newStoppedRig(t, testkit.NewDatabase(t), nil, env{"SUPABASE_URL": "http://" + network.Addr(), "SUPABASE_JWT_SECRET": ""})
	r.node = r.start(app.Role{API: true}, nil)
	checkWaits(t, r.Client, "not_ready", "auth keys")
	network.Up()
	testkit.Eventually(t, "ready", func() bool { return r.Call(http.MethodGet, "/readyz", nil).Status == http.StatusOK })
}

// A model that is away keeps no server from what needs none, and is named.
func TestModelComesLater(t *testing.T) {
	t.Parallel()
	r := newStoppedRig(t, testkit.NewDatabase(t), nil, nil)
	network := downProxy(t, r.model.BaseURL())
	r.newUser()
	r.node = r.start(app.Role{API: true}, env{"OPENAI_BASE_URL": "http://" + network.Addr() + "/v1"})
	degraded := func() any {
		got := r.Call(http.MethodGet, "/readyz", nil)
		assert.Equalf(t, http.StatusOK, got.Status, "%s", got.Text)
		return got.JSON(t)["degraded"]
	}
	assert.Nil(t, degraded(), "before the first call")
	failed := r.Call(http.MethodPost, "/v1/message/first", testkit.Body{"content": "Hello."})
	assert.Equal(t, "upstream_failed", failed.Code())
	assert.Equal(t, []any{"model"}, degraded())
	assert.Equal(t, http.StatusOK, r.Call(http.MethodGet, "/v1/chats", nil).Status, "what needs no model")
	network.Up()
	r.Say("", "Hello again.")
	assert.Nil(t, degraded())
}
