package postgres

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// said returns the next piece of a turn's reply.
func (b *bed) said(turn chat.NewTurn, startChar int, text string) chat.Delta {
	return chat.Delta{MessageID: turn.MessageID, UserID: b.user.UserID, StartChar: startChar, Text: text}
}

func (b *bed) record(said []chat.Delta, ended ...uuid.UUID) {
	b.t.Helper()
	noError(b.t, b.turns.RecordDeltas(b.t.Context(), said, ended))
}

// find reads a turn's reply after that many characters.
func (b *bed) find(turn chat.NewTurn, from int) chat.StoredReply {
	b.t.Helper()
	stored, ok, err := b.turns.FindReply(b.t.Context(), b.user, turn.ChatID, turn.MessageID, from)
	mustBe(b.t, tuple(err, ok), tuple(nil, true), "find")
	return stored
}

func (b *bed) deltas() int {
	b.t.Helper()
	return b.count("message_deltas")
}

// A batch whose answer was lost is sent again, perhaps while Postgres still commits it: then it fails, and passes the next time.
func TestBatchSentAgainWhileItIsCommitted(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	one, two := b.startTwo()
	again := []chat.Delta{b.said(one, 0, "Hello "), b.said(two, 0, "Other.")}
	committing := b.begin()
	mustExec(t, committing, "insert into message_deltas (message_id, user_id, start_char, delta) values ($1, $2, 0, 'Hello ')", one.MessageID, b.user.UserID)
	if b.waitsFor(committing, func() error { return b.turns.RecordDeltas(t.Context(), again, nil) }) == nil {
		t.Error("a batch that met itself did not fail")
	}
	b.record(again)
	got := b.find(one, 0).Content + b.find(two, 0).Content
	is(t, tuple(got, b.deltas()), tuple("Hello Other.", 2), "of … deltas")
}

// Recorded text is read from a place on. Nothing is recorded for a reply that has ended, is another user's, or does not exist.
func TestRecordedDeltasAreReadFromAPlaceOn(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	one, two := b.startTwo()
	b.record([]chat.Delta{b.said(one, 0, "Größe "), b.said(two, 0, "Other.")})
	b.record([]chat.Delta{b.said(one, 6, "ist 🎻 ")})
	b.record([]chat.Delta{b.said(one, 6, "ist 🎻 "), b.said(one, 12, "alles.")}) // the one before is sent again
	for from, want := range map[int]string{0: "Größe ist 🎻 alles.", 6: "ist 🎻 alles.", 12: "alles.", 18: "", 1000: ""} {
		got := b.find(one, from)
		is(t, tuple(got.Content, got.Status), tuple(want, memory.StatusStreaming), "from %d: %+v", from, got)
	}
	b.reply(one, "Größe ist 🎻 alles.")
	is(t, b.find(one, 12).Content, "Größe ist 🎻 alles.", "a stored reply")
	b.record(nil, one.MessageID)
	forged := b.said(two, 6, "Forged.")
	forged.UserID = b.newUser().UserID
	b.record([]chat.Delta{forged, b.said(one, 19, "Late."), b.said(firstTurn("Three."), 0, "Of none.")})
	is(t, b.deltas(), 1, "deltas are left, want the other reply's")
}

