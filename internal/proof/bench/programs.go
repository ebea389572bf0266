package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/dev/embedder"
	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// What stands beside the program runs in processes of its own, so that the system counts CPU time and memory for each:
// this program again, in a role.
const (
	roleModel    = "the model"       // see pacedModel
	roleRelay    = "bare line relay" // copies lines, the least that can stand in between
	roleEmbedder = "the embedder"    // the keyless one, in a process below
)

// role is what such a process does: its second argument, in JSON, after roleArgument.
type role struct {
	Kind   string
	Model  string // base URL of the relay's
	Source string // folder of this module, for the embedder
	// Words makes a model whose replies have so many words, with a pause before each, and not tokens at a steady pace;
	// Summary is what it takes for one, "" for what the offline model makes of the turns.
	Words   int
	Pause   time.Duration
	Summary string
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

// run prints its address and ends when stdin does.
func (r role) run(ctx context.Context) error {
	var handler http.Handler
	switch r.Kind {
	case roleModel:
		rest := offline.New(offline.Options{Script: r.script, PieceDelay: r.Pause})
		defer rest.Close()
		handler = newPacedModel(ctx, rest, r.Words > 0)
	case roleRelay:
		handler = lineRelay(r.Model)
	case roleEmbedder:
		return r.embed(ctx)
	default:
		return fmt.Errorf("there is no role %q", r.Kind)
	}
	address, stop, err := kit.Serve(ctx, handler, 0)
	if err != nil {
		return err
	}
	defer stop()
	return untilStdinEnds(address)
}

func untilStdinEnds(address string) error {
	if _, err := fmt.Fprintln(os.Stdout, address); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

func (r role) embed(ctx context.Context) error {
	e, err := embedder.Start(ctx, r.Source, quiet())
	if err != nil {
		return err
	}
	defer e.Close()
	return untilStdinEnds(e.BaseURL())
}

// script answers as often as it can with a text that is ready: the work of the model is not what is measured.
func (r role) script(asked *offline.Request) offline.Answer {
	switch {
	case asked.Kind == offline.KindSummary || asked.Kind == offline.KindTopic:
		return offline.Answer{Text: r.Summary}
	case r.Words == 0 || !asked.Stream:
		return offline.Answer{}
	}
	var said []string
	for n := len(asked.Text); len(said) < r.Words; n++ {
		said = append(said, strings.Fields(kit.Text(n%kit.Texts))...)
	}
	return offline.Answer{Text: strings.Join(said[:r.Words], " ")}
}

func startRole(ctx context.Context, r role) (*kit.Helper, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return kit.StartRole(ctx, roleArgument, string(text))
}

// The settings of servers. What a measurement cannot do without is set for all: where everything is, and no limits that
// would refuse it. As shipped means the defaults, with the keyless embedder in the place of OpenAI's.
var settingsOf = map[string]map[string]string{
	shipped:  {"EMBEDDING_MODEL": embedder.Model},
	stripped: {"EMBEDDING_MODEL": "none", "RECALL": "off", "TOPICS": "off", "LONG_TERM_MEMORY": "false"},
}

// fleet are processes by their names. Stop it.
type fleet struct {
	*environment
	points map[string]endpoint
	order  []endpoint
}

// startFleet starts a model, and a bare relay behind it.
func (e *environment) startFleet(ctx context.Context, model role) (*fleet, error) {
	f := &fleet{environment: e, points: map[string]endpoint{}}
	model.Kind = roleModel
	if err := f.startHelper(ctx, model); err != nil {
		return nil, err
	}
	if err := f.startHelper(ctx, role{Kind: roleRelay, Model: f.points[roleModel].address}); err != nil {
		return nil, errors.Join(err, f.stop())
	}
	return f, nil
}

func (f *fleet) startHelper(ctx context.Context, r role) error {
	helper, err := startRole(ctx, r)
	if err != nil {
		return err
	}
	f.add(endpoint{Process: helper.Process, name: r.Kind, address: strings.TrimSuffix(helper.Address, "/v1"), stop: helper.Stop})
	return nil
}

func (f *fleet) add(p endpoint) {
	f.points[p.name] = p
	f.order = append(f.order, p)
}

// server starts the program with the settings of a name, and others.
func (f *fleet) server(ctx context.Context, name string, settings map[string]string, args ...string) (endpoint, error) {
	return f.program(ctx, f.build, f.database, name, settings, args...)
}

// eachSetting lets work use a server as shipped, and then one that is stripped.
func (f *fleet) eachSetting(ctx context.Context, work func(endpoint) error) error {
	for _, name := range []string{shipped, stripped} {
		server, err := f.server(ctx, name, nil)
		if err == nil {
			err = errors.Join(work(server), server.stop(), f.settle(ctx))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// replicas starts two servers as shipped.
func (f *fleet) replicas(ctx context.Context) (both [2]endpoint, err error) {
	for i := range both {
		if both[i], err = f.server(ctx, shipped, nil); err != nil {
			return both, err
		}
	}
	return both, nil
}

// program starts a build of the program on a database, and waits as a load balancer does before it sends requests.
func (f *fleet) program(ctx context.Context, build, database, name string, settings map[string]string, args ...string) (endpoint, error) {
	values := map[string]string{
		"DATABASE_URL": database, "HTTP_ADDR": "127.0.0.1:0", "SUPABASE_JWT_SECRET": kit.Secret,
		"OPENAI_API_KEY": "bench", "OPENAI_BASE_URL": f.points[roleModel].address + "/v1",
		"RATE_LIMIT_MESSAGES_PER_MINUTE": "0", "MAX_STREAMS_PER_USER": "0",
	}
	maps.Copy(values, settingsOf[name])
	if _, started := f.points[roleEmbedder]; name == shipped && !started {
		if err := f.startHelper(ctx, role{Kind: roleEmbedder, Source: f.source}); err != nil {
			return endpoint{}, err
		}
	}
	if name == shipped {
		values["EMBEDDING_BASE_URL"] = f.points[roleEmbedder].address + "/v1"
	}
	maps.Copy(values, settings)
	process, err := kit.Start(ctx, kit.Command{Program: build, Args: append([]string{"serve"}, args...), Env: values})
	if err != nil {
		return endpoint{}, err
	}
	stop := func() error {
		if process.Ended() { // its part ended it
			return nil
		}
		return process.Terminate(2 * goneWithin)
	}
	p := endpoint{Process: process, name: name, address: "http://" + process.Address, ours: true, stop: stop}
	f.add(p)
	const again = 20 * time.Millisecond
	for {
		if _, err = kit.Get(ctx, http.DefaultClient, p.address+"/readyz"); err == nil {
			return p, nil
		}
		if kit.Sleep(ctx, again) != nil {
			return p, err
		}
	}
}

func (f *fleet) stop() error {
	var errs []error
	for _, p := range slices.Backward(f.order) {
		errs = append(errs, p.stop())
	}
	return errors.Join(errs...)
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

// watch returns what a process uses between two moments: the CPU time, and the memory at most, asked for in steps.
func watch(ctx context.Context, from, to time.Time, usage func() (kit.Usage, error)) (kit.Usage, error) {
	if err := kit.SleepUntil(ctx, from); err != nil {
		return kit.Usage{}, err
	}
	const step = 200 * time.Millisecond
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

// usage is what the process has used since its start.
func (p endpoint) usage() (kit.Usage, error) {
	now := kit.UsageOf(p.PID())
	if now.RSS == 0 {
		return now, errors.New("the system does not tell what another process uses")
	}
	return now, nil
}
