package people

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/streaming"
)

// Record is the knowledge of the people: the messages that they sent, the acknowledgements, the replies. No crash affects
// it, and the database is compared with it. It is safe for concurrent use. The zero Record is empty.
type Record struct {
	Talk     *Talk // what a message says, and must be replied
	mu       sync.Mutex
	messages []*message
	replies  map[uuid.UUID]*reply
	// repliesTo are the same, in the order in which they started.
	repliesTo map[*message][]*reply
	outages   []outage
	left      map[uuid.UUID]deletion // accounts
	said      []said                 // answers to calls that a server took
	broken    []string               // answers that contradict themselves or earlier ones
	failures  map[string]int
	selected  int // versions
}

// outage is a time in which Postgres was away, or a server frozen; to is zero while Postgres is.
type outage struct {
	from, to time.Time
	server   string // the frozen one; "" for Postgres
}

// message is one that a user sends, in as many attempts as it takes. The record guards the fields after the blank line; the others never change.
type message struct {
	number   int
	user     uuid.UUID
	clientID uuid.UUID
	place    int       // among the ones that its client sent to this chat
	parent   *message  // the one before it on the path; nil for the first
	replaces uuid.UUID // what it was sent to replace; uuid.Nil for nothing
	again    *message  // it says nothing, and asks for another reply to this one; nil where it says something

	acknowledged bool
	chatID       uuid.UUID
	id           uuid.UUID
	home         string // the server that writes the reply
	deletion     deletion
	path         path
}

// asked is the message that the replies answer.
func (m *message) asked() *message { return cmp.Or(m.again, m) }

// deletion is the state of a request to delete something.
type deletion int

const (
	untouched deletion = iota
	asked              // no answer came: it may be deleted or not
	done
)

// reply is one reply as far as it was received.
type reply struct {
	id       uuid.UUID
	message  *message
	text     []byte
	chars    int // of the text
	growth   []growth
	home     string // the server that writes it; "" where its beginning was not heard
	ended    string // the name of its last event
	deletion deletion
	certain  int // characters that must be stored, in a copy of the record
}

// growth is when the text up to a character was first received.
type growth struct {
	at    time.Time
	chars int
}

func (r *Record) lock() (unlock func()) {
	r.mu.Lock()
	return r.mu.Unlock
}

// send records a message before it is sent, and so before it can be stored.
func (r *Record) send(m message) *message {
	defer r.lock()()
	m.number, m.clientID = len(r.messages)+1, uuid.New()
	if m.again != nil {
		m.number, m.chatID, m.id = m.again.number, m.again.chatID, m.again.id
	}
	r.messages = append(r.messages, &m)
	return &m
}

// fail counts a request that was not answered as it should be, which a crash may explain.
func (r *Record) fail(kind string) {
	defer r.lock()()
	if r.failures == nil {
		r.failures = map[string]int{}
	}
	r.failures[kind]++
}

// Failures counts them by their kind.
func (r *Record) Failures() map[string]int {
	defer r.lock()()
	return maps.Clone(r.failures)
}

// complain records an answer that no crash explains.
func (r *Record) complain(format string, args ...any) {
	defer r.lock()()
	r.broken = append(r.broken, fmt.Sprintf(format, args...))
}

// leaving records what became of an account, and so of all that was said with it.
func (r *Record) leaving(user uuid.UUID, now deletion) {
	defer r.lock()()
	if r.left == nil {
		r.left = map[uuid.UUID]deletion{}
	}
	r.left[user] = now
}

func (r *Record) hasLeft(user uuid.UUID) bool {
	defer r.lock()()
	return r.left[user] != untouched
}

// awaitReading waits a moment until a model reads something that a user said, and returns its chat; uuid.Nil where none does.
func (r *Record) awaitReading(ctx context.Context, user uuid.UUID) uuid.UUID {
	const moment = 2 * time.Second
	for until := time.Now().Add(moment); time.Now().Before(until) && kit.Sleep(ctx, 10*time.Millisecond) == nil; {
		for _, m := range r.now().messages {
			if m.user == user && m.deletion == untouched && r.Talk.readUntil(m.number).After(time.Now()) {
				return m.chatID
			}
		}
	}
	return uuid.Nil
}

