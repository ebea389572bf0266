package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/dev/embedder"
	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/internal/proof/people"
)

// What stands beside the program and is measured runs in processes of its own, so that the system counts CPU time and
// memory for each: this program again, in a role, with one argument.
const (
	roleModel    = "the model"    // see pacedModel
	roleRelay    = "bare relay"   // the least that can stand in between; it is told where the model is
	roleEmbedder = "the embedder" // the keyless one, in a process below; it is told the folder of this module
)

const roleArgument = "role"

func isRole(args []string) bool { return len(args) == 3 && args[0] == roleArgument }

// runRole prints its address and ends when stdin does.
func runRole(ctx context.Context, args []string, out, _ io.Writer) (err error) {
	defer kit.Catch(&err)
	var address string
	var stop func()
	switch role, argument := args[1], args[2]; role {
	case roleModel:
		rest := offline.New(offline.Options{})
		defer rest.Close()
		address, stop, err = kit.Serve(ctx, pacedModel{rest}, 0)
	case roleRelay:
		address, stop, err = kit.Serve(ctx, relay(argument), 0)
	case roleEmbedder:
		e := kit.Must(embedder.Start(ctx, argument, quiet()))
		address, stop = e.BaseURL(), e.Close
	default:
		err = fmt.Errorf("there is no role %q", role)
	}
	if err != nil {
		return err
	}
	defer stop()
	kit.Must(fmt.Fprintln(out, address))
	kit.Must(io.Copy(io.Discard, os.Stdin))
	return nil
}

// relay answers while it may not have seen the end of the request: net/http would close that then, and with it the model's
// connection.
func relay(model string) http.Handler {
	target, _ := url.Parse(model) // what a model printed
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, FlushInterval: -1}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex() // of HTTP/1, which these processes speak
		proxy.ServeHTTP(w, r)
	})
}

// endpoint is a process that streams.
type endpoint struct {
	*kit.Process
	name    string
	address string // base URL
	// ours speaks our protocol, the others the model's.
	ours bool
	// headers are more of each request, for a gateway that needs the model's address.
	headers map[string]string
}

// startModel starts the model of a part, and a bare relay behind one that is measured. With a script it is in this process.
func (b *bench) startModel(ctx context.Context, script people.Script) {
	if script == nil {
		b.model = b.helper(ctx, roleModel, "")
		b.relay = b.helper(ctx, roleRelay, b.model.address)
		return
	}
	model := kit.Must(people.StartModel(ctx, script, nil))
	b.later(func() error { model.Close(); return nil })
	b.model = endpoint{name: roleModel, address: strings.TrimSuffix(model.Base, "/v1")}
}

func (b *bench) helper(ctx context.Context, role, argument string) endpoint {
	helper := kit.Must(kit.StartRole(ctx, roleArgument, role, argument))
	b.later(helper.Stop)
	return endpoint{Process: helper.Process, name: role, address: helper.Address}
}

func (b *bench) server(ctx context.Context, name string) endpoint {
	return b.serve(ctx, b.program, b.postgres.DSN(), name, nil)
}

// each lets work use a server as shipped, and then one that is stripped.
func (b *bench) each(ctx context.Context, work func(endpoint)) {
	for _, name := range []string{shipped, stripped} {
		server := b.server(ctx, name)
		work(server)
		kit.Check(server.Terminate(2 * goneWithin))
		b.settle(ctx)
	}
}

func (b *bench) replicas(ctx context.Context) (both [2]endpoint) {
	for i := range both {
		both[i] = b.server(ctx, shipped)
	}
	return both
}

// serve starts a build of the program on a database, and waits as a load balancer does before it sends requests. What a
// measurement cannot do without is set for all: where everything is, and no limits that would refuse it. As shipped means
// the defaults, with the keyless embedder in the place of OpenAI's.
func (b *bench) serve(ctx context.Context, program, database, name string, more map[string]string, args ...string) endpoint {
	settings := map[string]string{
		"DATABASE_URL": database, "HTTP_ADDR": "127.0.0.1:0", "SUPABASE_JWT_SECRET": kit.Secret,
		"OPENAI_API_KEY": "bench", "OPENAI_BASE_URL": b.model.address + "/v1",
		"RATE_LIMIT_MESSAGES_PER_MINUTE": "0", "MAX_STREAMS_PER_USER": "0",
	}
	maps.Copy(settings, map[string]map[string]string{
		shipped:  {"EMBEDDING_MODEL": embedder.Model, "EMBEDDING_BASE_URL": b.embedder.Address},
		stripped: {"EMBEDDING_MODEL": "none", "RECALL": "off", "TOPICS": "off", "LONG_TERM_MEMORY": "false"},
	}[name])
	maps.Copy(settings, more)
	process := kit.Must(kit.Start(ctx, kit.Command{Program: program, Args: append([]string{"serve"}, args...), Env: settings}))
	b.later(func() error {
		if process.Ended() { // its part ended it
			return nil
		}
		return process.Terminate(2 * goneWithin)
	})
	p := endpoint{Process: process, name: name, address: "http://" + process.Address, ours: true}
	const again = 20 * time.Millisecond
	for {
		_, err := kit.Get(ctx, http.DefaultClient, p.address+"/readyz")
		if err == nil {
			return p
		}
		if kit.Sleep(ctx, again) != nil {
			kit.Fail("%s: %w", name, err)
		}
	}
}

