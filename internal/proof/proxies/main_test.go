// Package proxies proves that the configurations in deploy/ let streams through: it starts nginx, Caddy and HAProxy in
// front of a server, with these very files, and talks to it as a phone does, over TLS and HTTP/2.
package proxies

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/app"
	cells "github.com/arcoscribe/throughline/internal/dev/haproxy"
	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/testkit/program"
)

// These tests mostly wait, so more of them run at once than there are cores.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // -parallel on the command line still decides
	testkit.Main(m)
}

// kind is a proxy.
type kind struct {
	name, program string
	file          string // its configuration, below deploy/
	breaks        bool   // the client's stream when the server's breaks, in Debian's version and over HTTP/2
	args          func(file string) []string
	// adapt returns the configuration for a test: other addresses, and what a whole configuration needs.
	adapt func(config string, at place) string
}

// place is where a proxy runs.
type place struct {
	t                        testing.TB
	dir                      string
	listen, upstream         string // host:port
	certificate, key, bundle string // files
}

var (
	nginx = kind{
		"nginx", "nginx", "nginx/throughline.conf", true,
		func(file string) []string { return []string{"-c", file, "-e", "stderr"} },
		func(config string, at place) string {
			config = at.replace(config, "127.0.0.1:8080", at.upstream, "listen 443", "listen "+at.listen,
				"/etc/letsencrypt/live/api.example.com/fullchain.pem", at.certificate,
				"/etc/letsencrypt/live/api.example.com/privkey.pem", at.key)
			whole := "daemon off;\nmaster_process off;\nworker_processes 1;\npid DIR/pid;\nevents {}\nhttp {\naccess_log off;\n"
			for _, temporary := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
				whole += temporary + "_temp_path DIR/" + temporary + ";\n"
			}
			return strings.ReplaceAll(whole, "DIR", at.dir) + config + "}\n"
		},
	}
	caddy = kind{
		"Caddy", "caddy", "caddy/Caddyfile", false,
		func(file string) []string { return []string{"run", "--adapter", "caddyfile", "--config", file} },
		func(config string, at place) string {
			_, port, _ := net.SplitHostPort(at.listen) // it was made of both
			config = at.replace(config, "\n\treverse_proxy 127.0.0.1:8080", "\n\treverse_proxy "+at.upstream,
				"\napi.example.com {\n", "\nhttps://"+at.listen+", https://api.example.com:"+port+" {\n\ttls "+at.certificate+" "+at.key+"\n")
			return "{\n\tadmin off\n\tauto_https disable_redirects\n\tskip_install_trust\n}\n" + config
		},
	}
	haproxy = kind{
		"HAProxy", "haproxy", "haproxy/haproxy.cfg", false,
		func(file string) []string { return []string{"-db", "-f", file} },
		func(config string, at place) string {
			return at.replace(config, "127.0.0.1:8080", at.upstream, "bind :443", "bind "+at.listen,
				"/etc/haproxy/certs/api.example.com.pem", at.bundle)
		},
	}
	// Its cell a is the server; nothing is at b's place.
	beforeCells = kind{
		"HAProxy before cells", "haproxy", "haproxy/cells.cfg", false,
		func(file string) []string { return []string{"-db", "-f", file} },
		func(_ string, at place) string {
			return at.cells(at.upstream, testkit.FreeAddress(at.t))
		},
	}
	kinds = []kind{nginx, caddy, haproxy, beforeCells}
)

// replace replaces texts that have to be there, once: old, new, old, new …
func (at place) replace(config string, texts ...string) string {
	at.t.Helper()
	for i := 0; i < len(texts); i += 2 {
		if n := strings.Count(config, texts[i]); n != 1 {
			at.t.Fatalf("%q is there %d times in %s", texts[i], n, config)
		}
		config = strings.Replace(config, texts[i], texts[i+1], 1)
	}
	return config
}

// cells is the configuration of HAProxy before two cells.
func (at place) cells(a, b string) string {
	config, err := cells.Cells("../../..", at.dir, at.listen+" ssl crt "+at.bundle+" alpn h2,http/1.1", a, b)
	require.NoError(at.t, err)
	return config
}

