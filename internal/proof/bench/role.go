package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
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

// The streaming benchmark runs its parts as processes, so that CPU time and memory are counted for each: this
// program again, with the name of a role as its first argument. Such a process is a kit.Helper that answers each
// line with its usage. A server ends in good order after a SIGTERM, too.
const (
	roleModel  = "role-model"  // speaks tokens at a steady pace
	roleRelay  = "role-relay"  // copies lines, the least that can stand in between
	roleServer = "role-server" // ours
)

func isRole(args []string) bool {
	return len(args) > 0 && slices.Contains([]string{roleModel, roleRelay, roleServer}, args[0])
}

func runRole(args []string) (exitCode int) {
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	model := flags.String("model", "", "base URL of the model")
	database := flags.String("database", "", "DSN")
	profile := flags.String("profile", "", "folder for profiles")
	settings := map[string]string{}
	flags.Func("set", "NAME=VALUE of the server's configuration", func(text string) error {
		name, value, _ := strings.Cut(text, "=")
		settings[name] = value
		return nil
	})
	if err := flags.Parse(args[1:]); err != nil {
		return 2
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var address string
	var stop func()
	var err error
	switch args[0] {
	case roleModel:
		address, stop, err = kit.Serve(ctx, newPacedModel(ctx), 0)
	case roleRelay:
		address, stop, err = kit.Serve(ctx, lineRelay(*model), 0)
	default:
		err = runServer(ctx, *database, *model, *profile, settings)
	}
	if err == nil && stop != nil {
		defer stop()
		err = answerUsage(args[0], address, *profile)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, args[0]+":", err)
		return 1
	}
	return 0
}

// runServer is `throughline serve` from its start to a SIGTERM or the end of stdin.
func runServer(ctx context.Context, database, model, profile string, settings map[string]string) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	server, err := newServer(ctx, database, model, settings)
	if err != nil {
		return err
	}
	answered := make(chan error, 1)
	go func() {
		answered <- answerUsage(roleServer, "http://"+server.Addr(), profile)
		stop()
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

// newServer is a server with nothing changed but the limits that would refuse a load test, and with folds out of
// the way: they have their own benchmark.
func newServer(ctx context.Context, database, model string, settings map[string]string) (*app.App, error) {
	values := map[string]string{
		"DATABASE_URL": database, "HTTP_ADDR": "127.0.0.1:0", "SUPABASE_JWT_SECRET": kit.Secret,
		"OPENAI_API_KEY": "bench", "OPENAI_BASE_URL": model + "/v1",
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
func answerUsage(role, address, profile string) error {
	if profile != "" {
		file, err := os.Create(filepath.Join(profile, role+".pprof"))
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
		if name, asked := strings.CutPrefix(lines.Text(), snapshot+" "); asked && profile != "" {
			if err := takeSnapshot(filepath.Join(profile, role+"-"+name)); err != nil {
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

// ownUsage reads the CPU time in microseconds, which /proc counts in hundredths of a second. Memory is what Go
// has of it where there is no /proc.
func ownUsage() (kit.Usage, error) {
	var found syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &found); err != nil {
		return kit.Usage{}, err
	}
	used := kit.UsageOf(os.Getpid())
	used.CPU = time.Duration(found.Utime.Nano() + found.Stime.Nano())
	if used.RSS == 0 {
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		used.RSS = int64(stats.Sys - stats.HeapReleased)
	}
	return used, nil
}

// process is a role, or a program of others. One goroutine uses it. Stop it.
type process struct {
	*kit.Helper
	// foreign is a program of others, which cannot be asked what it uses.
	foreign bool
}

func startRole(ctx context.Context, args ...string) (*process, error) {
	helper, err := kit.StartRole(ctx, args...)
	if err != nil {
		return nil, err
	}
	return &process{Helper: helper}, nil
}

// usage asks the process what it has used, or the system where the process is foreign.
func (p *process) usage() (now kit.Usage, err error) {
	if !p.foreign {
		return now, p.Ask("usage", &now)
	}
	if now = kit.UsageWithChildren(p.PID()); now.RSS == 0 {
		return now, errors.New("the system does not tell what another process uses")
	}
	return now, nil
}

// snapshot makes a process that was started with a folder for profiles write some.
func (p *process) snapshot(name string) error {
	return p.Ask(snapshot+" "+name, &kit.Usage{})
}

// watch returns what the process uses between two moments: its CPU time, and its memory at most.
func (p *process) watch(ctx context.Context, from, to time.Time) (kit.Usage, error) {
	const every = 200 * time.Millisecond
	if err := kit.SleepUntil(ctx, from); err != nil {
		return kit.Usage{}, err
	}
	first, err := p.usage()
	now, most := first, first.RSS
	for err == nil && time.Now().Before(to) {
		if err = kit.Sleep(ctx, min(every, time.Until(to))); err == nil {
			now, err = p.usage()
			most = max(most, now.RSS)
		}
	}
	return kit.Usage{CPU: now.CPU - first.CPU, RSS: most}, err
}

// watchPostgres returns the CPU time that Postgres uses between two moments.
func (e *environment) watchPostgres(ctx context.Context, from, to time.Time) (time.Duration, error) {
	if err := kit.SleepUntil(ctx, from); err != nil {
		return 0, err
	}
	before, _, err := kit.UsageOfPostgres(ctx, e.admin)
	if err != nil {
		return 0, err
	}
	if err := kit.SleepUntil(ctx, to); err != nil {
		return 0, err
	}
	after, _, err := kit.UsageOfPostgres(ctx, e.admin)
	return after.CPU - before.CPU, err
}
