package topics_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
)

// What happens to the topic while the model works.
func TestChangeMeanwhileIsNeverOverwritten(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change string
		// lost is whether the compaction must not be written, left what is packed when it is tried again.
		lost bool
		left int
	}{
		"a message deleted":       {"delete from messages where chat_id = $1 and seq = 3", true, 11},
		"all messages deleted":    {"delete from messages where chat_id = $1", true, 0},
		"the chat deleted":        {"delete from chats where id = $1", true, 0},
		"the account deleted":     {"delete from auth.users where id = (select user_id from chats where id = $1)", true, 0},
		"archived":                {"update topics set state = 'archived' where chat_id = $1", true, 0},
		"a turn moved away":       {"update turn_index set topic_id = gen_random_uuid() where chat_id = $1 and seq = 3", true, 10},
		"a turn of another topic": {"insert into messages (chat_id, role, content, token_count) values ($1, 'user', 'Else', 1)", false, 12},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var r *compactRig
			var of topic
			changed := false
			r = newCompactRig(t, func(*offline.Request) offline.Answer {
				if !changed {
					changed = true
					testkit.Exec(t, r.pool, c.change, of.chatID)
				}
				return offline.Answer{Text: "They talked about something."}
			}, nil)
			of = r.topic(8)
			report, err := r.compact(of)
			want := map[bool]work.Result{true: work.Conflict, false: work.Done}[c.lost]
			require.Truef(t, err == nil && report.Result == want, "%+v, %v, want %s", report, err, want)
			if n := testkit.Ask[int](t, r.pool, "select count(*) from topics where id = $1", of.id); n == 0 {
				return // went with its messages
			}
			r.check(of)
			got := r.row(of)
			require.Truef(t, !c.lost || (got.Summary == "" && got.Archived == 0), "it was written: %+v", got)
			if !c.lost || c.left == 0 {
				return
			}
			r.recount(of)
			r.mustCompact(of)
			if inputs := r.inputs(); strings.HasSuffix(c.change, "seq = 3") && strings.Contains(inputs[len(inputs)-1], "Question 3 ") {
				t.Errorf("the model read again what is gone: %s", inputs[len(inputs)-1])
			}
			got = r.row(of)
			assert.Truef(t, got.Archived == c.left, "afterwards %+v, want %d archived", got, c.left)
		})
	}
}
