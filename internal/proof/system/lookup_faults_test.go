package system

import (
	"context"
	"fmt"
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

// A Postgres that is slow or away when turns, topics and memories are looked up delays the reply to the deadline at most:
// it is made without them but for memories that need no search, its receipt says so, no connection stays busy, and the next one has them again.
func TestPostgresFailsTheLookups(t *testing.T) {
	t.Parallel()
	forEachOutage(t, lookups, func(t *testing.T, o outage) {
		if o.name == "little bandwidth" {
			t.Skip("enough for what a lookup reads")
		}
		settings := topical(t, concepts(nil))
		delete(settings, "RECALL_DEADLINE") // the one that users have
		r := newNetworkRig(t, nil, settings)
		r.node = r.start(app.Role{API: true, Workers: true}, r.direct())
		chatID := r.leaveTopic()
		r.remembers(keptFact)
		r.remembersMuch()
		r.stopNow()
		said := r.sayDuring(o, chatID, oldQuestion+" "+keptQuestion)
		receipt := r.receiptOf(said.MessageID)
		if said.End.Name != testkit.Completion || receipt.Topic != "" || receipt.Recall != "late" && receipt.Recall != "failed" {
			t.Errorf("%+v, %+v", said, receipt)
		}
		if failure, shown := r.howRemembered(said.MessageID); failure != "late" && failure != "failed" || shown != 1 {
			t.Errorf("the receipt says %q, %d memories shown", failure, shown)
		}
		if prompt := r.lastPrompt(); recalledIn(prompt)+topicIn(prompt) != "" || !strings.HasPrefix(remembered(prompt), "- The user's dentist") {
			t.Errorf("the prompt has\n%s", prompt)
		}
		testkit.Eventually(t, "no lookup is left in Postgres", func() bool {
			return r.count(`select count(*) from pg_stat_activity where datname = current_database() and state = 'active'
				and query ~ 'recall_|find_memories' and pid <> pg_backend_pid()`) == 0
		})
		testkit.Eventually(t, "turns are found again", func() bool {
			return strings.Contains(r.Call(http.MethodGet, "/v1/recall?q=molar&chat_id="+chatID, nil).Text, "Okonkwo")
		})
		testkit.Eventually(t, "memories are shown again", func() bool {
			r.Say("", keptQuestion)
			return strings.Contains(remembered(r.lastPrompt()), "- "+keptFact)
		})
	})
}

// An embedder that is away fails no reply: turns, topics and memories are found by their words. What words do not find is
// missing, and the receipt says so. A topic whose vector is another model's is found by words as well.
func TestLookupsWithoutTheEmbedder(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	r := newRig(t, nil, topical(t, concepts(func(w http.ResponseWriter, _ *http.Request) bool {
		if away.Load() {
			w.WriteHeader(http.StatusTooManyRequests)
		}
		return away.Load()
	})))
	chatID := r.leaveTopic()
	r.remembers(keptFact)
	r.remembersMuch()
	testkit.Exec(t, r.pool, "update topics set embedding_model = 'another' where chat_id = $1", chatID)
	if r.Say(chatID, oldQuestion); topicIn(r.lastPrompt()) == "" {
		t.Errorf("vectors of another model: no topic in\n%s", r.lastPrompt())
	}
	away.Store(true)
	if said := r.Say(chatID, "Who fixed my molar in those days?"); topicIn(r.lastPrompt()) == "" || r.receiptOf(said.MessageID).Recall != "words" {
		t.Errorf("without an embedder: no topic in\n%s", r.lastPrompt())
	}
	said := r.Say(chatID, "Which physician mended something for me, back then?")
	if receipt := r.receiptOf(said.MessageID); receipt.Topic != "" || receipt.Recall != "failed" && receipt.Recall != "late" || topicIn(r.lastPrompt()) != "" {
		t.Errorf("what words do not find: %+v", receipt)
	}
	if failure, shown := r.howRemembered(r.Say("", keptQuestion).MessageID); failure != "" || shown != 2 { // one is durable
		t.Errorf("memories by words: %q, %d shown", failure, shown)
	}
	if failure, shown := r.howRemembered(r.Say("", "Which string instrument do I practise?").MessageID); failure != "late" && failure != "failed" || shown != 1 {
		t.Errorf("memories by meaning: %q, %d shown", failure, shown)
	}
	for path, want := range map[string]string{"/v1/recall?q=molar": "Okonkwo", "/v1/memories?q=violoncello": keptFact} {
		if found := r.Call(http.MethodGet, path, nil); found.Status != http.StatusOK || !strings.Contains(found.Text, want) {
			t.Errorf("%s: %d %s", path, found.Status, found.Text)
		}
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
		patient.And(env{"MEMORY_MAX_HISTORY_TOKENS": "60"}))
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
	r := newRig(t, nil, smallMemory.And(env{"RECALL": "off", "EMBEDDING_MODEL": "an-embedder", "EMBEDDING_BASE_URL": embedder.URL}))
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
