package main

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/config" //nolint:depguard // the server that is measured is configured as any other
)

// The streaming benchmark runs its parts as processes of their own, so that CPU time and memory are
// each one's own: this program again, with the name of a role as its first argument. Such a process
// prints its address, answers each line on its stdin with its usage, and ends with its stdin; a server
// ends in good order with a SIGTERM, too.
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
		address, stop, err = serve(ctx, newPacedModel(ctx))
	case roleRelay:
		address, stop, err = serve(ctx, lineRelay(*model))
	default:
		err = beServer(ctx, *database, *model, *profile, settings)
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

// beServer is `throughline serve` from its start to a SIGTERM or the end of stdin.
func beServer(ctx context.Context, database, model, profile string, settings map[string]string) error {
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

// newServer is a server with nothing changed but the limits that would refuse a load test, and with folds
// out of the way: they have their own benchmark.
func newServer(ctx context.Context, database, model string, settings map[string]string) (*app.App, error) {
	values := map[string]string{
		"DATABASE_URL": database, "HTTP_ADDR": "127.0.0.1:0", "SUPABASE_JWT_SECRET": secret,
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
