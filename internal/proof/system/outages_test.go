package system

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// outage is a fault of the network between the server and Postgres. docs/reliability.md lists them.
type outage struct {
	name  string
	start func(*testkit.Proxy)
	end   func(*testkit.Proxy)
	// works: requests are slow, but succeed.
	works bool
}

var outages = []outage{
	{"latency", func(p *testkit.Proxy) { p.Break(testkit.Faults{Latency: 150 * time.Millisecond}) }, (*testkit.Proxy).Heal, true},
	{"little bandwidth", func(p *testkit.Proxy) { p.Break(testkit.Faults{Rate: 20}) }, (*testkit.Proxy).Heal, true},
	{"half-open", halfOpen, (*testkit.Proxy).Heal, false},
	{"cut in mid answer", cutAfter(100, false), (*testkit.Proxy).Heal, false},
	{"reset", func(p *testkit.Proxy) { p.Break(testkit.Faults{Abrupt: true}); p.Down() }, func(p *testkit.Proxy) { p.Heal(); p.Up() }, false},
	{"down", (*testkit.Proxy).Down, (*testkit.Proxy).Up, false},
}

// halfOpen makes a network swallow everything.
func halfOpen(p *testkit.Proxy) { p.Break(testkit.Faults{HalfOpen: true}) }

// cutAfter makes a network end connections after so many bytes of answers, with a reset if it is abrupt.
func cutAfter(bytes int, abrupt bool) func(*testkit.Proxy) {
	return func(p *testkit.Proxy) { p.Break(testkit.Faults{Cut: true, After: bytes, Abrupt: abrupt}) }
}

// networkRig is a rig whose apps reach Postgres through a network that the test can break. The test itself connects
// directly.
type networkRig struct {
	*rig
	network *testkit.Proxy
}

func newNetworkRig(t *testing.T, script testkit.Script, change env) *networkRig {
	r := newStoppedRig(t, testkit.NewDatabase(t), script, change)
	r.newUser()
	// Without any pooler: the fault is between the server and Postgres itself.
	network := testkit.NewProxy(t, testkit.HostOf(r.db.Direct()))
	r.env["DATABASE_DIRECT_URL"] = network.DSN(r.db.Direct()) + testkit.Cold
	r.env["DATABASE_URL"] = testkit.AsServer(r.env["DATABASE_DIRECT_URL"])
	r.pool = testkit.NewPool(t, r.db.Direct())
	return &networkRig{rig: r, network: network}
}

// direct returns the configuration of a server that connects directly.
func (r *networkRig) direct() env {
	return env{"DATABASE_URL": testkit.AsServer(r.db.Direct()) + testkit.Cold, "DATABASE_DIRECT_URL": r.db.Direct() + testkit.Cold}
}

// moment is when an outage begins.
type moment int

const (
	midStream        moment = 0
	requests         moment = 1
	storing, folding moment = 2, 2
)

// forEachOutage runs a test once per outage, at the same time. In short mode it leaves two of three outages out, others at
// other moments.
func forEachOutage(t *testing.T, at moment, test func(t *testing.T, o outage)) {
	for n, o := range outages {
		if testing.Short() && (n+int(at))%3 != 0 {
			continue
		}
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			test(t, o)
		})
	}
}

// soon is the longest time for an answer. The server's own timeouts are far shorter, but not on a loaded machine.
const soon = testkit.Patience / 2

// checkNotReady checks for a typed refusal with Retry-After.
func checkNotReady(t *testing.T, got testkit.Answer, code string, began time.Time) {
	assert.Truef(t, got.Status == http.StatusServiceUnavailable && got.Code() == code && got.Header.Get("Retry-After") != "",
		"%d %s", got.Status, got.Text)
	took := time.Since(began)
	assert.Truef(t, took <= soon, "the answer took %s", took)
}

