package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/internal/proof/people"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// point is where a reply is when its server is killed.
type point struct {
	name string
	// reached is what has happened then; see play.note.
	reached string
	// holds is what waits meanwhile: "model" and a step, a tool and the number of its call, or "answer"; after is how many words of the
	// step come before.
	holds string
	after int
	// passing is of a point that is no state: what waits goes on that long before the kill at most, at any moment.
	passing time.Duration
}

const (
	wholeStep    = 99 // words
	aMoment      = 15 * time.Millisecond
	whileTalking = 200 * time.Millisecond
)

var points = []point{
	{name: "the model was asked", reached: "model 0", holds: "model 0"},
	{name: "within the first text", reached: "says Let me ", holds: "model 0", after: 2, passing: whileTalking},
	{name: "a step has ended", reached: "says " + said[0], holds: "model 0", after: wholeStep, passing: aMoment},
	{name: "a tool was called", reached: "look 1", holds: "look 1"},
	{name: "a tool has answered", reached: "look 2", holds: "look 2", passing: aMoment},
	{name: "its result was seen", reached: "result look1", holds: "look 2"},
	{name: "the reply waits", reached: "answer", holds: "answer"},
	{name: "the answer was sent", reached: "answer", holds: "answer", passing: aMoment},
	{name: "the answer was seen", reached: "result photo1", holds: "model 1"},
	{name: "an approved tool runs", reached: "order 0", holds: "order 0"},
	{name: "within the second text", reached: "says " + said[0] + "\n\nNow I ", holds: "model 1", after: 2, passing: whileTalking},
	{name: "the reply completes", reached: "says " + strings.Join(said[:], "\n\n"), holds: "model 2", after: wholeStep, passing: aMoment},
}

// said are the texts of the steps.
var said = [3]string{
	"Let me " + strings.Repeat("look and ", 40) + "see.", "Now I " + strings.Repeat("think and ", 40) + "order it.", "It is ordered, good bye.",
}

// perWave is how many replies are at each point when a server is killed.
const perWave = 10

const (
	// lease is how long a reply may still be that of the server that is gone.
	lease = 15 * time.Second
	// stuckAfter is counted from the end of the lease on.
	stuckAfter = 20 * time.Second
)

// Two servers of the built program on one Postgres: replies wait for their users, and then servers are killed.
func TestTwoServers(t *testing.T) {
	t.Parallel()
	k := &kills{tools: newToolbox(t), took: map[string]kit.Times{}}
	k.tools.hold = func(tool string, given arguments) <-chan struct{} {
		return k.play(given.Play).note(fmt.Sprint(tool, " ", given.N))
	}
	k.System = startTwo(t, k.tools, k.say)
	t.Run("replies wait", func(t *testing.T) { waitForUsers(t, k.System) })
	for first := 0; first < *rounds; first += perWave {
		t.Run(fmt.Sprint("killed from round ", first), func(t *testing.T) { k.wave(t, first/perWave, min(perWave, *rounds-first)) })
	}
	k.conclude(t)
}

// startTwo starts two servers of the built program.
func startTwo(t *testing.T, tools *toolbox, script people.Script) *people.System {
	s, err := people.Start(t.Context(), people.Plan{
		Source: "../../..", Commands: []string{"serve", "serve"}, Script: script, NoVector: true,
		Settings: map[string]string{
			"TOOLS_FILE": tools.file(t), "LONG_TERM_MEMORY": "false", "TOPICS": "off", "RATE_LIMIT_MESSAGES_PER_MINUTE": "0", "MAX_STREAMS_PER_USER": "0",
		},
		Postgres: map[string]string{"shared_buffers": "64MB", "fsync": "off"},
	}, t.Output())
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, s.Model.Irregular())
		assert.NoError(t, s.Close(false))
	})
	require.NoError(t, s.Run(t.Context()))
	return s
}

type kills struct {
	*people.System

	tools *toolbox
	plays sync.Map // by their numbers
	next  atomic.Int64

	took  map[string]kit.Times // from the kill to the end, by the point
	stuck int
}

func (k *kills) play(number int) *play {
	found, _ := k.plays.Load(number)
	return found.(*play)
}

