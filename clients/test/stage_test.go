package clients_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/testkit"
)

// stage is a server for a script that runs apps: the script fetches its next order here and reports the state of its
// apps. A page loads its script from here as well.
type stage struct {
	t      *testing.T
	origin string // http://127.0.0.1:port, the page's origin
	server *http.Server
	orders chan order
	over   chan struct{} // closed at the end

	mu       sync.Mutex
	bundle   []byte
	reports  map[string]report // by app, the latest
	changed  chan struct{}     // closed at the next report
	broken   string            // what went wrong in the script
	loaded   chan struct{}     // closed when the script asks for its first order
	isLoaded func()
}

// order is one action for an app.
type order struct {
	App  string         `json:"app"`
	Do   string         `json:"do"`
	With map[string]any `json:"with"`
}

// report is an app's state, as JSON.
type report = json.RawMessage

func newStage(t *testing.T) *stage {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &stage{t: t, origin: "http://" + listener.Addr().String(), orders: make(chan order, 64), over: make(chan struct{}),
		reports: map[string]report{}, changed: make(chan struct{}), loaded: make(chan struct{})}
	s.isLoaded = sync.OnceFunc(func() { close(s.loaded) })
	routes := http.NewServeMux()
	routes.HandleFunc("GET /{$}", s.page)
	routes.HandleFunc("GET /bundle.js", s.script)
	routes.HandleFunc("GET /next", s.next)
	routes.HandleFunc("POST /report/{app}", s.take)
	routes.HandleFunc("POST /broken", s.takeBroken)
	s.server = &http.Server{Handler: routes, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.server.Serve(listener) // it ends when it is closed
	}()
	t.Cleanup(func() {
		close(s.over)
		_ = s.server.Close()
		<-served
	})
	return s
}

// give sends an order to an app.
func (s *stage) give(t *testing.T, o order) {
	t.Helper()
	select {
	case s.orders <- o:
	case <-time.After(testkit.Patience):
		t.Errorf("no handler for the order %s", o.Do)
	}
}

func (s *stage) page(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprint(w, `<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><title>app</title><pre id="seen"></pre><script type="module" `+
		`src="/bundle.js"></script>`)
}

func (s *stage) script(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = w.Write(s.bundle) // a page that is gone needs none
}

// next answers with one order. After a while without one it answers with 204, and the script asks again.
func (s *stage) next(w http.ResponseWriter, r *http.Request) {
	s.isLoaded()
	select {
	case o := <-s.orders:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(o) // a page that is gone does nothing any more
	case <-time.After(20 * time.Second):
		w.WriteHeader(http.StatusNoContent)
	case <-s.over:
		w.WriteHeader(http.StatusGone)
	case <-r.Context().Done():
	}
}

func (s *stage) take(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil || !json.Valid(raw) {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reports[r.PathValue("app")] = raw
	s.announce()
	w.WriteHeader(http.StatusNoContent)
}

func (s *stage) takeBroken(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body) // what came of it
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = string(raw)
	s.announce()
	w.WriteHeader(http.StatusNoContent)
}

// announce wakes the waiters; the lock is held.
func (s *stage) announce() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// await waits until an app's latest report satisfies holds. what names the condition in a failure.
func (s *stage) await(t *testing.T, what, app string, holds func(report) bool) {
	t.Helper()
	timeout := time.NewTimer(testkit.Patience)
	defer timeout.Stop()
	for {
		s.mu.Lock()
		latest, broken, changed := s.reports[app], s.broken, s.changed
		s.mu.Unlock()
		require.Equalf(t, "", broken, "the script broke while the test waited for this: %s", what)
		if latest != nil && holds(latest) {
			return
		}
		select {
		case <-changed:
		case <-timeout.C:
			t.Fatalf("in vain: %s. The app's last report: %s", what, latest)
		}
	}
}

// runInNode runs a script in Node until the test ends.
func (s *stage) runInNode(script string, more env) {
	s.t.Helper()
	requireBuild(s.t)
	noticeScripts(s.t)
	variables := env{"STAGE": s.origin}
	maps.Copy(variables, more)
	startProcess(s.t, nodeCommand(s.t.Context(), variables, script))
	s.awaitLoaded(script)
}

