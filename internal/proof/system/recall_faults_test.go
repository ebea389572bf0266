package system

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// howRecalled returns what the receipt of a reply says of recall.
func (r *rig) howRecalled(messageID string) string {
	r.t.Helper()
	return testkit.Ask[string](r.t, r.pool, "select coalesce(metadata -> 'memory' ->> 'recall', '') from messages where id = $1", messageID)
}

// breaksAfterTurn is a store whose network breaks once a turn is stored.
type breaksAfterTurn struct {
	chat.Store
	start func()
}

func (b breaksAfterTurn) StartTurn(ctx context.Context, user auth.Principal, turn chat.NewTurn) (chat.StartedTurn, error) {
	started, err := b.Store.StartTurn(ctx, user, turn)
	if started.Started {
		b.start()
	}
	return started, err
}

// sayDuring starts a server and sends it a message. The network breaks once the turn is stored, until the reply begins.
func (r *networkRig) sayDuring(o outage, chatID, content string) testkit.Said {
	r.t.Helper()
	var armed atomic.Bool
	r.node = r.start(app.Role{API: true}, nil, app.Doubles{Turns: func(store chat.Store) chat.Store {
		return breaksAfterTurn{store, func() {
			if armed.Load() {
				o.start(r.network)
			}
		}}
	}})
	r.Call(http.MethodGet, "/v1/chats", nil) // a connection is open
	armed.Store(true)
	s := r.Send(chatID, testkit.Body{"content": content})
	s.Until(func(e testkit.Event) bool { return e.Name == testkit.Delta })
	armed.Store(false)
	o.end(r.network)
	return s.Rest()
}

// A Postgres that is slow or away when the turns are looked up delays the reply to the deadline at most: it is made without
// them, its receipt says so, and no connection stays busy.
func TestPostgresFailsTheLookup(t *testing.T) {
	t.Parallel()
	for _, o := range outages {
		if o.name == "little bandwidth" {
			continue // enough for what a lookup reads
		}
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			r := newNetworkRig(t, nil, smallMemory)
			r.node = r.start(app.Role{API: true, Workers: true}, r.direct())
			chatID := r.tellAndForget(oldFact)
			r.stopNow()
			said := r.sayDuring(o, chatID, oldQuestion)
			if said.End.Name != testkit.Completion {
				t.Fatalf("%+v", said)
			}
			if got := r.howRecalled(said.MessageID); got != "late" && got != "failed" {
				t.Errorf("the receipt says %q", got)
			}
			if got := recalledIn(r.lastPrompt()); got != "" {
				t.Errorf("recalled %q", got)
			}
			testkit.Eventually(t, "no lookup is left in Postgres", func() bool {
				return r.count("select count(*) from pg_stat_activity where datname = current_database() and state = 'active' and query ~ 'recall_'  and pid <> pg_backend_pid()") == 0
			})
			testkit.Eventually(t, "turns are found again", func() bool {
				return strings.Contains(r.Call(http.MethodGet, "/v1/recall?q=molar&chat_id="+chatID, nil).Text, "Okonkwo")
			})
		})
	}
}