// During an outage every request gets a typed answer soon. A refused message is not stored, and sending it again
// afterwards stores it once.
func TestRequestsInAnOutage(t *testing.T) {
	t.Parallel()
	forEachOutage(t, requests, func(t *testing.T, o outage) {
		r := newNetworkRig(t, nil, nil)
		r.node = r.start(app.Role{API: true}, nil)
		chatID := r.Say("", "My cello teacher is called Ilse.").ChatID
		message := testkit.Body{"content": "What is my cello teacher called?", "client_message_id": uuid.NewString()}
		path, payload := testkit.MessagePath(chatID, message)
		o.start(r.network)
		for _, ask := range []struct {
			method, path string
			body         testkit.Body
		}{
			{http.MethodGet, "/readyz", nil}, {http.MethodPost, path, payload}, {http.MethodGet, "/v1/chats", nil},
			{http.MethodGet, testkit.ResumePath(chatID, "?after=0"), nil},
		} {
			began := time.Now()
			got := r.Call(ask.method, ask.path, ask.body)
			code := "not_ready"
			if ask.path == "/readyz" {
				code = "database_unreachable"
			}
			if !o.works {
				checkNotReady(t, got, code, began)
			} else if got.Status != http.StatusOK {
				t.Errorf("%s %s: %d %s", ask.method, ask.path, got.Status, got.Text)
			}
		}
		o.end(r.network)
		testkit.Eventually(t, "the server is ready again", func() bool { return r.Call(http.MethodGet, "/readyz", nil).Status == http.StatusOK })
		got := r.Send(chatID, message).Rest()
		assert.Truef(t, got.End.Name == testkit.Completion && strings.Contains(got.Text, "Ilse"), "again: %+v", got)
		assert.Equal(t, "user complete, assistant complete, user complete, assistant complete", testkit.Ask[string](t, r.pool,
			"select string_agg(role || ' ' || status, ', ' order by seq) from messages"),
			"stored")
		r.checkNothingRuns()
	})
}

// An outage begins while a reply runs, or when only its storing is left. The reader gets all of the reply, it is stored
// after the outage, and a follower on another server gets all of it too.
func TestOutageDuringAReply(t *testing.T) {
	t.Parallel()
	for at, received := range map[moment]int{midStream: 4, storing: len(strings.Fields(unicodeReply))} {
		t.Run(fmt.Sprint("after ", received, " words"), func(t *testing.T) {
			t.Parallel()
			forEachOutage(t, at, func(t *testing.T, o outage) {
				gate := make(chan struct{})
				r := newNetworkRig(t, heldReply(received, gate), nil)
				r.node = r.start(app.Role{API: true}, nil)
				other := r.start(app.Role{API: true}, nil)
				asked := r.startReply(received)
				follower := other.follow(asked, received)
				o.start(r.network)
				close(gate)
				asked.UntilText(unicodeReply)
				if !o.works {
					testkit.Eventually(t, "the server notices", func() bool { return r.Call(http.MethodGet, "/readyz", nil).Status == http.StatusServiceUnavailable })
				}
				o.end(r.network)
				for n, got := range restOfAll(t, []*testkit.Stream{asked, follower}) {
					assert.Truef(t, got.Text == unicodeReply && got.End.Name == testkit.Completion,
						"reader %d has %q, %s %v", n, got.Text, got.End.Name, got.End.Data)
				}
				r.checkStored(asked.MessageID(), unicodeReply)
				r.checkNothingRuns()
			})
		})
	}
}

// An outage begins while a worker waits for the model. Afterwards the chat is folded, once.
func TestOutageDuringAFold(t *testing.T) {
	t.Parallel()
	forEachOutage(t, folding, func(t *testing.T, o outage) {
		gate := make(chan struct{})
		var folds atomic.Int64
		r := newNetworkRig(t, func(request *offline.Request) offline.Answer {
			if request.Kind == offline.KindSummary && folds.Add(1) == 1 {
				return offline.Answer{Text: "They talked about the cello and the etudes for it.", Gate: gate}
			}
			return offline.Answer{}
		}, foldAtOnce)
		r.node = r.start(app.Role{API: true}, r.direct())
		worker := r.start(app.Role{API: true, Workers: true}, nil)
		chatID := r.Say("", "My cello teacher is called Ilse and I live in Graz.").ChatID
		r.Say(chatID, "On Tuesdays I practise the second suite in the church.")
		r.model.AwaitRequest(t, "the fold asks", func(a offline.Request) bool { return a.Kind == offline.KindSummary })
		o.start(r.network)
		close(gate)
		if !o.works {
			testkit.Eventually(t, "the worker notices", func() bool {
				return worker.Call(http.MethodGet, "/readyz", nil).Status == http.StatusServiceUnavailable
			})
		}
		o.end(r.network)
		r.awaitFirstFold()
		r.awaitFolds()
		assert.Equal(t, "1 1 1-2 true", testkit.Ask[string](t, r.pool,
			`select b.version || ' ' || count(*) || ' ' || min(r.seq_from) || '-' || max(r.seq_to) || ' ' || (select count(*) = 0 from throughline.work)
			from conversation_briefs b join conversation_brief_revisions r using (chat_id) group by b.chat_id`),
			"version, revisions, range and lease")
		r.checkCounters()
	})
}

