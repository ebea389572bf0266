package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/streaming"
)

const said = "Gewiß, naïve café: 日本語 👍.\nA second line,\ttabbed, \"quoted\" and a \\ backslash.\r\n\u2028\x01 The end."

func TestStreamToTheLetter(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says(strings.SplitAfter(said, " ")...))
	answer := h.first("hello", "Accept-Encoding", "gzip, br", "X-Request-Id", "r-1")
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no",
		"X-Content-Type-Options": "nosniff", "X-Request-Id": "r-1", "Content-Encoding": "", "Content-Length": "",
	} {
		assert.Equalf(t, want, answer.header.Get(name), "%s", name)
	}
	events := answer.events(t)
	got := spoken(events)
	assert.Truef(t, got == said, "said %q\nwant %q", got, said)
	assert.Truef(t, events[0].data["resumed"] == false && events[0].data["offset"] == 0.0 && events[0].data["model_variant"] == "arco",
		"started: %v", events[0].data)
	done := last(events)
	if done.name != streaming.EventCompleted || done.data["finish_reason"] != "stop" || number(done, "content_length") != float64(len([]rune(said))) {
		t.Errorf("ended: %s %v", done.name, done.data)
	}
	receipt, _ := done.data["memory"].(map[string]any)
	assert.Truef(t, receipt["dropped_turns"] == 0.0, "receipt: %v", done.data["memory"])
}

// serve runs a handler against a recorder within a synctest bubble.
func serve(h *harness, request *http.Request) <-chan *recorder {
	done := make(chan *recorder, 1)
	r := &recorder{header: http.Header{}}
	go func() {
		h.server.handler.ServeHTTP(r, request)
		done <- r
	}()
	return done
}

// recorder keeps an answer with the time of each write.
type recorder struct {
	mu     sync.Mutex
	header http.Header
	status int
	body   bytes.Buffer
	writes []time.Time
}

func (r *recorder) Header() http.Header { return r.header }
func (r *recorder) WriteHeader(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes = append(r.writes, time.Now())
	return r.body.Write(p)
}

func (r *recorder) Flush() {}

// gate is a recorder whose flushes wait for room. It notes how many deltas each of them sent.
type gate struct {
	recorder

	room chan struct{}
	sent []int
}

func (g *gate) Flush() {
	<-g.room
	g.mu.Lock()
	defer g.mu.Unlock()
	before := 0
	for _, n := range g.sent {
		before += n
	}
	g.sent = append(g.sent, strings.Count(g.body.String(), "event: content.delta\n")-before)
}

// A client that takes each delta gets each at once. One that is slower gets all that there are by then with one flush,
// as events of their own.
func TestDeltasThatWaitAreSentTogether(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		open int // flushes that find room before the model speaks
		want []int
	}{
		"fast":         {open: 100, want: []int{0, 0, 1, 1, 1, 1, 0}},
		"slow":         {open: 2, want: []int{0, 0, 1, 3, 0}},
		"slow at once": {open: 0, want: []int{0, 0, 4, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				model := newConductor()
				h := newQuietHarness(t, model)
				g := &gate{recorder: recorder{header: http.Header{}}, room: make(chan struct{}, 100)}
				request := h.request(http.MethodPost, firstPath, hello)
				done := make(chan struct{})
				go func() {
					defer close(done)
					h.server.handler.ServeHTTP(g, request)
				}()
				for range c.open {
					g.room <- struct{}{}
				}
				model.accept()
				for _, piece := range []string{"one ", "two ", "three ", "four"} {
					model.say(piece)
					synctest.Wait()
				}
				close(g.room)
				synctest.Wait()
				model.finish()
				<-done
				assert.Truef(t, slices.Equal(g.sent, c.want), "deltas in each flush: %v, want %v", g.sent, c.want)
				events := parseEvents(t, g.body.String())
				assert.Equal(t, "one two three four", spoken(events), "said")
			})
		})
	}
}

func TestPingAfterSilence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := newConductor()
		h := newQuietHarness(t, model)
		model.accept()
		began := time.Now()
		done := serve(h, h.request(http.MethodPost, firstPath, hello))
		time.Sleep(10 * time.Second)
		model.say("one") // at 10 s; silence until 40 s: pings at 25 s and 40 s
		time.Sleep(31 * time.Second)
		model.finish()
		r := <-done
		body := r.body.String()
		n := strings.Count(body, "\n: ping\n")
		assert.Truef(t, n == 2, "%d pings in %q", n, body)
		var at []int
		for _, write := range r.writes {
			at = append(at, int(write.Sub(began).Seconds()))
		}
		want := []int{0, 0, 10, 25, 40, 41}
		assert.Truef(t, slices.Equal(at, want), "writes at %v, want %v", at, want)
		parseEvents(t, body)
	})
}