// replies is a model with a reply of 99 words that is ready, told with a pause before each. All else is the offline model's.
func replies(pause time.Duration) people.Script {
	const words = 99
	return func(asked *offline.Request) offline.Answer {
		if asked.Kind != offline.KindReply {
			return offline.Answer{}
		}
		var said []string
		for n := len(asked.Text); len(said) < words; n++ {
			said = append(said, strings.Fields(textOf(n%textCount))...)
		}
		return offline.Answer{Text: strings.Join(said[:words], " "), PieceDelay: pause}
	}
}

// summaries is a model whose summary is ready: its work is not what is measured.
func summaries(asked *offline.Request) offline.Answer {
	if asked.Kind == offline.KindSummary || asked.Kind == offline.KindTopic {
		return offline.Answer{Text: summaryText()}
	}
	return offline.Answer{}
}

// pacedModel implements the part of the Responses API that a stream needs. Each token is the time at which it was
// sent, so that its reader knows how long it took. It uses little CPU, because it shares the machine with what is
// measured. What is no stream, such as the work for memory, goes to the offline model.
type pacedModel struct{ rest http.Handler }

func (m pacedModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if !bytes.Contains(body, []byte(`"stream":true`)) {
		r.Body = io.NopCloser(bytes.NewReader(body))
		m.rest.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w).Flush
	const pace = time.Second / tokensPerSecond
	var event []byte
	due, tokens := time.Now(), wished(body)
	for n := range tokens {
		time.Sleep(time.Until(due))
		event = fmt.Appendf(event[:0], tokenEvent, n+4, strconv.FormatInt(time.Now().UnixMicro(), stampBase))
		if n == tokens-1 {
			event = append(event, completedEvent...)
		}
		if _, err := w.Write(event); err != nil || flush() != nil {
			return
		}
		// A machine that cannot keep the pace shows a lower pace, not bursts: at most one token is caught up.
		if due = due.Add(pace); time.Since(due) > pace {
			due = time.Now()
		}
	}
}

// wish is how a question asks for a number of tokens.
const wish = "Say tokens=%d"

// wished returns how many tokens the last question of a prompt asks for, 1 without a wish: what is before it is history.
func wished(body []byte) (tokens int) {
	_, _ = fmt.Sscanf(string(body[max(bytes.LastIndex(body, []byte("Say tokens=")), 0):]), wish, &tokens)
	return max(tokens, 1)
}

// stampBase is the base of the numbers that tokens are: microseconds since 1970.
const stampBase = 36

// The events of a token, by its number and text, and the least that ends a reply.
const (
	tokenEvent = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":%d," +
		`"item_id":"msg_0123456789abcdef","output_index":0,"content_index":0,"delta":"%s ","logprobs":[]}` + "\n\n"
	completedEvent = "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_bench\",\"model\":\"bench\"," +
		"\"usage\":{\"input_tokens\":1000,\"input_tokens_details\":{\"cached_tokens\":900},\"output_tokens\":100}}}\n\n"
)

// measurePeers sends the streams of measureStream through the program and another gateway, which only passes them on.
func measurePeers(ctx context.Context, b *bench, t *table) {
	server := b.server(ctx, shipped)
	gateway := b.startPortkey(ctx)
	t.columns = []string{shipped, gateway.name, roleRelay, roleModel}
	b.through(ctx, t, 0, b.model, b.relay, gateway, server)
	for n := range t.rows { // targets and figures are stream's
		t.rows[n].target, t.rows[n].figure = nil, ""
	}
	t.note("auth, storage, history and memory are in the program's streams alone")
}

// startPortkey runs the gateway of scripts/setup peers with its defaults, but on loopback: no cache, guardrails or
// configuration. Its environment is only what is given, so that no proxy or setting of this machine has an effect.
func (b *bench) startPortkey(ctx context.Context) endpoint {
	defer kit.In("Portkey's gateway, which needs Node.js and scripts/setup peers installs")
	command := exec.CommandContext(ctx, "node",
		"--import", "./loopback.mjs", "node_modules/@portkey-ai/gateway/build/start-server.js", "--port=0", "--headless")
	command.Dir, command.Env = filepath.Join(b.source, "internal/proof/bench/npm"), []string{"NODE_ENV=production"}
	p := kit.Must(kit.StartHelper(command))
	b.later(p.Stop)
	return endpoint{
		Process: p.Process, name: "Portkey", address: p.Address,
		headers: map[string]string{"x-portkey-provider": "openai", "x-portkey-custom-host": b.model.address + "/v1"},
	}
}