// say makes the model look twice and take a photo, then order, then end.
func (k *kills) say(r *offline.Request) offline.Answer {
	number := numberIn(r.Current)
	if number == 0 {
		return seePhoto(r)
	}
	p := k.play(number)
	call := func(name string, n int) offline.Call {
		return offline.Call{Name: name, CallID: fmt.Sprint(name, max(n, 1)), Arguments: arguments{Play: number, N: n}}
	}
	calls := [][]offline.Item{{call("look", 1), call("look", 2), call("photo", 0)}, {call("order", 0)}, {}}
	answer := offline.Answer{Items: append([]offline.Item{offline.Text{Text: said[r.Step]}}, calls[r.Step]...), FaultAfter: wholeStep}
	if held := p.note(fmt.Sprint("model ", r.Step)); held != nil {
		answer.Gate, answer.GateAfter, answer.PieceDelay = held, p.point.after, 5*time.Millisecond // longer than whileTalking
	}
	return answer
}

// play is one reply that is brought to a point.
type play struct {
	point   point
	number  int
	once    sync.Once
	reached chan struct{} // closed when it is at its point
	goOn    chan struct{} // closed when what waits there goes on
	killed  atomic.Bool
	device  *device
	reader  *device
}

// note notes what happens. It returns what that has to wait for; nil for nothing.
func (p *play) note(what string) <-chan struct{} {
	if what == p.point.reached {
		p.once.Do(func() { close(p.reached) })
	}
	if what == p.point.holds {
		return p.goOn
	}
	return nil
}