// The stream of a slow model begins without it after 15 seconds. A failure before that is still a status.
func TestSlowModelsStreamBeginsWithoutIt(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{14 * time.Second, 34 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			h := newQuietHarness(t, newConductor())
			done := serve(h, h.request(http.MethodPost, firstPath, hello))
			time.Sleep(after)
			synctest.Wait()
			h.closeChat()
			r := <-done
			if after < 15*time.Second {
				assert.Truef(t, r.status == 503 && r.header.Get("Retry-After") != "", "answered %d %v", r.status, r.header)
				return
			}
			end := last(parseEvents(t, r.body.String()))
			assert.Truef(t, r.status == 200 && end.data["code"] == "interrupted", "%d %v", r.status, end)
			if first := r.writes[0]; time.Since(first) != 19*time.Second {
				t.Errorf("the stream began %v before its end, want 19s", time.Since(first))
			}
		})
	}
}

func TestClientThatLeavesBeforeTheModelAnswered(t *testing.T) {
	t.Parallel()
	model := newConductor()
	h := newHarness(t, model)
	ctx, cancel := context.WithCancel(t.Context())
	request := h.request(http.MethodPost, firstPath, hello).WithContext(ctx)
	failed := make(chan error)
	go func() {
		_, err := h.http.Client().Do(request)
		failed <- err
	}()
	h.waitFor("the call of the model", func() bool { return model.calls.Load() == 1 })
	cancel()
	assert.Error(t, <-failed, "a cancelled request was answered")
	h.waitFor("the handler to end", func() bool { return len(h.logs.Lines(t, "request")) == 1 })
	got := h.logs.Lines(t, "request")[0]["status"]
	assert.Truef(t, got == 499.0, "logged status %v", got)
	lines := h.logs.Lines(t, "request failed")
	assert.Equalf(t, 0, len(lines), "a client that leaves is reported as our failure: %v", lines)
	model.accept()
	model.finish()
	assert.Equal(t, memory.StatusComplete, h.waitForSave().Status, "saved as")
}

// A reader that takes nothing is let go after WriteTimeout; its reply is saved whole.
func TestSlowReaderIsLetGo(t *testing.T) {
	t.Parallel()
	pieces := slices.Repeat([]string{strings.Repeat("slow ", 2_000)}, 100) // 1 MB, more than the socket buffers below
	h := newQuietHarness(t, says(pieces...), func(c *Config) { c.WriteTimeout = 200 * time.Millisecond })
	h.http = httptest.NewUnstartedServer(h.server.handler)
	h.http.Config.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		_ = conn.(*net.TCPConn).SetWriteBuffer(4096)
		return ctx
	}
	h.http.Start()
	t.Cleanup(h.http.Close)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", h.http.Listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4096))
	require.NoError(t, h.request(http.MethodPost, firstPath, hello).Write(conn))
	h.waitFor("the handler to end", func() bool { return len(h.logs.Lines(t, "request")) == 1 })
	took := h.logs.Lines(t, "request")[0]["duration_ms"]
	assert.Truef(t, took.(float64) >= 200, "let go after %v ms", took)
	reply := h.waitForSave()
	assert.Truef(t, reply.Status == memory.StatusComplete && reply.Content == strings.Join(pieces, ""),
		"saved %d bytes, %s", len(reply.Content), reply.Status)
	received, _ := io.ReadAll(conn)
	assert.True(t, !bytes.Contains(received, []byte("event: completion")) && !bytes.HasSuffix(received, []byte("0\r\n\r\n")),
		"the cut stream seems complete")
}

// patience is longer than a loaded machine takes to read a request, or to write a piece of an answer.
const patience = 5 * time.Second

// impatient serves with timeouts that are shorter than any reply.
func impatient(t *testing.T, h *harness) {
	h.http = httptest.NewUnstartedServer(h.server.handler)
	h.http.Config.WriteTimeout, h.http.Config.ReadTimeout = patience, patience
	h.http.Start()
	t.Cleanup(h.http.Close)
}

