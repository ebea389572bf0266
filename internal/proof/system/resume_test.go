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
	asked := r.startReply(3)
	chatID, messageID, userMessageID := asked.ChatID(), asked.MessageID(), asked.Events[0].Data["user_message_id"].(string)
	foreignChat := r.Send("", testkit.Body{"content": "Speak elsewhere."})
	foreignChat.UntilText(firstWords(unicodeReply, 3))
	empty := testkit.Ask[uuid.UUID](t, r.pool, "insert into chats (user_id, title) values ($1, '') returning id", r.user).String()
	stranger := testkit.Token(t, testkit.NewUser(t, r.db))

	type resumeCase struct {
		chatID, query, lastEventID, token string
		status                            int
		code                              string
	}
	cases := []resumeCase{
		{chatID: chatID, query: "?after=x", status: 400, code: "bad_request"},
		{chatID: chatID, query: "?after=-1", status: 400, code: "bad_request"},
		{chatID: chatID, query: "?after=", status: 400, code: "bad_request"},
		{chatID: chatID, query: "?after=1.5", status: 400, code: "bad_request"},
		{chatID: chatID, query: "?after=END", status: 400, code: "bad_request"},
		{chatID: chatID, lastEventID: "nonsense", status: 400, code: "bad_request"},
		{chatID: chatID, lastEventID: messageID, status: 400, code: "bad_request"},
		{chatID: chatID, lastEventID: messageID + ":", status: 400, code: "bad_request"},
		{chatID: chatID, lastEventID: messageID + ":-1", status: 400, code: "bad_request"},
		{chatID: chatID, lastEventID: messageID + ":1x", status: 400, code: "bad_request"},
		{chatID: chatID, lastEventID: messageID[1:] + ":1", status: 400, code: "bad_request"},
		{chatID: chatID, lastEventID: foreignChat.LastID(), status: 404, code: "message_not_found"},
		{chatID: chatID, lastEventID: foreignChat.MessageID() + ":end", status: 404, code: "message_not_found"},
		{chatID: chatID, lastEventID: userMessageID + ":1", status: 404, code: "message_not_found"},
		{chatID: chatID, lastEventID: uuid.NewString() + ":1", status: 404, code: "message_not_found"},
		{chatID: "nonsense", status: 400, code: "bad_uuid"},
		{chatID: uuid.NewString(), status: 404, code: "chat_not_found"},
		{chatID: uuid.NewString(), query: "?after=0", status: 404, code: "chat_not_found"},
		{chatID: chatID, token: stranger, status: 404, code: "chat_not_found"},
		{chatID: chatID, token: stranger, lastEventID: asked.LastID(), status: 404, code: "chat_not_found"},
		{chatID: chatID, token: stranger, query: "?after=end", status: 404, code: "chat_not_found"},
		{chatID: empty, query: "?after=0", status: 404, code: "message_not_found"},
		{chatID: empty, status: 204},
		{chatID: chatID, query: "?after=end", status: 204},
		{chatID: chatID, lastEventID: messageID + ":end", status: 204},
	}
	check := func(when string, cases []resumeCase) {
		for _, n := range []*node{r.node, other} {
			for _, c := range cases {
				client := n.Client
				if c.token != "" {
					client.Token = c.token
				}
				var headers []string
				if c.lastEventID != "" {
					headers = []string{"Last-Event-ID", c.lastEventID}
				}
				got := client.Call(http.MethodGet, testkit.ResumePath(c.chatID, c.query), nil, headers...)
				if got.Status != c.status || got.Code() != c.code {
					t.Errorf("%s, %+v: %d %s", when, c, got.Status, got.Text)
				}
			}
		}
	}
	check("while it runs", cases)
	close(gate)
	asked.Rest()
	foreignChat.Rest()
	check("afterwards", append(cases, resumeCase{chatID: chatID, status: 204}))
}