// runInBrowser bundles a script with the packages it imports and opens a page with it in headless
// Chromium until the test ends. aliases stand in for packages, as name=file; flags are the browser's.
func (s *stage) runInBrowser(script string, aliases []string, flags ...string) {
	s.t.Helper()
	bundle, err := os.ReadFile(bundleScript(s.t, script, "browser", aliases))
	require.NoError(s.t, err)
	s.mu.Lock()
	s.bundle = bundle
	s.mu.Unlock()
	openBrowser(s.t, s.origin+"/", flags...)
	s.awaitLoaded(script)
}

func (s *stage) awaitLoaded(script string) {
	s.t.Helper()
	select {
	case <-s.loaded:
	case <-time.After(testkit.Patience):
		s.t.Fatalf("%s does not run", script)
	}
}

// noticeScripts opens each script, so that the go command does not use a cached result after one has changed.
func noticeScripts(t *testing.T) {
	for _, pattern := range []string{"*.js*", "*/*.js*", "*/testdata/*.js", "testdata/*/*.[cmjt]*s*", "dist/*/*.js", "expo/*.ts*", "expo/src/*"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		requireFiles(t, files...)
	}
}

// bundleScript bundles a script and its imports, for a platform of esbuild, into one file, whose name it gives.
func bundleScript(t *testing.T, script, platform string, aliases []string) string {
	requireFiles(t, "node_modules/esbuild")
	requireBuild(t)
	noticeScripts(t)
	out := filepath.Join(t.TempDir(), "bundle.mjs")
	arguments := []string{
		"node_modules/esbuild/bin/esbuild", script, "--bundle", "--platform=" + platform, "--format=esm", "--target=es2022",
		"--loader:.js=jsx", "--jsx=automatic", "--log-level=warning", "--outfile=" + out,
	}
	for _, alias := range aliases {
		arguments = append(arguments, "--alias:"+alias)
	}
	output, err := nodeCommand(t.Context(), nil, arguments...).CombinedOutput()
	require.Truef(t, err == nil, "bundling %s: %v\n%s", script, err, output)
	return out
}

// startCues starts a server that lets a script of runNode run functions of the test: POST <URL>/<name> runs the
// function of that name and answers when it is done. It listens until the test ends.
func startCues(t *testing.T, cues map[string]func()) (url string) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cue, known := cues[r.URL.Path[1:]]
		if !known || r.Method != http.MethodPost {
			http.NotFound(w, r)
			return
		}
		cue()
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// browserFlags start a headless browser that stores nothing and connects only to the page's servers. It has no sandbox,
// because containers allow none and it runs only this folder's code.
var browserFlags = []string{
	"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--disable-breakpad",
	"--no-first-run", "--log-level=3", "--disable-background-networking", "--disable-component-update", "--disable-sync",
	"--disable-default-apps", "--disable-extensions", "--no-proxy-server",
	"--disable-background-timer-throttling", "--disable-renderer-backgrounding",
}

// openBrowser opens a page until the test ends. A browser that crashes as it starts, as on a crowded machine, is started
// again.
func openBrowser(t *testing.T, url string, more ...string) {
	t.Helper()
	arguments := append([]string{"-c", `"$@" || "$@" || "$@"`, "sh", testkit.FindBrowser(t)}, browserFlags...)
	arguments = append(append(arguments, more...), "--user-data-dir="+t.TempDir(), url)
	startProcess(t, exec.Command("sh", arguments...))
}

// startProcess runs a program until the test ends, and kills its children as well. Its output is shown when the test
// failed.
func startProcess(t *testing.T, command *exec.Cmd) {
	t.Helper()
	output := &testkit.Log{}
	command.Stdout, command.Stderr = output, output
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.WaitDelay = 5 * time.Second
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) // the whole group; it may be gone already
		_ = command.Wait()                                      // it was killed
		if t.Failed() {
			t.Logf("%s wrote:\n%s", command.Path, output)
		}
	})
}
