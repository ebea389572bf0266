package testkit

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// streamOf is a stream of these events, read from a real server.
func streamOf(t *testing.T, events ...string) *Stream {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, ": a comment\n\n", strings.Join(events, ""))
	}))
	t.Cleanup(server.Close)
	return Client{T: t, Base: server.URL}.Open(http.MethodGet, "/", nil)
}

func line(id, name, data string) string {
	return "id: m:" + id + "\nevent: " + name + "\ndata: " + data + "\n\n"
}

const begin = `{"chat_id": "c", "user_message_id": "u", "message_id": "m", "offset": 0}`

func TestStreamIsReadWhole(t *testing.T) {
	t.Parallel()
	s := streamOf(t, line("0", Started, begin), line("6", Delta, `{"offset": 0, "delta": "Grüße "}`), line("8", Delta, `{"offset": 6, "delta": "👩‍"}`),
		line("end", Completion, `{"content_length": 8}`))
	s.UntilText("Grüße ")
	got := s.Rest()
	assert.Truef(t, got.Text == "Grüße 👩‍" && got.ChatID == "c" && got.MessageID == "m" && got.UserMessageID == "u" && got.End.Name == Completion,
		"got %+v", got)
}

func TestStreamWithPartsIsReadWhole(t *testing.T) {
	t.Parallel()
	s := streamOf(t, line("2.1", Started, `{"chat_id": "c", "user_message_id": "u", "message_id": "m", "offset": 2, "parts": 1}`),
		line("4.1", Delta, `{"offset": 2, "delta": "ab"}`), line("4.2", PartAdded, `{"index": 1, "offset": 4, "part": {"type": "tool_call", "at": 4}}`),
		line("4.2", Awaiting, `{"content_length": 4}`))
	got := s.Rest()
	assert.Truef(t, got.Text == "ab" && len(s.Parts) == 1 && s.Parts[0]["type"] == "tool_call" && got.End.Name == Awaiting, "got %+v", got)
}

// An event that a server must never send is noticed in every test.
func TestStreamNoticesWhatIsWrong(t *testing.T) {
	t.Parallel()
	start, word, end := line("0", Started, begin), line("4", Delta, `{"offset": 0, "delta": "one "}`), line("end", Completion, `{"content_length": 4}`)
	part := line("0.1", PartAdded, `{"index": 0, "offset": 0, "part": {"at": 0}}`)
	for what, events := range map[string][]string{
		"no beginning":                    {word, end},
		"two beginnings":                  {start, start, end},
		"a gap":                           {start, line("8", Delta, `{"offset": 4, "delta": "two "}`), end},
		"a wrong id":                      {start, line("5", Delta, `{"offset": 0, "delta": "one "}`), end},
		"another message's id":            {start, strings.Replace(word, "m:", "n:", 1), end},
		"a wrong length":                  {start, word, line("end", Completion, `{"content_length": 5}`)},
		"a terminal event without its id": {start, word, line("4", Completion, `{"content_length": 4}`)},
		"something after the end":         {start, word, end, end},
		"no JSON":                         {start, line("4", Delta, `one`), end},
		"a part that is missing":          {start, line("0.1", PartAdded, `{"index": 1, "offset": 0, "part": {"at": 0}}`), end},
		"a part that comes twice":         {start, part, part, end},
		"a part at another place":         {start, line("0.1", PartAdded, `{"index": 0, "offset": 4, "part": {"at": 4}}`), end},
		"a part that says another place":  {start, line("0.1", PartAdded, `{"index": 0, "offset": 0, "part": {"at": 4}}`), end},
		"an id without the parts":         {start, part, word, end},
		"an id before the part":           {start, line("0", PartAdded, `{"index": 0, "offset": 0, "part": {"at": 0}}`), end},
		"a part too few":                  {start, word, line("end", Completion, `{"content_length": 4, "parts": 1}`)},
		"a reply that waits at its end":   {start, word, line("end", Awaiting, `{"content_length": 4}`)},
	} {
		_, err := streamOf(t, events...).TryRest()
		assert.Truef(t, err != nil && !errors.Is(err, ErrCut), "%s: %v", what, err)
	}
	_, err := streamOf(t, start, word).TryRest()
	assert.ErrorIsf(t, err, ErrCut, "no end: %v", err)
}
