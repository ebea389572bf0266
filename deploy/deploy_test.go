// Package deploy holds what runs Throughline elsewhere: proxies, containers, systemd, monitoring. Its tests hold these files
// to the program that they speak of; internal/proof/proxies runs the proxies.
package deploy

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/arcoscribe/throughline/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func read(t *testing.T, file string) string {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

// matches returns the first group of each match.
func matches(pattern, text string) []string {
	var found []string
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found = append(found, match[1])
	}
	return found
}

// metric is one of the server's, with its labels.
type metric struct{ labels []string }

// metrics returns the server's metrics by the names that queries use.
func metrics(t *testing.T) map[string]metric {
	all := map[string]metric{"up": {[]string{"job"}}, "process_cpu_seconds_total": {}, "process_resident_memory_bytes": {}, "go_goroutines": {}}
	for line := range strings.Lines(read(t, "../internal/metrics/testdata/names.txt")) {
		words := strings.Fields(line)
		name, kind, labels := words[0], words[1], words[2:]
		if kind != "histogram" {
			all[name] = metric{labels}
			continue
		}
		all[name+"_bucket"] = metric{append(labels, "le")}
		all[name+"_count"], all[name+"_sum"] = metric{labels}, metric{labels}
	}
	return all
}

// checkQuery wants a query to name metrics and labels that exist, and returns the metrics.
func checkQuery(t *testing.T, known map[string]metric, query string) []string {
	names := matches(`\b(throughline_\w+|process_\w+|go_\w+|up)\b`, query)
	labels := []string{"instance", "job"}
	for _, name := range names {
		_, ok := known[name]
		assert.Truef(t, ok, "there is no metric %s: %s", name, query)
		labels = append(labels, known[name].labels...)
	}
	used := matches(`(\w+)(?:=|!=|=~|!~)"`, query)
	for _, list := range matches(`(?:by|on) \(([^)]*)\)`, query) {
		used = append(used, strings.Split(list, ", ")...)
	}
	for _, label := range used {
		assert.Truef(t, slices.Contains(labels, label), "there is no label %s: %s", label, query)
	}
	assert.Truef(t, len(names) != 0, "it asks for no metric: %s", query)
	return names
}

// promtool runs Prometheus' own checker, which scripts/setup test installs.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	program, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed: scripts/setup test installs it")
	}
	if said, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %v: %v\n%s", args, err, said)
	}
}

type rule struct {
	Alert, Record, Expr string
	Annotations         map[string]string
}

func TestEachAlertFiresWhenItShould(t *testing.T) {
	t.Parallel()
	var file struct{ Groups []struct{ Rules []rule } }
	require.NoError(t, yaml.Unmarshal([]byte(read(t, "prometheus/rules.yaml")), &file))
	known, tests := metrics(t), read(t, "prometheus/rules_test.yaml")
	rules := file.Groups[0].Rules
	for _, r := range rules {
		checkQuery(t, known, r.Expr)
		assert.Truef(t, r.Annotations["summary"] != "" && strings.Contains(tests, "alertname: "+r.Alert+"\n"),
			"%s has no summary, or no test", r.Alert)
	}
	assert.Truef(t, len(rules) >= 15, "there are %d alerts", len(rules))
	promtool(t, "check", "rules", "prometheus/rules.yaml")
	promtool(t, "test", "rules", "prometheus/rules_test.yaml")
}

// The page for operators tells of these alerts and no others.
func TestEachAlertIsDocumented(t *testing.T) {
	t.Parallel()
	page, rules := read(t, "../docs/operations.md"), read(t, "prometheus/rules.yaml")
	_, table, _ := strings.Cut(page, "alert on")
	table, _, _ = strings.Cut(table, "`throughline work` has")
	for _, name := range matches("(?m)^\\| `(throughline_\\w+)", table) {
		// How long a call takes is on the board: the limit depends on the model.
		assert.Truef(t, strings.Contains(rules, name) || strings.HasSuffix(name, "_duration_seconds") || name == "throughline_memory_dropped_total",
			"no rule for %s", name)
	}
}

