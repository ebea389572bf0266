package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/dev/loopback"
	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/internal/proof/people"
)

// What stands beside the program and is measured runs in processes of its own, so that the system counts CPU time and
// memory for each: this program again, in a role.
const (
	roleModel = "the model"  // see pacedModel
	roleRelay = "bare relay" // the least that can stand in between; it is told where the model is
	rolesOf   = "--role="    // begins the argument that names a role
)

// playRole serves until the process is killed, if the arguments name a role.
func playRole(args []string) bool {
	if len(args) == 0 || !strings.HasPrefix(args[0], rolesOf) {
		return false
	}
	kit.Main("bench", func(ctx context.Context, args []string, _, log io.Writer) error {
		var handler http.Handler = pacedModel{offline.New(offline.Options{})}
		if args[0] == rolesOf+roleRelay {
			handler = relay(args[1])
		}
		address, stop, err := loopback.Serve(handler, 0)
		if err != nil {
			return err
		}
		slog.New(slog.NewJSONHandler(log, nil)).Info("listening", "address", strings.TrimPrefix(address, "http://"))
		<-ctx.Done()
		return stop()
	})
	return true
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
}

// startModel starts the model of a part, and a bare relay behind one that is measured. With a script it is the system's.
func (b *bench) startModel(ctx context.Context, script people.Script) {
	if b.script = script; script != nil {
		b.model = endpoint{name: roleModel, address: strings.TrimSuffix(b.system.Model.BaseURL(), "/v1")}
		return
	}
	self := kit.Must(os.Executable())
	b.model = b.beside(ctx, roleModel, kit.Command{Program: self, Args: []string{rolesOf + roleModel}})
	b.relay = b.beside(ctx, roleRelay, kit.Command{Program: self, Args: []string{rolesOf + roleRelay, b.model.address}})
}

// beside starts a program that is measured beside the server, until the part ends.
func (b *bench) beside(ctx context.Context, name string, command kit.Command) endpoint {
	p := kit.Must(kit.Start(ctx, command))
	b.later(p.Kill)
	return endpoint{Process: p, name: name, address: "http://" + p.Address}
}

func (b *bench) server(ctx context.Context, name string) endpoint {
	return b.serve(ctx, b.system, name, nil)
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

// startSystem starts one without processes, until the part ends. What a measurement cannot do without is set: no limits that
// would refuse it.
func (b *bench) startSystem(ctx context.Context, p people.Plan) *people.System {
	p.Settings = map[string]string{"RATE_LIMIT_MESSAGES_PER_MINUTE": "0", "MAX_STREAMS_PER_USER": "0"}
	p.Script = func(asked *offline.Request) offline.Answer { return b.script(asked) }
	s := kit.Must(people.Start(ctx, p, io.Discard))
	b.later(func() error { return s.Close(false) })
	return s
}

// strippedSettings switch off as much as possible. As shipped means the defaults, with the keyless embedder in the place of
// OpenAI's.
var strippedSettings = map[string]string{"EMBEDDING_MODEL": "none", "RECALL": "off", "TOPICS": "off", "LONG_TERM_MEMORY": "false"}

// serve starts a server of a system, and waits as a load balancer does before it sends requests.
func (b *bench) serve(ctx context.Context, s *people.System, name string, more map[string]string, args ...string) endpoint {
	settings := map[string]string{"OPENAI_BASE_URL": b.model.address + "/v1"}
	if name == stripped {
		maps.Copy(settings, strippedSettings)
	}
	maps.Copy(settings, more)
	process := kit.Must(s.Add(ctx, strings.Join(append([]string{"serve"}, args...), " "), settings))
	b.later(func() error {
		if process.Ended() { // its part ended it
			return nil
		}
		return process.Terminate(2 * goneWithin)
	})
	p := endpoint{Process: process.Process, name: name, address: "http://" + process.Address, ours: true}
	for {
		_, err := kit.Get(ctx, http.DefaultClient, p.address+"/readyz")
		if err == nil {
			return p
		}
		if kit.Sleep(ctx, 20*time.Millisecond) != nil {
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

// summaries is a model whose summary is ready: its work is not measured.
func summaries(asked *offline.Request) offline.Answer {
	if asked.Kind == offline.KindSummary || asked.Kind == offline.KindTopic {
		return offline.Answer{Text: summaryText()}
	}
	return offline.Answer{}
}

// pacedModel implements the part of the Responses API that a stream needs. Each token is the time at which it was
// sent, so that its reader knows how long it took. It uses little CPU, because it shares the machine with the
// measured program. A request without a stream, such as the work for memory, goes to the offline model.
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

// wished returns how many tokens the last question of a prompt asks for, 1 without a wish: the text before it is history.
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