// start records the event with which a server acknowledges the message.
func (r *Record) start(m *message, started streaming.Started, server string) {
	defer r.lock()()
	if r.replies == nil {
		r.replies, r.repliesTo = map[uuid.UUID]*reply{}, map[*message][]*reply{}
	}
	if !started.Resumed {
		m.home = server
	}
	if !m.acknowledged && m.again == nil {
		m.chatID, m.id = started.ChatID, started.UserMessageID
	}
	m.acknowledged = true
	if m.chatID != started.ChatID || m.id != started.UserMessageID {
		r.broken = append(r.broken, fmt.Sprintf("ask%d was %s in chat %s, and is %s in chat %s when it is sent again",
			m.number, m.id, m.chatID, started.UserMessageID, started.ChatID))
	}
	if r.replies[started.MessageID] == nil {
		heard := &reply{id: started.MessageID, message: m}
		if !started.Resumed {
			heard.home = server
		}
		r.replies[heard.id] = heard
		r.repliesTo[m] = append(r.repliesTo[m], heard)
	}
	if r.replies[started.MessageID].message.asked() != m.asked() {
		r.broken = append(r.broken, fmt.Sprintf("the reply %s is to ask%d and to ask%d", started.MessageID, r.replies[started.MessageID].message.number, m.number))
	}
}

// grow records a delta and returns the number of characters up to its end. Text that came before must be the same.
func (r *Record) grow(delta streaming.Delta) int {
	defer r.lock()()
	known := r.replies[delta.MessageID]
	if known == nil || delta.Offset > known.chars {
		r.broken = append(r.broken, fmt.Sprintf("a delta of the reply %s at character %d leaves a gap", delta.MessageID, delta.Offset))
		return delta.Offset
	}
	end := delta.Offset + utf8.RuneCountInString(delta.Delta)
	before, piece := after(known.text, delta.Offset), []byte(delta.Delta)
	if overlap := min(len(before), len(piece)); !bytes.Equal(before[:overlap], piece[:overlap]) {
		r.broken = append(r.broken, fmt.Sprintf("the reply %s says something else at character %d when it is read again", delta.MessageID, delta.Offset))
	}
	if end > known.chars {
		known.text = append(known.text[:len(known.text)-len(before)], piece...)
		known.chars = end
		known.growth = append(known.growth, growth{time.Now(), end})
	}
	return end
}

// after returns what follows so many characters of a text.
func after(text []byte, chars int) []byte {
	for ; chars > 0 && len(text) > 0; chars-- {
		_, size := utf8.DecodeRune(text)
		text = text[size:]
	}
	return text
}

// end records a terminal event. length is that of the whole reply, -1 where the event has none.
func (r *Record) end(id uuid.UUID, name string, length int) {
	defer r.lock()()
	known := r.replies[id]
	switch {
	case known == nil:
		r.broken = append(r.broken, fmt.Sprintf("%s of a reply %s that never started", name, id))
		return
	case length >= 0 && length != known.chars:
		r.broken = append(r.broken, fmt.Sprintf("the reply %s ends with %d characters, but %d were heard", id, length, known.chars))
	case known.ended == name:
		return
	case max(known.deletion, known.message.asked().deletion, r.left[known.message.user]) != untouched: // another server finds it gone
	case known.ended == streaming.EventCompleted, known.ended == streaming.EventCancelled:
		r.broken = append(r.broken, fmt.Sprintf("the reply %s ended with %s, and when it is read again with %s", id, known.ended, name))
	}
	known.ended = name
	if name == streaming.EventCompleted {
		known.growth = nil // all of it must be stored
	}
}

// deletable returns the id and state of a message, or of its final reply; nil while that has not ended for good, or where one was to be deleted.
func (r *Record) deletable(m *message, itsReply bool) (uuid.UUID, *deletion) {
	defer r.lock()()
	var last *reply
	for _, heard := range r.repliesTo[m] {
		if heard.ended == streaming.EventCompleted || heard.ended == streaming.EventCancelled {
			last = heard
		}
	}
	switch {
	case last == nil || m.asked().deletion != untouched || last.deletion != untouched:
		return uuid.Nil, nil
	case itsReply:
		return last.id, &last.deletion
	}
	return m.id, &m.asked().deletion
}

func (r *Record) deleting(of *deletion, now deletion) {
	defer r.lock()()
	*of = now
}

// Away records that Postgres is away from now on.
func (r *Record) Away() {
	defer r.lock()()
	r.outages = append(r.outages, outage{from: time.Now()})
}

// Back records that Postgres is there again.
func (r *Record) Back() {
	defer r.lock()()
	r.outages[len(r.outages)-1].to = time.Now()
}

// Frozen notes that a server records nothing for that long, though its clients may have heard more.
func (r *Record) Frozen(server string, long time.Duration) {
	defer r.lock()()
	r.outages = slices.Insert(r.outages, 0, outage{time.Now(), time.Now().Add(long), server}) // the last one is for Back
}

// certainAfter is how long before the last received text an earlier text is certain to be stored. The server
// records every 250 ms; this is far more, because all processes share two cores.
const certainAfter = 1500 * time.Millisecond

