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

// An event that a server must never send is noticed in every test.
func TestStreamNoticesWhatIsWrong(t *testing.T) {
	t.Parallel()
	start, word, end := line("0", Started, begin), line("4", Delta, `{"offset": 0, "delta": "one "}`), line("end", Completion, `{"content_length": 4}`)
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
	} {
		_, err := streamOf(t, events...).TryRest()
		assert.Truef(t, err != nil && !errors.Is(err, ErrCut), "%s: %v", what, err)
	}
	_, err := streamOf(t, start, word).TryRest()
	assert.ErrorIsf(t, err, ErrCut, "no end: %v", err)
}
