package postgres

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
)

// countingAudience counts its calls.
type countingAudience struct {
	replies, all, cancels int
}

func (a *countingAudience) RepliesChanged(ids ...uuid.UUID) {
	if a.replies += len(ids); len(ids) == 0 {
		a.all++
	}
}
func (a *countingAudience) CancelsRequested() { a.cancels++ }
func (a *countingAudience) Listening(bool)    {}

// Every database user may notify. A payload names replies or is ignored: it never means all replies.
func FuzzNotification(f *testing.F) {
	id := uuid.NewString()
	for _, payload := range []string{"", id, id + "," + id, id + ",", "x," + id, ",,,,", "{" + id + "}", strings.Repeat(id+",", 200), "\x00", "\xff"} {
		f.Add(channelReplies, payload)
		f.Add(channelCancels, payload)
	}
	f.Fuzz(func(t *testing.T, channel, payload string) {
		audience := &countingAudience{}
		(&Listener{audience: audience}).forward(&pgconn.Notification{Channel: channel, Payload: payload})
		if audience.all != 0 || audience.replies > strings.Count(payload, ",")+1 || audience.cancels > 1 || audience.cancels == 1 && channel != channelCancels {
			t.Errorf("%q on %q: %+v", payload, channel, audience)
		}
	})
}