type panel struct {
	Title   string
	Targets []struct{ Expr string }
	GridPos struct{ X, Y, W, H int }
}

func TestTheBoardShowsEveryMetric(t *testing.T) {
	t.Parallel()
	var board struct{ Panels []panel }
	require.NoError(t, json.Unmarshal([]byte(read(t, "grafana/throughline.json")), &board))
	known, shown := metrics(t), map[string]bool{}
	var file strings.Builder
	file.WriteString("groups:\n- name: board\n  rules:\n")
	for _, p := range board.Panels {
		assert.Truef(t, p.GridPos.X+p.GridPos.W <= 24, "%s is too wide", p.Title)
		for _, target := range p.Targets {
			query := strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*").Replace(target.Expr)
			for _, name := range checkQuery(t, known, query) {
				shown[name] = true
			}
			quoted, err := json.Marshal(query)
			require.NoError(t, err)
			file.WriteString("  - {record: checked, expr: " + string(quoted) + ", labels: {at: " + string(quoted) + "}}\n")
		}
	}
	for name := range known {
		base := strings.TrimSuffix(strings.TrimSuffix(name, "_sum"), "_count")
		assert.Truef(t, !strings.HasPrefix(name, "throughline_") || shown[name] || shown[base+"_bucket"],
			"the board does not show %s", name)
	}
	queries := filepath.Join(t.TempDir(), "queries.yaml")
	require.NoError(t, os.WriteFile(queries, []byte(file.String()), 0o600))
	promtool(t, "check", "rules", queries)
}

// settings returns the names of the variables that the program reads.
func settings(t *testing.T) []string {
	return matches(`(?m)^([A-Z_]+)=`, read(t, "../.env.example"))
}

// commands returns the names of the program's commands.
func commands(t *testing.T) []string {
	return matches(`(?m)^\t\{"([a-z ]+)", "`, read(t, "../cmd/throughline/commands.go"))
}

func TestTheImageIsOfThisProgram(t *testing.T) {
	t.Parallel()
	file := read(t, "../Dockerfile")
	stages := strings.Split(file, "\nFROM ")
	last := stages[len(stages)-1]
	assert.Truef(t, strings.HasPrefix(last, "scratch\n") && regexp.MustCompile(`(?m)^USER [1-9]\d*:[1-9]\d*$`).MatchString(last),
		"the image is not from scratch, or its user is not a number: %s", last)
	for _, name := range matches(`internal/app\.(\w+)=`, file) {
		assert.Truef(t, regexp.MustCompile(`(?m)^var .*\b`+name+`\b`).MatchString(read(t, "../internal/app/version.go")),
			"the linker sets %s, which is not there", name)
	}
	for _, name := range matches(`(?m)^ENV (\w+)=`, last) {
		assert.Truef(t, slices.Contains(settings(t), name), "there is no setting %s", name)
	}
	for _, name := range append(matches(`CMD \["/throughline", "(\w+)"`, last), matches(`(?m)^CMD \["(\w+)"`, last)...) {
		assert.Truef(t, slices.Contains(commands(t), name), "there is no command %s", name)
	}
	assert.True(t, strings.Contains(file, "CGO_ENABLED=0") && strings.Contains(file, "install -d -m 1777 /out/tmp"),
		"the program is not static, or has no place for the files of imports")
}

// The builder gets nothing but sources: no .env, no repository.
func TestTheImageIsBuiltFromSourcesAlone(t *testing.T) {
	t.Parallel()
	var allowed []string
	lines := strings.Split(strings.TrimSpace(read(t, "../.dockerignore")), "\n")
	for _, line := range lines {
		if path, ok := strings.CutPrefix(line, "!"); ok {
			allowed = append(allowed, path)
		}
	}
	assert.Equal(t, "*", lines[1], "not all is left out first")
	want := []string{"go.mod", "go.sum", "LICENSE", "cmd", "internal", "jobs", "streaming", "supabase", "clients/src"}
	assert.Truef(t, slices.Equal(allowed, want), "the builder gets %v", allowed)
	for _, path := range matches(`(?m)^COPY (go\.\w+|internal/\S+|clients/\S+)`, read(t, "../Dockerfile")) {
		_, err := os.Stat(filepath.Join("..", path))
		assert.NoError(t, err)
	}
}

