package main

import (
	"net"
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/internal/testkit"
)

// The image's health check has nothing but the program: no shell, no curl.
func TestHealth(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	server := r.start(env{"HTTP_ADDR": "0.0.0.0:0"}, "serve", "--no-workers")
	_, port, err := net.SplitHostPort(testkit.HostOf(server.Base))
	if err != nil {
		t.Fatal(err)
	}
	at := env{"HTTP_ADDR": ":" + port}
	unready := r.start(env{"DATABASE_URL": nobody, "DATABASE_DIRECT_URL": nobody}, "serve", "--no-workers")
	there := env{"HTTP_ADDR": testkit.HostOf(unready.Base)}
	for _, c := range []struct {
		name string
		env  env
		args []string
		code int
		says string
	}{
		{"a server that lives", at, []string{"health"}, exitDone, `"status":"ok"`},
		{"a server that can serve", at, []string{"health", "--ready"}, exitDone, `"status":"ready"`},
		{"by all addresses", env{"HTTP_ADDR": "0.0.0.0:" + port}, []string{"health"}, exitDone, `"version":`},
		{"a server that cannot serve lives all the same", there, []string{"health"}, exitDone, `"status":"ok"`},
		{"and is not ready", there, []string{"health", "--ready"}, exitFailed, "database_unreachable"},
		{"nobody there", env{"HTTP_ADDR": "127.0.0.1:1"}, []string{"health"}, exitFailed, "connection refused"},
		{"another program", env{"HTTP_ADDR": testkit.HostOf(r.model.BaseURL())}, []string{"health"}, exitFailed, "401"},
		{"an address that is none", env{"HTTP_ADDR": "nowhere"}, []string{"health"}, exitUsage, "HTTP_ADDR"},
	} {
		code, stdout, stderr := finish(t, c.env, c.args...)
		if said := stdout + stderr; code != c.code || !strings.Contains(said, c.says) {
			t.Errorf("%s: exit code %d, %s", c.name, code, said)
		}
	}
	server.terminate()
}