// start starts the proxy in front of a server (host:port) and returns its address and what talks to it. changes are texts
// of its configuration and others in their place, for settings that are worse.
func (k kind) start(t testing.TB, upstream string, changes ...string) (base string, client *http.Client) {
	t.Helper()
	program := k.find(t)
	shipped, err := os.ReadFile(filepath.Join("../../../deploy", k.file))
	require.NoError(t, err)
	at := place{t: t, dir: t.TempDir(), listen: testkit.FreeAddress(t), upstream: upstream}
	roots := at.certify()
	file := filepath.Join(at.dir, "configuration")
	at.write(file, k.adapt(at.replace(string(shipped), changes...), at))

	var said bytes.Buffer
	cmd := exec.Command(program, k.args(file)...)
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.Env = append(os.Environ(), "HOME="+at.dir, "XDG_DATA_HOME="+at.dir, "XDG_CONFIG_HOME="+at.dir)
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // it is killed
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // may have ended already
		<-ended
	})
	base = "https://" + at.listen
	client = newClient(roots)
	t.Cleanup(client.CloseIdleConnections)
	testkit.Eventually(t, k.name+" answers", func() bool {
		select {
		case <-ended:
			t.Fatalf("%s ended: %s", k.name, &said)
		default:
		}
		response, err := client.Get(base + "/openapi.json")
		if err != nil {
			return false
		}
		defer func() { _ = response.Body.Close() }() // only the status matters
		return response.StatusCode == http.StatusOK
	})
	return base, client
}

// find returns the program, which scripts/setup test installs.
func (k kind) find(t testing.TB) string {
	t.Helper()
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/usr/local/sbin") {
		if found, err := exec.LookPath(filepath.Join(dir, k.program)); err == nil {
			return found
		}
	}
	t.Skipf("%s is not installed: scripts/setup test installs it", k.program)
	return ""
}

func (at *place) write(file, text string) {
	require.NoError(at.t, os.WriteFile(file, []byte(text), 0o600))
}

// certify writes a certificate for 127.0.0.1, the one of net/http's own tests, and returns who trusts it.
func (at *place) certify() *x509.CertPool {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	pair := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(at.t, err)
	certificatePEM := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}))
	keyPEM := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
	at.certificate, at.key, at.bundle = filepath.Join(at.dir, "cert.pem"), filepath.Join(at.dir, "key.pem"), filepath.Join(at.dir, "both.pem")
	at.write(at.certificate, certificatePEM)
	at.write(at.key, keyPEM)
	at.write(at.bundle, certificatePEM+keyPEM)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return roots
}

// newClient speaks HTTP/2, as phones and browsers do.
func newClient(roots *x509.CertPool) *http.Client {
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true, DisableCompression: true,
	}}
}

// rig is a server with a database and a model, which it can lose and get back at the same address.
type rig struct {
	t        testing.TB
	db       testkit.Database
	settings program.Settings
	held     sync.Map // the answers that wait in their midst, by the message
	stop     func()
	network  *testkit.Proxy // before the server
	token    string
	direct   testkit.Client // past all proxies
}

// spoken is what a held reply says; heard is what it says before its gate.
const spoken, heard = "Grüße aus 世界 👩‍👩‍👧 und noch viel mehr.", "Grüße "

func newRig(t testing.TB, more ...program.Settings) *rig {
	t.Helper()
	db := testkit.NewDatabase(t)
	r := &rig{t: t, db: db}
	model := testkit.NewModel(t, r.answer)
	r.token = testkit.Token(t, testkit.NewUser(t, db))
	r.settings = program.Quiet(db, model).And(program.Settings{
		"HTTP_ADDR": testkit.FreeAddress(t), "MODEL_IDLE_TIMEOUT": "10m",
	})
	for _, settings := range more {
		r.settings = r.settings.And(settings)
	}
	r.start()
	r.network = testkit.NewProxy(t, testkit.HostOf(r.direct.Base))
	return r
}

// answer holds the replies to messages that hold knows.
func (r *rig) answer(request *offline.Request) offline.Answer {
	answer, ok := r.held.Load(request.Current)
	if !ok || request.Kind != offline.KindReply {
		return offline.Answer{}
	}
	return answer.(offline.Answer)
}

// hold makes the reply to a message stop after its first word until the returned function is called.
func (r *rig) hold(content string) (release func()) {
	return r.holdAfter(content, 1, 0)
}

// holdAfter is hold after so many words, with a pause before each.
func (r *rig) holdAfter(content string, words int, pause time.Duration) (release func()) {
	gate := make(chan struct{})
	r.held.Store(content, offline.Answer{Text: spoken, Gate: gate, GateAfter: words, PieceDelay: pause})
	release = sync.OnceFunc(func() { close(gate) })
	r.t.Cleanup(release)
	return release
}

// start starts the server, each time at the same address.
func (r *rig) start() {
	r.t.Helper()
	server := r.settings.Start(r.t, app.Role{API: true}, app.Doubles{Drain: 100 * time.Millisecond})
	r.direct = testkit.Client{T: r.t, Base: server.Base, Token: r.token}
	r.stop = func() { server.StopInTime(r.t) }
	r.t.Cleanup(r.stop)
}

// behind returns a client of the server behind a proxy.
func (r *rig) behind(k kind, changes ...string) testkit.Client {
	r.t.Helper()
	base, client := k.start(r.t, r.network.Addr(), changes...)
	return testkit.Client{T: r.t, Base: base, Token: r.token, HTTP: client}
}