type service struct {
	Command     []string
	Environment map[string]any
	StopGrace   string `yaml:"stop_grace_period"`
	Healthcheck struct{ Test []string }
}

func TestComposeNamesWhatIsThere(t *testing.T) {
	t.Parallel()
	var file struct{ Services map[string]service }
	require.NoError(t, yaml.Unmarshal([]byte(read(t, "compose.yaml")), &file))
	for name, s := range file.Services {
		if !strings.HasPrefix(name, "throughline") || name == "throughline-login" {
			continue
		}
		assert.Truef(t, len(s.Command) == 1 && slices.Contains(commands(t), s.Command[0]), "%s runs %v", name, s.Command)
		if s.Command[0] != "migrate" && s.StopGrace != "40s" { // twice the drain time and ten seconds
			t.Errorf("%s has %q to stop", name, s.StopGrace)
		}
		assert.Truef(t, len(s.Environment) != 0, "%s has no settings", name)
		for variable := range s.Environment {
			assert.Truef(t, slices.Contains(settings(t), variable), "%s: there is no setting %s", name, variable)
		}
	}
	assert.Truef(t, len(file.Services) == 5, "there are %d services", len(file.Services))
}

// What compose runs after the migrations lets servers log in, with any password.
func TestComposeLetsServersLogIn(t *testing.T) {
	t.Parallel()
	var file struct{ Services map[string]service }
	require.NoError(t, yaml.Unmarshal([]byte(read(t, "compose.yaml")), &file))
	login := file.Services["throughline-login"]
	require.Contains(t, file.Services["throughline"].Environment["DATABASE_URL"], "//throughline_server:${THROUGHLINE_PASSWORD:-${POSTGRES_PASSWORD:?}}@")
	require.Contains(t, login.Environment, "THROUGHLINE_PASSWORD")
	server := testkit.NewServer(t)
	admin := testkit.Connect(t, server.AdminDSN)
	testkit.Exec(t, admin, "alter role throughline_server nologin")
	host, port, err := net.SplitHostPort(testkit.HostOf(server.Direct()))
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), "sh", "-c", login.Command[0])
	command.Env = append(os.Environ(), "PGHOST="+host, "PGPORT="+port, "PGUSER=postgres", "PGDATABASE=postgres", `THROUGHLINE_PASSWORD=it's "a" $1 \ password`)
	said, err := command.CombinedOutput()
	require.NoError(t, err, "%s", said)
	assert.True(t, testkit.Ask[bool](t, admin, "select rolcanlogin and rolpassword is not null from pg_authid where rolname = 'throughline_server'"))
}

func TestSystemdUnit(t *testing.T) {
	t.Parallel()
	unit := read(t, "systemd/throughline.service")
	for _, name := range matches(`(?m)^Exec\w+=/usr/local/bin/throughline (\w+)`, unit) {
		assert.Truef(t, slices.Contains(commands(t), name), "there is no command %s", name)
	}
	if !slices.Equal(matches(`(?m)^TimeoutStopSec=(\d+)$`, unit), []string{"55"}) { // docs/operations.md: Stopping
		t.Error("another time to stop than the one that is documented")
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd is not installed")
	}
	// It looks for the program, which need not be installed here.
	file := filepath.Join(t.TempDir(), "throughline.service")
	require.NoError(t,
		os.WriteFile(file, []byte(strings.ReplaceAll(unit, "/usr/local/bin/throughline", "/bin/true")), 0o600))
	for _, args := range [][]string{{"verify", file}, {"security", "--offline=true", "--threshold=20", file}} {
		if said, err := exec.Command(analyze, args...).CombinedOutput(); err != nil {
			t.Errorf("systemd-analyze %s: %v\n%s", args[0], err, said)
		}
	}
}
