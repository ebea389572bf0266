package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/config" //nolint:depguard // the server that is measured is configured as any other
)

// The streaming benchmark runs its parts as processes of their own, so that CPU time and memory are
// each one's own: this program again, with the name of a role as its first argument. Such a process
// prints its address, answers each line on its stdin with its usage, and ends with its stdin.
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
	profile := flags.String("profile", "", "folder for a CPU profile")
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
		address, stop, err = serve(ctx, newPacedModel(ctx))
	case roleRelay:
		address, stop, err = serve(ctx, lineRelay(*model))
	default:
		address, stop, err = serveOurs(ctx, *database, *model)
	}
	if err == nil {
		defer stop()
		err = answerUsage(args[0], address, *profile)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, args[0]+":", err)
		return 1
	}
	return 0
}

// serveOurs is `throughline serve`, with nothing changed but the limits that would refuse a load test,
// and with folds out of the way: they have their own benchmark.
func serveOurs(ctx context.Context, database, model string) (base string, stop func(), err error) {
	values := map[string]string{
		"DATABASE_URL": database, "HTTP_ADDR": "127.0.0.1:0", "SUPABASE_JWT_SECRET": secret,
		"OPENAI_API_KEY": "bench", "OPENAI_BASE_URL": model + "/v1",
		"RATE_LIMIT_MESSAGES_PER_MINUTE": "0", "MAX_STREAMS_PER_USER": "0", "MEMORY_CHUNK_SUMMARIZE_THRESHOLD": "1000000", "DRAIN_TIMEOUT": "5s",
	}
	cfg, err := config.Parse(func(name string) (string, bool) { value, ok := values[name]; return value, ok }, false)
	if err != nil {
		return "", nil, err
	}
	// Lines are formatted as in production, but go nowhere.
	logger := slog.New(slog.NewJSONHandler(io.Discard, nil)) //nolint:sloglint // formatting is part of what a request costs
	server, err := app.New(ctx, cfg, app.Role{API: true, Workers: true}, logger)
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Run(ctx); err != nil {
			fmt.Fprintln(os.Stderr, roleServer+":", err)
		}
	}()
	return "http://" + server.Addr(), func() { cancel(); <-done }, nil
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

// usage is what a process has used. CPU counts from its start.
type usage struct {
	CPU time.Duration `json:"cpu_ns"`
	RSS int64         `json:"rss_bytes"`
}

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

func ownUsage() (usage, error) {
	var found syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &found); err != nil {
		return usage{}, err
	}
	return usage{CPU: time.Duration(found.Utime.Nano() + found.Stime.Nano()), RSS: residentBytes()}, nil
}

// residentBytes is the process's memory; where the system does not tell, what Go has of it.
func residentBytes() int64 {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "VmRSS:" {
			kilobytes, _ := strconv.ParseInt(fields[1], 10, 64)
			return kilobytes << 10
		}
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.Sys - stats.HeapReleased)
}
