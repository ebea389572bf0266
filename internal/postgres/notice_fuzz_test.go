package postgres

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
)

// told is an audience that remembers.
type told struct {
	replies, all, cancels int
}

func (a *told) RepliesChanged(ids ...uuid.UUID) {
	if a.replies += len(ids); len(ids) == 0 {
		a.all++
	}
}
func (a *told) CancelsRequested() { a.cancels++ }
func (a *told) Listening(bool)    {}

// Anybody who may connect may notify. A payload names replies to look at, or is nothing: it never makes everybody
// look at everything.
func FuzzNotification(f *testing.F) {
	id := uuid.NewString()
	for _, payload := range []string{"", id, id + "," + id, id + ",", "x," + id, ",,,,", "{" + id + "}", strings.Repeat(id+",", 200), "\x00", "\xff"} {
		f.Add(channelReplies, payload)
		f.Add(channelCancels, payload)
	}
	f.Fuzz(func(t *testing.T, channel, payload string) {
		audience := &told{}
		(&Listener{audience: audience}).tell(&pgconn.Notification{Channel: channel, Payload: payload})
		if audience.all != 0 || audience.replies > strings.Count(payload, ",")+1 || audience.cancels > 1 || audience.cancels == 1 && channel != channelCancels {
			t.Errorf("%q on %q: %+v", payload, channel, audience)
		}
	})
}
