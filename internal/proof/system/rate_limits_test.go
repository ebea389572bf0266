package system

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// A message refused by the rate limit leaves no row, calls no model and does not count against the limit: after
// Retry-After the same message with the same id is accepted.
func TestRefusedMessageCostsNothing(t *testing.T) {
	t.Parallel()
	const perMinute = 20 // one each three seconds
	r := newRig(t, nil, env{"RATE_LIMIT_MESSAGES_PER_MINUTE": strconv.Itoa(perMinute)})
	chatID := r.Say("", "First.").ChatID
	late := testkit.Body{}
	var refused testkit.Answer
	accepted := 1
	for ; refused.Status != http.StatusTooManyRequests; accepted++ {
		late = testkit.Body{"chat_id": chatID, "content": "One too many.", "client_message_id": uuid.NewString()}
		if refused = r.Call(http.MethodPost, "/v1/message", late); accepted > 10*perMinute {
			t.Fatal("there is no limit")
		}
	}
	accepted-- // the last one was not
	checkRefusal(t, refused, 60/perMinute)
	if rows, calls := r.count("select count(*) from messages"), len(r.model.Asked(offline.KindReply)); accepted < perMinute || rows != 2*accepted ||
		calls != accepted {
		t.Errorf("%d rows and %d calls of the model, want those of %d messages", rows, calls, accepted)
	}
	if resumed := r.Call(http.MethodGet, testkit.ResumePath(chatID, "?after=0"), nil); resumed.Status != http.StatusOK {
		t.Errorf("reading is refused, too: %d %s", resumed.Status, resumed.Text)
	}
	wait, _ := strconv.Atoi(refused.Header.Get("Retry-After"))
	time.Sleep(time.Duration(wait) * time.Second) // as the answer says
	if said := r.Call(http.MethodPost, "/v1/message", late); said.Status != http.StatusOK {
		t.Errorf("after %d s: %d %s", wait, said.Status, said.Text)
	}
	if n := r.count("select count(*) from messages where client_message_id = $1", late["client_message_id"]); n != 1 {
		t.Errorf("it is stored %d times", n)
	}
}

func checkRefusal(t *testing.T, refused testkit.Answer, most int) {
	t.Helper()
	wait, err := strconv.Atoi(refused.Header.Get("Retry-After"))
	if refused.Status != http.StatusTooManyRequests || refused.Code() != "over_request_rate_limit" || err != nil || wait < 1 || wait > most {
		t.Errorf("%d %s, Retry-After %q, want at most %d", refused.Status, refused.Text, refused.Header.Get("Retry-After"), most)
	}
}

// One user sends fifty times as fast as allowed, and keeps all of their streams open, some unread. Another user's
// messages are answered as usual.
func TestGreedyUserHindersNobody(t *testing.T) {
	t.Parallel()
	const perMinute, streams, modest = 10, 4, 8
	gate := make(chan struct{})
	hold := strings.Repeat("a long reply that nobody reads ", 1<<13)
	r := newRig(t, func(request *offline.Request) offline.Answer {
		if request.Kind == offline.KindReply && strings.Contains(request.Current, "Hold.") {
			return offline.Answer{Text: hold, Gate: gate, GateAfter: 500}
		}
		return offline.Answer{}
	}, env{"RATE_LIMIT_MESSAGES_PER_MINUTE": strconv.Itoa(perMinute), "MAX_STREAMS_PER_USER": strconv.Itoa(streams)})
	greedy := testkit.Client{T: t, Base: r.Base, Token: testkit.Token(t, testkit.NewUser(t, r.db))}
	for range streams {
		greedy.Send("", testkit.Body{"content": "Hold."}).Until(func(e testkit.Event) bool { return e.Name == testkit.Delta })
	}
	// Fifty times what a minute allows, all of it while the other user speaks.
	var accepted, refused atomic.Int32
	var flood sync.WaitGroup
	for range 4 {
		flood.Go(func() {
			for range 50 * perMinute / 4 {
				switch got, err := greedy.TryCall(http.MethodPost, "/v1/message/first", testkit.Body{"content": "Me!"}); {
				case err != nil:
					t.Error(err)
				case got.Status == http.StatusTooManyRequests && got.Code() == "over_request_rate_limit" && got.Header.Get("Retry-After") != "":
					refused.Add(1)
				default:
					accepted.Add(1)
				}
			}
		})
	}
	chatID := r.Say("", "Hello.").ChatID
	for range modest - 1 {
		if said := r.Say(chatID, "And then?"); said.Text == "" {
			t.Error("an empty reply")
		}
	}
	flood.Wait()
	if accepted.Load() != 0 || refused.Load() == 0 {
		t.Errorf("the greedy user has all their streams open; %d more were accepted, %d refused", accepted.Load(), refused.Load())
	}
	if n := r.count("select count(*) from messages where role = 'user' and user_id <> $1", r.user); n != streams {
		t.Errorf("%d messages of the greedy user are stored, want %d", n, streams)
	}
	close(gate)
}