// wave kills a server while some replies are at each point. Two devices of each user are there: when the server is gone, the first one sends
// the same again, anywhere, and the second one only reads, until the reply is complete.
func (k *kills) wave(t *testing.T, number, each int) {
	victim, servers := k.Parts[number%2], slices.Clone(k.Servers())
	if number%2 == 1 {
		slices.Reverse(servers)
	}
	var plays []*play
	for range each {
		for _, at := range points {
			plays = append(plays, k.begin(t, at, servers))
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var devices errgroup.Group
	for _, p := range plays {
		devices.Go(func() error { return p.insist(ctx) })
	}
	for _, p := range plays {
		select {
		case <-p.reached:
		case <-ctx.Done():
			require.FailNow(t, "a reply does not come to its point", p.point.name)
		}
	}
	for _, p := range plays {
		if within := p.point.passing; within > 0 {
			time.AfterFunc(whileTalking-rand.N(within), func() { close(p.goOn) })
		}
	}
	require.NoError(t, kit.Sleep(ctx, whileTalking))
	require.NoError(t, k.Kill(victim))
	killed := time.Now()
	for _, p := range plays {
		p.killed.Store(true)
		if p.point.passing == 0 {
			close(p.goOn)
		}
	}
	require.NoError(t, k.Run(ctx))
	require.NoError(t, devices.Wait())
	for _, p := range plays {
		k.look(t, p, killed)
	}
}

func (k *kills) begin(t *testing.T, at point, servers []string) *play {
	p := &play{point: at, number: int(k.next.Add(1)), reached: make(chan struct{}), goOn: make(chan struct{})}
	k.plays.Store(p.number, p)
	user, token, err := kit.NewUser(t.Context(), k.Admin)
	require.NoError(t, err)
	chat := testkit.Ask[uuid.UUID](t, k.Admin, `insert into chats (id, user_id) values (gen_random_uuid(), $1) returning id`, user)
	p.device = &device{play: p, client: testkit.Client{T: t, Token: token}, servers: servers, chat: chat.String(), message: uuid.NewString()}
	p.reader = &device{play: p, client: p.device.client, servers: slices.Clone(servers), chat: p.device.chat}
	if p.number%2 == 0 {
		slices.Reverse(p.reader.servers)
	}
	return p
}

// insist lets both devices do what they do until the reply is complete, and both have all of it.
func (p *play) insist(ctx context.Context) error {
	var both errgroup.Group
	done := make(chan struct{})
	both.Go(func() error {
		defer close(done)
		return p.device.act(ctx)
	})
	both.Go(func() error { return p.reader.watch(ctx, done) })
	if err := both.Wait(); err != nil {
		return fmt.Errorf("play %d, %s: %w", p.number, p.point.name, err)
	}
	return nil
}

// look checks what is left of a play: the row, what both devices have, what ran.
func (k *kills) look(t *testing.T, p *play, killed time.Time) {
	took := p.device.ended.Sub(killed)
	k.took[p.point.name] = append(k.took[p.point.name], took)
	if took > lease+stuckAfter {
		k.stuck++
	}
	row := read(t, k.Admin, p.device.has.id)
	at := "play %d, %s: %s"
	assert.Equal(t, "complete", row.Status, at, p.number, p.point.name, row.Content)
	require.NoError(t, sound(row.Content, row.Parts), at, p.number, p.point.name, row.Content)
	assert.True(t, strings.HasSuffix(row.Content, said[2]), at, p.number, p.point.name, row.Content)
	results := memory.Results(row.Parts)
	for call, want := range map[string]string{
		"look1": `{"did": "look", "n": 1}`, "look2": `{"did": "look", "n": 2}`, "photo1": `{"photo": "photo1"}`, "order1": `{"did": "order", "n": 0}`,
	} {
		assert.JSONEq(t, want, string(results[call].Output), at, p.number, p.point.name, call)
	}
	assert.Len(t, row.Parts, 9, at, p.number, p.point.name, row.Content)
	for _, device := range []*device{p.device, p.reader} {
		assert.Equal(t, row.Content, device.has.text, at, p.number, p.point.name, "what a device has")
		assert.True(t, sameParts(row.Parts, device.has.parts), at, p.number, p.point.name, device.has.parts)
	}
	k.again(t, p)
	testkit.Await(t, k.Admin, "no state is kept of a complete reply", 0,
		`select count(*)::int from message_deltas d join messages m on m.id = d.message_id where m.chat_id = $1`, p.device.chat)
}

// again wants an answer that was given before to change nothing, and another one to be refused.
func (k *kills) again(t *testing.T, p *play) {
	p.device.client.Base = k.Servers()[p.number%2]
	call := openCall{CallID: "photo1"}
	for code, body := range map[string]testkit.Body{"": call.answer(false), "call_settled": call.answer(true)} {
		answer := p.device.client.Call(http.MethodPost, call.path(p.device.has.id), body)
		assert.Equal(t, code, answer.Code(), "play %d, %s: %s", p.number, p.point.name, answer.Text)
	}
}

func sameParts(stored []memory.Part, heard []map[string]any) bool {
	raw, _ := json.Marshal(stored) // what was read as JSON
	var parts []map[string]any
	return json.Unmarshal(raw, &parts) == nil && reflect.DeepEqual(parts, heard)
}

func (k *kills) conclude(t *testing.T) {
	t.Helper()
	var all kit.Times
	for _, at := range points {
		t.Logf("%-24s %3d replies, from the kill to the end %5.1f s at most", at.name, len(k.took[at.name]), kit.Percentile(k.took[at.name], 1).Seconds())
		all = append(all, k.took[at.name]...)
	}
	twice, most := 0, 0
	replies := map[string]bool{}
	rows, err := k.Admin.Query(t.Context(), `select id::text from messages where role = 'assistant'`)
	require.NoError(t, err)
	for rows.Next() {
		var id string
		require.NoError(t, rows.Scan(&id))
		replies[id] = true
	}
	keys := k.tools.requests()
	for key, n := range keys {
		id, call, _ := strings.Cut(key, ":")
		assert.True(t, replies[id] && slices.Contains([]string{"look1", "look2", "order1"}, call), "a tool ran for %s", key)
		most = max(most, n)
		if n > 1 {
			twice++
		}
	}
	report(t, "replies whose server was killed, at 12 points of their calls", fmt.Sprintf("%s replies, %d servers killed: calls without exactly one "+
		"recorded result: 0; not complete %.0f s after the lease: %s (after the kill: median %.1f s, longest %s s); tools run by reading: 0; "+
		"keys that a tool was sent again: %s of %d, at most %d times", mark("killed", len(all)), k.Kills, stuckAfter.Seconds(), mark("stuck", k.stuck),
		kit.Percentile(all, .5).Seconds(), mark("longest", fmt.Sprintf("%.1f", kit.Percentile(all, 1).Seconds())), mark("again", twice), len(keys), most))
	assert.Zero(t, k.stuck, "stuck")
}
