package people

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/streaming"
)

// newTestPerson listens, and has no system to talk to.
func newTestPerson() *Person {
	return &Person{record: &Record{Talk: testTalk()}, gauges: &Gauges{}}
}

// stream writes events as a server does.
func stream(events ...string) string {
	var b strings.Builder
	for i := 0; i < len(events); i += 2 {
		fmt.Fprintf(&b, ": ping\n\nevent: %s\nid: x\ndata: %s\n\n", events[i], events[i+1])
	}
	return b.String()
}

// What a client hears is kept, and what contradicts it is noticed.
func TestListening(t *testing.T) {
	t.Parallel()
	chat, ask, id, other := uuid.New(), uuid.New(), uuid.New(), uuid.New()
	started := func(user, reply uuid.UUID, offset int) string {
		return fmt.Sprintf(`{"chat_id":%q,"user_message_id":%q,"message_id":%q,"offset":%d}`, chat, user, reply, offset)
	}
	delta := func(reply uuid.UUID, offset int, text string) string {
		return fmt.Sprintf(`{"message_id":%q,"offset":%d,"delta":%q}`, reply, offset, text)
	}
	completed := func(length int) string {
		return fmt.Sprintf(`{"message_id":%q,"content_length":%d}`, id, length)
	}
	ended := fmt.Sprintf(`{"message_id":%q}`, id)
	begin := stream(streaming.EventStarted, started(ask, id, 0), streaming.EventDelta, delta(id, 0, "Größe "))
	for _, c := range []struct {
		name, first, then string
		broken            string // the report on it; "" for none
		settled, leaves   bool
		cursor            string
	}{
		{name: "a whole reply", first: begin,
			then:    stream(streaming.EventStarted, started(ask, id, 3), streaming.EventDelta, delta(id, 3, "ße ok"), streaming.EventCompleted, completed(8)),
			settled: true},
		{name: "broken off", first: begin,
			then: stream(streaming.EventStarted, started(ask, id, 6), streaming.EventDelta, delta(id, 6, "a")) + "event: comple", cursor: id.String() + ":7"},
		{name: "failed", first: begin, then: stream(streaming.EventStarted, started(ask, id, 6), streaming.EventFailed, ended)},
		{name: "cancelled", first: begin, then: stream(streaming.EventStarted, started(ask, id, 6), streaming.EventCancelled, ended), settled: true},
		{name: "other text", first: begin,
			then:   stream(streaming.EventStarted, started(ask, id, 0), streaming.EventDelta, delta(id, 0, "Grosse ")),
			broken: "says something else", cursor: id.String() + ":7"},
		{name: "a gap", first: begin,
			then: stream(streaming.EventStarted, started(ask, id, 9), streaming.EventDelta, delta(id, 9, "x")), broken: "leaves a gap", cursor: id.String() + ":9"},
		{name: "another length", first: begin,
			then: stream(streaming.EventStarted, started(ask, id, 6), streaming.EventCompleted, completed(9)), broken: "9 characters", settled: true},
		{name: "another message", first: begin,
			then: stream(streaming.EventStarted, started(other, id, 6)), broken: "when it is sent again", cursor: id.String() + ":6"},
		{name: "no start", first: "", then: stream(streaming.EventCompleted, completed(0)), broken: "never started", settled: true},
		{name: "no JSON", first: begin, then: stream(streaming.EventDelta, "{"), broken: "cannot be read", cursor: "kept"},
		{name: "two ends", first: begin + stream(streaming.EventCancelled, ended),
			then: stream(streaming.EventCompleted, completed(6)), broken: "ended with message.cancelled", settled: true},
		{name: "two ends, of an account that is deleted", first: begin + stream(streaming.EventCompleted, completed(6)),
			then: stream(streaming.EventFailed, ended), leaves: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			client := newTestPerson()
			m := client.record.send(message{user: uuid.New()})
			client.read(t.Context(), strings.NewReader(c.first), attempt{m: m}, time.Now())
			if c.leaves {
				client.record.leaving(m.user, asked)
			}
			settled, cursor := client.read(t.Context(), strings.NewReader(c.then), attempt{m: m, cursor: "kept"}, time.Now())
			assert.Truef(t, settled == c.settled && cursor == c.cursor, "settled %t, cursor %q", settled, cursor)
			said := strings.Join(client.record.now().broken, "; ")
			assert.Truef(t, strings.Contains(said, c.broken) && (c.broken != "" || said == ""), "it says %q", said)
		})
	}
}

// A reply heard long before the last sign of life must be stored; near an outage of Postgres nothing is certain.
func TestCertain(t *testing.T) {
	t.Parallel()
	last := time.Now()
	heard := &reply{home: "a", growth: []growth{{last.Add(-2 * certainAfter), 5}, {last.Add(-certainAfter), 9}, {last.Add(-time.Millisecond), 12}, {last, 14}}}
	for _, c := range []struct {
		name    string
		outages []outage
		want    int
	}{
		{"no outage", nil, 9},
		{"one long ago", []outage{{last.Add(-time.Hour), last.Add(-time.Minute), ""}}, 9},
		{"one that goes on", []outage{{last.Add(-time.Hour), time.Time{}, ""}}, 0},
		{"one in between", []outage{{last.Add(-time.Millisecond), last, ""}}, 0},
		{"one just before", []outage{{last.Add(-time.Hour), last.Add(-2 * certainAfter), ""}}, 0},
		{"its server frozen in between", []outage{{last.Add(-time.Second), last, "a"}}, 0},
		{"another server frozen in between", []outage{{last.Add(-time.Second), last, "b"}}, 9},
		{"one much later", []outage{{last.Add(time.Minute), time.Time{}, ""}}, 9},
	} {
		r := &Record{}
		r.outages = c.outages
		got := r.certain(heard)
		assert.Truef(t, got == c.want, "%s: %d characters, want %d", c.name, got, c.want)
	}
	got := (&Record{}).certain(&reply{})
	assert.Truef(t, got == 0, "of nothing %d characters are certain", got)
}

// A deletion between two looks is neither sure to have happened nor sure not to have.
func TestCertainly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ before, after, want deletion }{
		{untouched, untouched, untouched}, {untouched, asked, asked}, {untouched, done, asked}, {asked, done, asked}, {done, done, done}, {asked, untouched, asked},
	} {
		assert.Equalf(t, c.want, certainly(c.before, c.after), "%d then %d", c.before, c.after)
	}
}
