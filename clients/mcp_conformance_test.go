package clients_test

import (
	"context"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/internal/testkit"
)

const (
	suite         = "node_modules/@modelcontextprotocol/conformance/dist/index.js"
	notApplicable = "testdata/conformance.yaml"
)

// TestConformance runs the server scenarios of the protocol's conformance suite. Those that do not apply are in a list, with
// reasons; the suite itself reports one that is listed and passes.
func TestConformance(t *testing.T) {
	t.Parallel()
	requireTools(t, notApplicable)
	r := newRig(t)
	ctx, cancel := context.WithTimeout(t.Context(), 8*testkit.Patience) // it waits many times
	defer cancel()
	address := strings.Replace(signedIn(t, r.here.base, r.token), "127.0.0.1", "localhost", 1)
	command := nodeCommand(ctx, nil, suite, "server", "--url", address+"/mcp", "--suite", "all", "--expected-failures", notApplicable)
	command.Dir = "mcp"
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// signedIn is the server with that user's token in each request: the suite has none.
func signedIn(t *testing.T, base, token string) string {
	t.Helper()
	target, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host
			r.Out.Header.Set("Authorization", "Bearer "+token)
		},
		FlushInterval: -1,
	})
	t.Cleanup(proxy.Close)
	return proxy.URL
}
