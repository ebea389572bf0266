package people

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/dev/loopback"
	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/streaming"
)

// errand is what the model calls tools for, and what the person says to the calls.
type errand struct {
	calls  []string // look and order run at the server, order if the person approves it; photo is the app's
	denies bool
	twice  bool // two devices answer at once, each in its own way
	never  bool // no answer comes: the next message skips the calls
}

// errands are done by turns.
var errands = []errand{
	{calls: []string{"look", "look"}},
	{calls: []string{"order"}},
	{calls: []string{"photo", "order"}, twice: true},
	{calls: []string{"look", "order"}, denies: true},
	{calls: []string{"photo"}},
	{calls: []string{"look", "photo"}, never: true},
}

// errand returns that of a message; without calls for most.
func (t *Talk) errand(n int) errand {
	if t.ErrandEvery == 0 || n%t.ErrandEvery != 0 {
		return errand{}
	}
	return errands[n/t.ErrandEvery%len(errands)]
}

// steps is a reply in two steps: its first words and the calls, then the rest.
func (e errand) steps(r *offline.Request, n int, text string) []offline.Item {
	const first = 3 // words, and the space after them
	words := strings.SplitAfterN(text, " ", first+1)
	if r.Step > 0 {
		return []offline.Item{offline.Text{Text: words[first]}}
	}
	said := []offline.Item{offline.Text{Text: strings.Join(words[:first], "")}}
	for _, name := range e.calls {
		said = append(said, offline.Call{Name: name, Arguments: map[string]int{"n": n}})
	}
	return said
}

// offered are the tools that a client sends with a message.
func (e errand) offered() []map[string]string {
	if e.calls == nil {
		return []map[string]string{}
	}
	return []map[string]string{{"type": "server", "name": "look"}, {"type": "server", "name": "order"}, {"type": "function", "name": "photo"}}
}

// said is an answer to a call: a word of the user's, or an output.
type said struct {
	reply uuid.UUID
	call  string
	value any
}

func (s said) body() map[string]any {
	if approved, is := s.value.(bool); is {
		return map[string]any{"approved": approved}
	}
	return map[string]any{"output": s.value}
}

// answer answers the first call for which a reply waits, and goes on with the reply: when it breaks off, by the same answer once more. What
// is never answered is settled.
func (p *Person) answer(ctx context.Context, a attempt, waits streaming.Awaiting) (settled bool, next string) {
	e, call := p.record.Talk.errand(a.m.number), waits.Open[0]
	if e.never {
		return true, ""
	}
	path := fmt.Sprintf("/v1/messages/%s/calls/%s", waits.MessageID, call.CallID)
	say := func(server string, value any) (bool, string) {
		told := attempt{m: a.m, chat: a.chat, server: server, cursor: a.cursor, again: a.again, enough: a.enough}
		told.said = &said{waits.MessageID, call.CallID, value}
		return p.stream(ctx, told, http.MethodPost, path, []byte(Encode(told.said.body())))
	}
	var value any = !e.denies
	if call.Run == memory.RunClient {
		value = "a photo of the first device"
		var other sync.WaitGroup
		defer other.Wait()
		if e.twice {
			other.Go(func() { say(p.other(a.server), "a photo of the second device") })
		}
	}
	if settled, next = say(a.server, value); settled || kit.Sleep(ctx, p.Away) != nil {
		return settled, next
	}
	return say(p.other(a.server), value)
}

// took records an answer that a server took.
func (r *Record) took(s said) {
	defer r.lock()()
	r.said = append(r.said, s)
}

// toldOf reports whether a server has taken an answer.
func (r *Record) toldOf(s said) bool {
	defer r.lock()()
	return slices.Contains(r.said, s)
}

// Tools is a server of tools in this process, which no kill reaches. It does the same for the same key, and counts.
type Tools struct {
	stop func() error
	mu   sync.Mutex
	ran  map[string]*run // by the key
}

type run struct {
	arguments string
	times     int
}

// startTools starts it, and writes the file with which a server knows it.
func startTools(file string) (t *Tools, err error) {
	defer kit.Catch(&err)
	t = &Tools{ran: map[string]*run{}}
	base, stop, err := loopback.Serve(t, 0)
	kit.Check(err)
	t.stop = stop
	return t, os.WriteFile(file, fmt.Appendf(nil, `{"tools": [{"name": "look", "description": "Looks.", "url": "%[1]s/look"},
		{"name": "order", "description": "Orders.", "url": "%[1]s/order", "approval": true}]}`, base), 0o600)
}

// ServeHTTP takes a moment, and refuses some requests for a moment.
func (t *Tools) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil { // who asked is dead
		return
	}
	key := r.Header.Get("Idempotency-Key")
	t.mu.Lock()
	known := cmp.Or(t.ran[key], &run{arguments: string(body)})
	if known.times++; known.arguments != string(body) {
		known.arguments = `"different ones"`
	}
	t.ran[key] = known
	t.mu.Unlock()
	if kit.Sleep(r.Context(), rand.N(400*time.Millisecond)) == nil && rand.IntN(8) == 0 { //nolint:gosec // spreads the kills
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = io.WriteString(w, `{"done": true}`) // who is dead asks again
}

// Ran counts the requests, their keys, and the most requests with one key.
func (t *Tools) Ran() (requests, keys, most int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.ran {
		requests, most = requests+r.times, max(most, r.times)
	}
	return requests, len(t.ran), most
}

// runs are rows of what ran: the reply, the call, its arguments. A nil server ran nothing.
func (t *Tools) runs() (rows [][]any) {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, r := range t.ran {
		reply, call, _ := strings.Cut(key, ":")
		rows = append(rows, []any{reply, call, json.RawMessage(r.arguments)})
	}
	return rows
}