// Timeouts of the server that are shorter than a reply cut neither its streams nor an error that comes late.
func TestServersTimeoutsDoNotCutReplies(t *testing.T) {
	t.Parallel()
	model := newConductor()
	speak := model.answer
	model.answer = func(ctx context.Context, request chat.ModelRequest) (chat.ModelStream, error) {
		if strings.Contains(request.Input, "late") {
			time.Sleep(patience * 5 / 4) // longer than the server would allow
			return nil, errUpstream
		}
		return speak(ctx, request)
	}
	h := newQuietHarness(t, model)
	impatient(t, h)
	model.accept()
	sent := h.open(h.request(http.MethodPost, firstPath, hello))
	chatID, _ := sent.event().data["chat_id"].(string)
	resumed := h.open(h.request(http.MethodGet, "/v1/message/"+chatID+"/stream", ""))
	resumed.event()
	var late sync.WaitGroup
	for _, accept := range []string{"text/event-stream", "application/json"} {
		late.Go(func() {
			assert.Equalf(t, http.StatusBadGateway, h.first("late", "Accept", accept).status, "%s", accept)
		})
	}
	late.Wait()
	model.say("still here")
	model.finish()
	for _, stream := range []*openStream{sent, resumed} {
		events := stream.rest()
		assert.Equalf(t, "still here", spoken(events), "got %v", events)
	}
}

// A stream leaves its write deadline on the connection, where the next request must not find it.
func TestConnectionIsGoodAfterAStream(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"), func(c *Config) { c.WriteTimeout = patience })
	h.http.Client().Transport.(*http.Transport).MaxConnsPerHost = 1
	for range 2 {
		require.Equal(t, 200, h.first("a").status, "status")
		time.Sleep(patience * 5 / 4) // past the deadline of the stream
		require.Equal(t, 200, h.call(http.MethodGet, "/healthz", "").status, "status")
	}
}

// elsewhere starts another server on the same store, and gives what stops its chat at once.
func (h *harness) elsewhere() (other *harness, stop func()) {
	service := chat.New(chat.Config{
		Store: h.store, Model: says("x"), Logger: h.server.config.Logger, Metrics: metrics.New(),
		Variants: []chat.Variant{{Name: "arco", Model: "test-1"}}, Limits: memory.DefaultLimits(), ReplyTimeout: time.Minute,
	})
	now, cancel := context.WithCancel(context.Background())
	cancel()
	stop = func() { service.Close(now) }
	other = newHarness(h.t, says("x"), func(c *Config) { c.Chat = service })
	h.t.Cleanup(stop)
	other.user = h.user
	return other, stop
}

// A server that stops lets go of those who read a reply of another server, which goes on: none of them
// may take what they have for all of it.
func TestServerThatStopsLetsGoOfRepliesFromElsewhere(t *testing.T) {
	t.Parallel()
	model := newConductor()
	h := newHarness(t, model)
	model.accept()
	body := marshal(map[string]any{"content": "a", "client_message_id": someID})
	running := h.open(h.request(http.MethodPost, firstPath, body))
	path := "/v1/message/" + running.event().data["chat_id"].(string) + "/stream"
	other, stop := h.elsewhere()

	ours := other.open(other.request(http.MethodGet, path, ""))
	ours.event()
	ui := other.open(other.request(http.MethodGet, path+"?protocol=ui", ""))
	ui.until(`"type":"start"`)
	whole := make(chan answered, 1)
	go func() { whole <- other.call(http.MethodPost, firstPath, body, "Accept", "application/json") }()
	other.waitFor("three readers", func() bool { return other.places() == 3 })
	stop()

	rest, err := io.ReadAll(ours.reader)
	assert.Truef(t, errors.Is(err, io.ErrUnexpectedEOF) && len(rest) == 0, "our own stream ended with %q, %v", rest, err)
	rest, err = io.ReadAll(ui.reader)
	assert.Truef(t, errors.Is(err, io.ErrUnexpectedEOF) && len(rest) == 0,
		"the UI message stream ended with %q, %v", rest, err)
	if answer := <-whole; answer.status != 503 || errorCode(answer.body) != "shutting_down" || answer.header.Get("Retry-After") == "" {
		t.Errorf("one object: %d %s", answer.status, answer.body)
	}
	late := other.call(http.MethodGet, path, "")
	assert.Truef(t, late.status == 503 && errorCode(late.body) == "shutting_down",
		"a late reader: %d %s", late.status, late.body)
	model.finish()
	running.rest()
}