// Postgres stays away. After a bounded time the reader gets a retryable failure, because the reply could not be stored.
// When Postgres is back after all, the row does not stay streaming, and the message can be sent again.
func TestPostgresStaysAway(t *testing.T) {
	t.Parallel()
	server := testkit.NewServer(t)
	gate := make(chan struct{})
	r := newStoppedRig(t, server.Database, func(request *offline.Request) offline.Answer {
		if strings.Contains(request.Current, "Speak") {
			return offline.Answer{Text: unicodeReply, Gate: gate, GateAfter: 4}
		}
		return offline.Answer{}
	}, nil)
	r.newUser()
	impatient := app.Doubles{SavePatience: 2 * time.Second}
	r.node = r.start(app.Role{API: true}, nil, impatient)
	other := r.start(app.Role{API: true}, nil, impatient)
	message := testkit.Body{"content": "Speak.", "client_message_id": uuid.NewString()}
	asked := r.Send("", message)
	asked.UntilText(firstWords(unicodeReply, 4))
	follower := other.follow(asked, 4)

	server.Crash()
	close(gate)
	got := asked.Rest()
	assert.Truef(t, got.Text == unicodeReply && got.End.Name == testkit.Failed && got.End.Code() == "not_ready" && got.End.Data["retryable"] == true,
		"the reader has %q, %s %v", got.Text, got.End.Name, got.End.Data)
	length := got.End.Data["content_length"]
	assert.Truef(t, length == 0.0, "%v characters are said to be stored", length)
	_, err := follower.TryRest()
	assert.Error(t, err, "the follower was told of an unknown end")

	server.Start()
	row := r.awaitEnded(got.MessageID) // its server could still record what it said, or some of that
	assert.Truef(t, row.status == "interrupted" && strings.HasPrefix(row.content, firstWords(unicodeReply, 4)) && strings.HasPrefix(unicodeReply, row.content),
		"stored %+v", row)
	r.awaitNoDeltas()
	again := other.Send("", message).Rest()
	assert.Truef(t, again.End.Name == testkit.Completion && again.Text == unicodeReply && again.UserMessageID == got.UserMessageID,
		"again: %+v", again)
	got.Text = row.content
	r.checkSuperseded(got, again)
}

// A server that is stopped while Postgres is away does not wait long: its readers get their terminal events, and Run
// returns nil.
func TestStopWhilePostgresIsAway(t *testing.T) {
	t.Parallel()
	server := testkit.NewServer(t)
	r := newStoppedRig(t, server.Database, heldReply(4, make(chan struct{})), nil)
	r.drain = 200 * time.Millisecond
	r.newUser()
	r.node = r.replica()
	asked := r.startReply(4)
	server.Crash()
	began := time.Now()
	stopped := make(chan error, 1)
	go func() { stopped <- r.stop() }()
	got := asked.Rest()
	assert.Truef(t, got.End.Name == testkit.Failed && got.End.Data["retryable"] == true,
		"ended with %s %v", got.End.Name, got.End.Data)
	assert.NoError(t, testkit.Receive(t, "the server has ended", stopped), "run")
	took := time.Since(began)
	assert.Truef(t, took <= testkit.Patience/2, "the stop took %s", took)
}
