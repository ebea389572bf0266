package system

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/testkit"
)

// A reader on another replica gets the reply while it is generated, with the same text and terminal event as the
// reader who asked.
func TestFollowOnAnotherReplica(t *testing.T) {
	t.Parallel()
	notifiedAndPolling(t, func(t *testing.T, start replicas) {
		gate := make(chan struct{})
		r, other := start(testkit.HeldReply(unicodeReply, 5, gate))
		received := firstWords(unicodeReply, 5)
		asked := r.Send("", testkit.Body{"content": "Speak."})
		asked.UntilText(received)
		follower := other.Resume(asked.ChatID(), "")
		follower.UntilText(received)
		if row := r.stored(asked.MessageID()); row.status != "streaming" {
			t.Errorf("the reply is %s", row.status)
		}
		close(gate)
		first, second := asked.Rest(), follower.Rest()
		if first.Text != unicodeReply || second.Text != unicodeReply {
			t.Errorf("the replicas give %q and %q, want %q", first.Text, second.Text, unicodeReply)
		}
		if first.Start.Data["resumed"] != false || second.Start.Data["resumed"] != true {
			t.Errorf("resumed: %v and %v", first.Start.Data["resumed"], second.Start.Data["resumed"])
		}
		if diff := cmp.Diff(first.End, second.End); diff != "" {
			t.Errorf("the ends differ: %s", diff)
		}
		r.checkStored(first.MessageID, unicodeReply)
		r.awaitNoDeltas()
	})
}

// The listening connection breaks repeatedly while a reply runs. Its followers poll.
func TestFollowersOfLostNotifications(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := newRig(t, testkit.HeldReply(unicodeReply, 5, gate), nil)
	other := r.replica()
	admin := testkit.NewPool(t, r.db.AdminDSN)
	cutListeners := func() int {
		return testkit.Ask[int](t, admin, `select count(pg_terminate_backend(pid)) from pg_stat_activity
			where datname = current_database() and query ilike '%listen throughline_%' and backend_type = 'client backend' and pid <> pg_backend_pid()`)
	}
	asked := r.Send("", testkit.Body{"content": "Speak."})
	followers := []*testkit.Stream{asked, other.Resume(asked.ChatID(), ""), other.Resume(asked.ChatID(), "?after=3")}
	followers[1].UntilText(firstWords(unicodeReply, 5))
	cut := 0
	testkit.Eventually(t, "both replicas lose their connection", func() bool { cut += cutListeners(); return cut >= 2 })
	close(gate)
	said := restOfAll(t, followers)
	if said[0].Text != unicodeReply || said[1].Text != unicodeReply || said[2].Text != string([]rune(unicodeReply)[3:]) {
		t.Errorf("the readers have %q", []string{said[0].Text, said[1].Text, said[2].Text})
	}
	testkit.Eventually(t, "both listen again", func() bool {
		return testkit.Ask[int](t, admin, `select count(*) from pg_stat_activity where datname = current_database() and query ilike '%listen throughline_%' and pid <> pg_backend_pid()`) == 2
	})
}

// The test plays a server that records a reply and sends no notifications. Its followers find the text and the end.
func TestFollowersWithoutNotifications(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	chatID := r.Say("", "Hello, I am Ada.").ChatID
	messageID := testkit.Ask[uuid.UUID](t, r.pool, `insert into messages (chat_id, role, status, content, reply_to, lease_until)
		select chat_id, 'assistant', 'streaming', '', id, now() + interval '1 hour' from messages where role = 'user' returning id`)
	record := func(place int, delta string) {
		testkit.Exec(t, r.pool, "insert into message_deltas (message_id, user_id, start_char, delta) values ($1, $2, $3, $4)", messageID, r.user, place, delta)
	}
	follower := r.Resume(chatID, "")
	record(0, "Grüße ")
	follower.UntilText("Grüße ")
	record(6, "aus ")
	record(10, "👩‍👩‍👧 ")
	follower.UntilText("Grüße aus 👩‍👩‍👧 ")
	testkit.Exec(t, r.pool, "update messages set status = 'complete', content = 'Grüße aus 👩‍👩‍👧 Wien.' where id = $1", messageID)
	if got := follower.Rest(); got.Text != "Grüße aus 👩‍👩‍👧 Wien." || got.End.Name != testkit.Completion {
		t.Errorf("%q, %s", got.Text, got.End.Name)
	}
}

// A reply that is deleted, alone or with its chat, ends for all its readers.
func TestFollowersOfDeletedReply(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"delete from messages where role = 'assistant'", "delete from chats"} {
		t.Run(strings.Fields(how)[2], func(t *testing.T) {
			t.Parallel()
			gate := make(chan struct{})
			r := newRig(t, holdReplies(gate), nil)
			other := r.replica()
			asked := r.Send("", testkit.Body{"content": "Speak."})
			follower := other.Resume(asked.ChatID(), "")
			follower.UntilText("This ")
			testkit.Exec(t, r.pool, how)
			if got := follower.Rest(); got.End.Name != testkit.Failed || got.End.Code() != "message_not_found" {
				t.Errorf("the follower's end is %s %v", got.End.Name, got.End.Data)
			}
			close(gate)
			if got := asked.Rest(); got.End.Name != testkit.Failed {
				t.Errorf("the reply ended with %s %v", got.End.Name, got.End.Data)
			}
			r.awaitNoDeltas()
		})
	}
}