// certain returns how many characters of a reply must be stored when its server is killed. The lock is held.
func (r *Record) certain(known *reply) int {
	if len(known.growth) == 0 {
		return 0
	}
	const afterOutage = 3 * time.Second // recording begins again within it
	first, last := known.growth[0].at, known.growth[len(known.growth)-1].at
	for _, o := range r.outages {
		if o.server != "" && known.home != "" && o.server != known.home {
			continue
		}
		if o.from.Before(last.Add(certainAfter)) && (o.to.IsZero() || o.to.Add(afterOutage).After(first)) {
			return 0
		}
	}
	chars := 0
	for _, grown := range known.growth {
		if last.Sub(grown.at) >= certainAfter {
			chars = grown.chars
		}
	}
	return chars
}

// whereabouts returns the chat of a message, whether it was acknowledged, and which server writes its reply.
func (r *Record) whereabouts(m *message) (chat uuid.UUID, acknowledged bool, home string) {
	defer r.lock()()
	return m.chatID, m.acknowledged, m.home
}

type known struct {
	messages []message
	replies  []reply
	said     []said
	broken   []string
	selected int
}

func (r *Record) now() known {
	defer r.lock()()
	k := known{said: slices.Clone(r.said), broken: slices.Clone(r.broken), selected: r.selected}
	for _, m := range r.messages {
		one := *m
		one.deletion = max(m.deletion, r.left[m.user])
		k.messages = append(k.messages, one)
	}
	for _, heard := range r.replies {
		one := *heard
		one.text, one.certain, one.deletion = slices.Clone(heard.text), r.certain(heard), max(heard.deletion, r.left[heard.message.user])
		k.replies = append(k.replies, one)
	}
	return k
}

// Confirmed returns the messages that a server acknowledged.
func (r *Record) Confirmed() (ids []uuid.UUID) {
	for _, m := range r.now().messages {
		if m.acknowledged && m.deletion == untouched {
			ids = append(ids, m.id)
		}
	}
	return ids
}

// Tally is what happened, in numbers.
type Tally struct{ Acknowledged, Completed, Cancelled, Failed, Deleted, Edited, Regenerated, Selected int }

// Tally counts.
func (r *Record) Tally() (t Tally) {
	k := r.now()
	t.Selected = k.selected
	for _, m := range k.messages {
		t.Deleted += btoi(m.deletion == done)
		t.Acknowledged += btoi(m.acknowledged && m.again == nil)
		t.Regenerated += btoi(m.acknowledged && m.again != nil)
		t.Edited += btoi(m.acknowledged && m.again == nil && m.replaces != uuid.Nil)
	}
	for _, r := range k.replies {
		t.Deleted += btoi(r.deletion == done)
		t.Completed += btoi(r.ended == streaming.EventCompleted)
		t.Cancelled += btoi(r.ended == streaming.EventCancelled)
		t.Failed += btoi(r.ended == streaming.EventFailed)
	}
	return t
}

func btoi(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// What people count.
const (
	Turns = iota
	Drops
	Cancels
	Repeats
	Reads
	counts
)

// What people time.
const (
	FirstWord    = iota // from sending a message to its reply's first word, without the model's time
	WordLag             // of a word behind the model's pace
	LagElsewhere        // the same, read from another server than the one that generates
	ResumeGap           // from asking for the rest of a reply to its first missing words
	ReadTime            // of history, memory, chats, search
	TurnTime            // from sending a message to the end of its reply
	times
)

// Gauges are what all people together count and time. They are safe for concurrent use.
type Gauges struct {
	mu         sync.Mutex
	counts     [counts]int
	times      [times]kit.Times
	open, most int // streams
}

func (g *Gauges) lock() (unlock func()) {
	g.mu.Lock()
	return g.mu.Unlock
}

// Reset forgets all but the streams that are open.
func (g *Gauges) Reset() {
	defer g.lock()()
	g.counts, g.times, g.most = [counts]int{}, [times]kit.Times{}, g.open
}

// Count adds to a count.
func (g *Gauges) Count(what, n int) {
	defer g.lock()()
	g.counts[what] += n
}

// Counted returns a count.
func (g *Gauges) Counted(what int) int {
	defer g.lock()()
	return g.counts[what]
}

func (g *Gauges) took(what int, d time.Duration) {
	defer g.lock()()
	g.times[what] = append(g.times[what], d)
}

// Times returns the measured times.
func (g *Gauges) Times(what int) kit.Times {
	defer g.lock()()
	return g.times[what]
}

func (g *Gauges) opened(n int) {
	defer g.lock()()
	g.open += n
	g.most = max(g.most, g.open)
}

// Open returns how many streams are open, and how many were at most.
func (g *Gauges) Open() (now, most int) {
	defer g.lock()()
	return g.open, g.most
}
