package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/config" //nolint:depguard // the server that is measured is configured as any other
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// The streaming benchmarks run their parts as processes, so that CPU time and memory are counted for each: this
// program again, in a role. Such a process is a kit.Helper that answers each line with its usage.
const (
	roleModel  = "the model"       // speaks tokens at a steady pace
	roleRelay  = "bare line relay" // copies lines, the least that can stand in between
	roleServer = "ours"            // ends in good order after a SIGTERM, too
)

// role is what such a process does: its second argument, in JSON, after roleArgument.
type role struct {
	Kind     string
	Model    string            // base URL
	Database string            // DSN
	Profile  string            // folder for profiles of the server, "" for none
	Settings map[string]string // of the server's configuration
}

const roleArgument = "role"

func isRole(args []string) bool { return len(args) == 2 && args[0] == roleArgument }

func runRole(text string) (exitCode int) {
	var r role
	err := json.Unmarshal([]byte(text), &r)
	if err == nil {
		err = r.run(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, r.Kind+":", err)
		return 1
	}
	return 0
}

func (r role) run(ctx context.Context) error {
	var handler http.Handler
	switch r.Kind {
	case roleModel:
		handler = newPacedModel(ctx)
	case roleRelay:
		handler = lineRelay(r.Model)
	default:
		return r.serve(ctx)
	}
	address, stop, err := kit.Serve(ctx, handler, 0)
	if err != nil {
		return err
	}
	defer stop()
	return answerUsage(address, "")
}

// serve is `throughline serve` from its start to a SIGTERM or the end of stdin.
func (r role) serve(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	server, err := newServer(ctx, r.Database, r.Model, r.Settings)
	if err != nil {
		return err
	}
	answered := make(chan error, 1)
	go func() {
		defer stop()
		address := "http://" + server.Addr()
		if err := awaitReady(ctx, address); err != nil {
			answered <- err
			return
		}
		answered <- answerUsage(address, r.Profile)
	}()
	if err := server.Run(ctx); err != nil {
		return err
	}
	select {
	case err = <-answered:
	default: // a SIGTERM was first
	}
	return err
}

// awaitReady waits as a load balancer does before it sends requests to a server.
func awaitReady(ctx context.Context, address string) error {
	const again = 20 * time.Millisecond
	for {
		_, err := kit.Get(ctx, http.DefaultClient, address+"/readyz")
		if err == nil {
			return nil
		}
		if kit.Sleep(ctx, again) != nil {
			return err
		}
	}
}

// newServer is a server with nothing changed but the limits that would refuse a load test, and with folds out of
// the way: they have their own benchmark.
func newServer(ctx context.Context, database, model string, settings map[string]string) (*app.App, error) {
	values := map[string]string{
		"DATABASE_URL": database, "HTTP_ADDR": "127.0.0.1:0", "SUPABASE_JWT_SECRET": kit.Secret,
		"OPENAI_API_KEY": "bench", "OPENAI_BASE_URL": model + "/v1", "EMBEDDING_MODEL": "none", "TOPICS": "off", "LONG_TERM_MEMORY": "false",
		"RATE_LIMIT_MESSAGES_PER_MINUTE": "0", "MAX_STREAMS_PER_USER": "0", "MEMORY_CHUNK_SUMMARIZE_THRESHOLD": "1000000", "DRAIN_TIMEOUT": "5s",
	}
	maps.Copy(values, settings)
	cfg, err := config.Parse(func(name string) (string, bool) { value, ok := values[name]; return value, ok }, false)
	if err != nil {
		return nil, err
	}
	// Lines are formatted as in production, but go nowhere.
	logger := slog.New(slog.NewJSONHandler(io.Discard, nil)) //nolint:sloglint // formatting is part of what a request costs
	return app.New(ctx, cfg, app.Role{API: true, Workers: true}, logger)
}