// When a server dies, its recorded text becomes an interrupted reply; a cancelled one if the user had asked
// to stop it.
func TestAbandonedRepliesKeepWhatWasRecorded(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for name, end := range map[string]func(chat.NewTurn){
		"by whoever looks":    func(chat.NewTurn) { is(t, must(b.turns.InterruptAbandoned(t.Context()))(t), 2, "interrupted") },
		"by the next message": func(turn chat.NewTurn) { b.start(turnIn(turn.ChatID, "Are you there?")) },
	} {
		turn, stopped := b.startTwo()
		noError(t, b.turns.RequestCancel(t.Context(), b.user, stopped.MessageID))
		b.record([]chat.Delta{b.said(turn, 0, "Half of "), b.said(stopped, 0, "Enough.")})
		b.record([]chat.Delta{b.said(turn, 8, "a reply")})
		b.exec("update messages set lease_until = clock_timestamp() where id in ($1, $2)", turn.MessageID, stopped.MessageID)
		end(turn)
		got := b.find(turn, 0)
		is(t, tuple(got.Status, got.Content), tuple(memory.StatusInterrupted, "Half of a reply"), "%s: %+v", name, got)
		is(t, b.count("messages where id = $1 and token_count > 0", turn.MessageID), 1, "%s: the text counts tokens", name)
		b.start(turnIn(stopped.ChatID, "Go on."))
		got = b.find(stopped, 0)
		is(t, tuple(got.Status, got.Content), tuple(memory.StatusCancelled, "Enough."), "%s: %+v", name, got)
		is(t, b.deltas(), 0, "%s: deltas are left", name)
		b.checkCounters()
	}
}

// A lease that ran out while Postgres was down does not mean that the server died: it could not renew the
// lease, and gets some time to do so. One that runs out afterwards counts at once.
func TestLeasesAreNotLostToARestart(t *testing.T) {
	t.Parallel()
	server := testkit.NewServer(t)
	b := newBedOn(t, server.Database, memory.DefaultLimits(), 4)
	renewed, silent := b.startTwo()
	b.exec("update messages set lease_until = clock_timestamp() where status = 'streaming'")
	server.Stop()
	server.Start()
	b.pool.Reset() // its connections are broken
	is(t, must(b.turns.InterruptAbandoned(t.Context()))(t), 0, "interrupted")
	is(t, must(b.turns.StartTurn(t.Context(), b.user, turnIn(silent.ChatID, "Are you there?")))(t).Running, silent.MessageID, "the next message found")
	noError(t, b.turns.RenewLeases(t.Context(), []uuid.UUID{renewed.MessageID}, time.Minute))
	b.exec("update messages set lease_until = clock_timestamp() where id = $1", silent.MessageID)
	is(t, must(b.turns.InterruptAbandoned(t.Context()))(t), 1, "interrupted")
	if kept, lost := b.find(renewed, 0), b.find(silent, 0); kept.Status != memory.StatusStreaming || lost.Status != memory.StatusInterrupted {
		t.Errorf("%s, %s", kept.Status, lost.Status)
	}
}

// The sweep deletes the deltas of a server that died between storing a reply and deleting them.
func TestStrayDeltasAreDeleted(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	running, over := b.startTwo()
	b.record([]chat.Delta{b.said(running, 0, "Here."), b.said(over, 0, "Spent.")})
	b.reply(over, "Spent.")
	b.exec("insert into message_deltas (message_id, user_id, start_char, delta) values (gen_random_uuid(), $1, 0, 'x')", b.user.UserID)
	is(t, must(NewMaintenance(b.pool, b.limits).DeleteStrayDeltas(t.Context(), time.Hour))(t), 1, "of replies that ended a moment ago were deleted")
	n, err := NewMaintenance(b.pool, b.limits).DeleteStrayDeltas(t.Context(), 0)
	is(t, tuple(err, n, b.deltas()), tuple(nil, 1, 1), "%d deleted, … left", n)
}

// A thousand replies in one batch need several notifications.
func TestManyRepliesAreRecordedAtOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	const many = 450
	var said []chat.Delta
	for range many {
		turn := firstTurn("One.")
		b.start(turn)
		said = append(said, b.said(turn, 0, strings.Repeat("x", 100)))
	}
	audience := b.listen()
	b.record(said)
	changed := map[uuid.UUID]bool{}
	for len(changed) < many {
		changed[testkit.Receive(t, fmt.Sprintf("more than %d replies", len(changed)), audience.replies)] = true
	}
	is(t, b.deltas(), many, "deltas")
}