// An embedder that is away, slow, over its quota or broken fails no reply. Words are found without it; what words do not
// find is missing, and the receipt says so.
func TestEmbedderFailsTheLookup(t *testing.T) {
	t.Parallel()
	answering := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	for name, handler := range map[string]http.HandlerFunc{
		"away":        nil,
		"slow":        func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body); <-r.Context().Done() }, // only then it is told that the client left
		"over quota":  answering(http.StatusTooManyRequests, `{"error": {"message": "You exceeded your quota.", "type": "insufficient_quota", "code": "insufficient_quota"}}`),
		"key refused": answering(http.StatusUnauthorized, `{"error": {"message": "Incorrect API key.", "type": "invalid_request_error", "code": "invalid_api_key"}}`),
		"broken":      answering(http.StatusOK, `{"data": [`),
		"dimensions":  answering(http.StatusOK, `{"object": "list", "model": "m", "data": [{"object": "embedding", "index": 0, "embedding": [`+strings.Repeat("0.1,", 1023)+`0.1]}], "usage": {"prompt_tokens": 1, "total_tokens": 1}}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			embedder := httptest.NewServer(handler)
			if t.Cleanup(embedder.Close); handler == nil {
				embedder.Close()
			}
			r := newRig(t, nil, smallMemory.and(env{"EMBEDDING_MODEL": "an-embedder", "EMBEDDING_BASE_URL": embedder.URL + "/v1", "RECALL_DEADLINE": "10s"}))
			chatID := r.tellAndForget(oldFact)
			if said := r.Say(chatID, oldQuestion); r.howRecalled(said.MessageID) != "words" || !strings.Contains(said.Text, "Okonkwo") {
				t.Errorf("by words: %s, %q", r.howRecalled(said.MessageID), said.Text)
			}
			if got := r.howRecalled(r.Say(chatID, "Which physician mended teeth for me?").MessageID); got != "late" && got != "failed" {
				t.Errorf("by meaning: the receipt says %q", got)
			}
			if found := r.Call(http.MethodGet, "/v1/recall?q=molar", nil); found.Status != http.StatusOK || !strings.Contains(found.Text, "Okonkwo") {
				t.Errorf("%d %s", found.Status, found.Text)
			}
		})
	}
}

// A turn that is deleted while a message about it is on its way is in no prompt that is built after the deletion.
func TestDeletionRacesTheLookup(t *testing.T) {
	t.Parallel()
	races := 100
	if testing.Short() {
		races = 25
	}
	r := newRig(t, func(*offline.Request) offline.Answer { return offline.Answer{Text: "Fine."} },
		patient.and(env{"MEMORY_MAX_HISTORY_TOKENS": "60"}))
	made := r.wanted(http.StatusCreated, http.MethodPost, "/v1/chats", testkit.Body{"memory_strategy": "simple"})
	chatID := made["id"].(string)
	for n := range races {
		r.wanted(http.StatusOK, http.MethodPost, "/v1/chats/"+chatID+"/messages", testkit.Body{"messages": []testkit.Body{
			{"role": "user", "content": fmt.Sprintf("The locker quokka%d holds a wombat%d.", n, n)}, {"role": "assistant", "content": "I see."},
		}})
	}
	r.Say(chatID, "That was all of them, for now and for a while, I should think.")
	testkit.Eventually(t, "the turns are indexed", func() bool {
		return r.count("select count(*) from turn_index where chat_id = $1 and seq <= $2", chatID, 2*races) == races
	})
	ids := testkit.Ask[[]string](t, r.pool, "select array_agg(id::text order by seq) from messages where chat_id = $1 and content like 'The locker%'", chatID)
	recalled := 0
	for n, id := range ids {
		question := fmt.Sprintf("What is in the locker quokka%d?", n)
		var both sync.WaitGroup
		both.Go(func() {
			if n%2 == 0 {
				time.Sleep(time.Duration(n%10) * time.Millisecond) // sometimes after the lookup
			}
			if got := r.Call(http.MethodDelete, "/v1/messages/"+id, nil); got.Status != http.StatusNoContent {
				t.Errorf("%d %s", got.Status, got.Text)
			}
		})
		both.Go(func() { r.Say(chatID, question) })
		both.Wait()
		canary := fmt.Sprintf("wombat%d.", n)
		if strings.Contains(r.lastPrompt(), canary) {
			recalled++
		}
		r.Say(chatID, question)
		if strings.Contains(r.lastPrompt(), canary) {
			t.Fatalf("deleted words are in the prompt\n%s", r.lastPrompt())
		}
	}
	t.Logf("%d of %d prompts were built before the deletion", recalled, races)
	if n := r.count("select count(*) from turn_index where tsv::text like '%wombat%'"); n != 0 {
		t.Errorf("%d turns of the index hold deleted words", n)
	}
}

// With RECALL=off turns are indexed for search alone: nothing is looked up, and the embedder is never asked.
func TestRecallThatIsOffDoesNothing(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	embedder := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(embedder.Close)
	r := newRig(t, nil, smallMemory.and(env{"RECALL": "off", "EMBEDDING_MODEL": "an-embedder", "EMBEDDING_BASE_URL": embedder.URL}))
	chatID := r.tellAndForget(oldFact)
	said := r.Say(chatID, oldQuestion)
	if got := testkit.Ask[bool](t, r.pool, "select metadata -> 'memory' ?| '{recall,recalled,recall_tokens}' from messages where id = $1", said.MessageID); got {
		t.Error("the receipt speaks of recall")
	}
	if strings.Contains(r.lastPrompt(), recallHeading) {
		t.Errorf("recalled:\n%s", r.lastPrompt())
	}
	if got := r.Call(http.MethodGet, "/v1/recall?q=molar", nil); got.Status != http.StatusConflict || got.Code() != "recall_off" {
		t.Errorf("%d %s", got.Status, got.Text)
	}
	if n := r.count("select count(*) from turn_index"); n == 0 {
		t.Error("no turn is indexed for search")
	}
	if n := r.count("select count(*) from river.river_job where kind = 'embed_turns'"); n != 0 || asked.Load() != 0 {
		t.Errorf("%d jobs for vectors, the embedder was asked %d times", n, asked.Load())
	}
}