// lineRelay passes requests on and copies the answer line by line, flushed at the end of each event.
func lineRelay(model string) http.Handler {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 1024, 1024
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		request, err := http.NewRequestWithContext(r.Context(), r.Method, model+r.URL.Path, bytes.NewReader(body)) //nolint:gosec // from loopback to loopback
		if err != nil {
			return
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer func() { _ = response.Body.Close() }()
		w.Header().Set("Content-Type", "text/event-stream")
		flush := http.NewResponseController(w).Flush
		lines := bufio.NewReader(response.Body)
		for {
			line, err := lines.ReadSlice('\n')
			if _, writeErr := w.Write(line); err != nil || writeErr != nil {
				return
			}
			if len(line) == 1 && flush() != nil {
				return
			}
		}
	})
}

// answerUsage prints the address and answers each line on stdin with what the process has used, until stdin ends.
func answerUsage(address, profile string) error {
	if profile != "" {
		file, err := os.Create(filepath.Join(profile, "server.pprof"))
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // a profile that is cut off shows when it is read
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	if _, err := fmt.Fprintln(os.Stdout, address); err != nil {
		return err
	}
	encoder := json.NewEncoder(os.Stdout)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if name, asked := strings.CutPrefix(lines.Text(), snapshot+" "); asked {
			if err := takeSnapshot(filepath.Join(profile, "server-"+name)); err != nil {
				return err
			}
		}
		now, err := ownUsage()
		if err != nil {
			return err
		}
		if err := encoder.Encode(now); err != nil {
			return err
		}
	}
	return nil
}

// snapshot is a request on stdin, with a name: write a heap profile and a dump of the goroutines.
const snapshot = "snapshot"

func takeSnapshot(path string) error {
	runtime.GC() // a heap profile shows the last collection
	for _, kind := range []string{"heap", "goroutine"} {
		file, err := os.Create(path + "." + kind)
		if err != nil {
			return err
		}
		if err := errors.Join(pprof.Lookup(kind).WriteTo(file, 0), file.Close()); err != nil {
			return err
		}
	}
	return nil
}

// ownUsage reads the CPU time in microseconds, which /proc counts in hundredths of a second.
func ownUsage() (kit.Usage, error) {
	var found syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &found)
	used := kit.UsageOf(os.Getpid())
	used.CPU = time.Duration(found.Utime.Nano() + found.Stime.Nano())
	return used, err
}

func startRole(ctx context.Context, r role) (*kit.Helper, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return kit.StartRole(ctx, roleArgument, string(text))
}

// fleet is a model and the processes that stream from it, after it. Stop it.
type fleet []endpoint

// startFleet starts a model, and then roles behind it: servers are as described.
func (e *environment) startFleet(ctx context.Context, server role, kinds ...string) (fleet, error) {
	var f fleet
	for _, kind := range append([]string{roleModel}, kinds...) {
		r := role{}
		if kind == roleServer {
			r = server
			r.Database = e.at.server
		}
		if r.Kind = kind; len(f) > 0 {
			r.Model = f[0].Address
		}
		helper, err := startRole(ctx, r)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", kind, err), f.stop())
		}
		f = append(f, endpoint{Helper: helper, name: kind, ours: kind == roleServer})
	}
	return f, nil
}

func (f fleet) stop() error {
	var errs []error
	for _, p := range slices.Backward(f) {
		errs = append(errs, p.Stop())
	}
	return errors.Join(errs...)
}

// usage asks the process what it has used, or the system where the process is foreign.
func (p endpoint) usage() (now kit.Usage, err error) {
	if !p.foreign {
		return now, p.Ask("usage", &now)
	}
	if now = kit.UsageWithChildren(p.PID()); now.RSS == 0 {
		return now, errors.New("the system does not tell what another process uses")
	}
	return now, nil
}

// watch returns what is used between two moments: the CPU time, and the memory at most, asked for in steps.
func watch(ctx context.Context, from, to time.Time, step time.Duration, usage func() (kit.Usage, error)) (kit.Usage, error) {
	if err := kit.SleepUntil(ctx, from); err != nil {
		return kit.Usage{}, err
	}
	first, err := usage()
	now, most := first, first.RSS
	for err == nil && time.Now().Before(to) {
		if err = kit.Sleep(ctx, min(step, time.Until(to))); err == nil {
			now, err = usage()
			most = max(most, now.RSS)
		}
	}
	return kit.Usage{CPU: now.CPU - first.CPU, RSS: most}, err
}
