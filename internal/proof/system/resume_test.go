package system

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/testkit"
)

// A resume from any position in the text returns exactly the rest of it, while the reply runs and afterwards, on the
// same server and on another. A position past the end counts as the end.
func TestResumeAtEveryPosition(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := newRig(t, testkit.HeldReply(unicodeReply, 6, gate), nil)
	other := r.replica()
	asked := r.startReply(6)
	said, whole := len([]rune(asked.Text)), []rune(unicodeReply)
	open := func(n *node, position int) *testkit.Stream {
		if position%2 == 0 {
			return n.Resume(asked.ChatID(), fmt.Sprintf("?after=%d", position))
		}
		return n.Resume(asked.ChatID(), "?after=0", "Last-Event-ID", fmt.Sprintf("%s:%d", asked.MessageID(), position)) // the header decides
	}
	check := func(where string, streams []*testkit.Stream) {
		for position, got := range restOfAll(t, streams) {
			if want := string(whole[min(position, len(whole)):]); got.Text != want || got.End.Name != testkit.Completion {
				t.Errorf("%s, after %d: %q and %s, want %q", where, position, got.Text, got.End.Name, want)
			}
		}
	}
	var here, elsewhere []*testkit.Stream
	for position := range len(whole) + 3 {
		if position <= said { // no client has more than this server has sent
			here = append(here, open(r.node, position))
		}
		elsewhere = append(elsewhere, open(other, position))
	}
	close(gate)
	check("while it runs, here", here)
	check("while it runs, elsewhere", elsewhere)
	asked.Rest()
	here, elsewhere = nil, nil
	for position := range len(whole) + 3 {
		here, elsewhere = append(here, open(r.node, position)), append(elsewhere, open(other, position))
	}
	check("afterwards, here", here)
	check("afterwards, elsewhere", elsewhere)
}

// A cursor that no client can have is refused, on every replica, while a reply runs and afterwards.
func TestRefusedPositions(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := newRig(t, testkit.HeldReply(unicodeReply, 3, gate), nil)
	other := r.replica()
	asked, foreign := r.startReply(3), r.startReply(3)
	chatID, stranger := asked.ChatID(), testkit.Token(t, testkit.NewUser(t, r.db))
	empty := testkit.Ask[uuid.UUID](t, r.pool, "insert into chats (user_id, title) values ($1, '') returning id", r.user).String()
	type resume struct {
		chatID, query, lastEventID, token string
		want                              string // status and code
	}
	cases := []resume{
		{chatID, "?after=-1", "", r.token, "400 bad_request"}, {chatID, "", asked.MessageID() + ":1x", r.token, "400 bad_request"},
		{chatID, "", foreign.LastID(), r.token, "404 message_not_found"}, {chatID, "", uuid.NewString() + ":1", r.token, "404 message_not_found"},
		{chatID, "", asked.Events[0].Data["user_message_id"].(string) + ":1", r.token, "404 message_not_found"},
		{uuid.NewString(), "?after=0", "", r.token, "404 chat_not_found"}, {chatID, "", asked.LastID(), stranger, "404 chat_not_found"},
		{empty, "?after=0", "", r.token, "404 message_not_found"}, {empty, "", "", r.token, "204 "},
		{chatID, "?after=end", "", r.token, "204 "}, {chatID, "", asked.MessageID() + ":end", r.token, "204 "},
	}
	check := func(when string, cases []resume) {
		for _, n := range []*node{r.node, other} {
			for _, c := range cases {
				n.Token = c.token
				request := n.Request(t.Context(), http.MethodGet, testkit.ResumePath(c.chatID, c.query), nil)
				if c.lastEventID != "" {
					request.Header.Set("Last-Event-ID", c.lastEventID)
				}
				if got := n.Do(request); fmt.Sprint(got.Status, " ", got.Code()) != c.want {
					t.Errorf("%s, %+v: %d %s", when, c, got.Status, got.Text)
				}
			}
		}
	}
	check("while it runs", cases)
	close(gate)
	asked.Rest()
	foreign.Rest()
	check("afterwards", append(cases, resume{chatID, "", "", r.token, "204 "}))
}
