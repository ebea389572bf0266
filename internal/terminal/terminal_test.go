package terminal

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/client"
)

// played is a talk with a server that answers each request by its method and path, and keeps the requests.
type played struct {
	*talk
	t     *testing.T
	out   strings.Builder
	asked []string
}

func play(t *testing.T, answers map[string]string) *played {
	p := &played{t: t}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		p.asked = append(p.asked, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(bytes.TrimSpace(body))))
		_, _ = io.WriteString(w, answers[r.Method+" "+r.URL.Path])
	}))
	t.Cleanup(server.Close)
	c := client.New(server.URL, "a token")
	t.Cleanup(c.Close)
	p.talk = &talk{Options: Options{Client: c, Out: &p.out}}
	return p
}

// says types lines that must be understood.
func (p *played) says(lines ...string) {
	for _, line := range lines {
		require.NoErrorf(p.t, p.run(p.t.Context(), line), "%s", line)
	}
}

// wants is what was shown and, unless there is none of that, what was asked for.
func (p *played) wants(shown string, asked ...string) {
	assert.Equal(p.t, shown, p.out.String())
	got := strings.Join(p.asked, "\n")
	assert.Truef(p.t, asked == nil || got == strings.Join(asked, "\n"), "asked %s", got)
}

// tells types lines that are refused.
func (p *played) tells(refused map[string]string) {
	for line, want := range refused {
		err := p.run(p.t.Context(), line)
		assert.Truef(p.t, err != nil && strings.Contains(err.Error(), want), "%s: %v", line, err)
	}
}

const aChat = "0198a1f2-7c11-7d3e-9a44-5b0e6f1c2d31"

// What the server says of a memory is shown, and members that nobody here knows are passed over.
func TestMemoryIsShown(t *testing.T) {
	t.Parallel()
	p := play(t, map[string]string{"GET /v1/chats/" + aChat + "/memory": `{"chat_id": "` + aChat + `", "strategy": "hybrid", "coverage": "All \u001b[2Jof it.",
		"tokens": 12, "more": [1], "sections": [{"name": "tail", "text": "User: hi\u0007\nAssistant: yes\n", "tokens": 7, "turns": 1, "more": {}}]}`})
	p.chatID = uuid.MustParse(aChat)
	p.says("/memory")
	p.wants("hybrid, 12 tokens. All of it.\n\n[tail: 7 tokens, 1 turn]\nUser: hi\nAssistant: yes\n")
}

// The last reply is asked for, and what is known of it is shown.
func TestWhyIsShown(t *testing.T) {
	t.Parallel()
	p := play(t, map[string]string{
		"GET /v1/chats/" + aChat + "/messages": `{"messages": [{"id": "` + aChat + `", "role": "assistant"}, {"role": "tool"}]}`,
		"GET /v1/messages/" + aChat + "/why": `{"message_id": "` + aChat + `", "receipt": {"sections": [], "bridge_turns": 2, "tail_turns": 3, "brief_tokens": 9,
				"recall": "words", "recalled": [3], "recall_tokens": 8, "recalled_elsewhere": [{"seq": 1}],
				"memories": ["0198a1f2-7c11-7d3e-9a44-5b0e6f1c2d32", "0198a1f2-7c11-7d3e-9a44-5b0e6f1c2d33"], "memory_tokens": 9},
				"brief": {"version": 4, "text": null}, "topic": {"title": "The \u001b[2Jbow."}, "memories": [{"content": "Plays the \u001b[2Jcello.", "status": "active",
				"sources": [{"seq": 5, "quote": "my cello\u0007", "said_at": "2026-03-02T12:00:00Z"}]}, {"content": "Eats no nuts.", "status": "active",
					"sources": []}], "recalled": [{"seq": 3, "messages": [{"role": "user", "content": "The \u001b[2JA string.", "created_at": "2026-03-03T12:00:00Z"}]}],
				"recalled_elsewhere": [{"title": "My \u001b[2Jviolin", "seq": 1,
					"messages": [{"role": "user", "content": "Gut.", "created_at": "2026-03-02T12:00:00Z"}]}]}`,
	})
	p.chatID = uuid.MustParse(aChat)
	p.says("/why")
	p.wants("5 turns word for word, 0 dropped, 0 kept messages, 0 files, 0 sources.\n\n[brief v4, 9 tokens]\n(removed since)\n\n" +
		"[memory] Plays the cello.\n  said on 2026-03-02, message 5: my cello\n\n[memory] Eats no nuts.\n\n[back at the topic] The bow.\n\n[recalled by " +
		"words: 2 turns]\n2026-03-03  user: The A string.\nin another chat, My violin\n2026-03-02  user: Gut.\n")
}

func TestWriteFileIsAllOrNothing(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "export.md")
	whole := func(out io.Writer) error { _, err := io.WriteString(out, "whole"); return err }
	require.NoError(t, WriteFile(path, whole))
	broken := errors.New("broke off")
	err := WriteFile(path, func(out io.Writer) error { return errors.Join(whole(out), broken) })
	assert.ErrorIsf(t, err, broken, "%v", err)
	if raw, err := os.ReadFile(path); err != nil || string(raw) != "whole" {
		t.Errorf("%q, %v", raw, err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 1 {
		t.Errorf("left over: %v, %v", left, err)
	}
	assert.Error(t, WriteFile(filepath.Join(folder, "no", "folder"), whole), "written where there is no folder")
}

func TestCommandsTellWhatTheyWant(t *testing.T) {
	t.Parallel()
	somewhere, nowhere := play(t, nil), play(t, nil)
	somewhere.chatID = uuid.New()
	somewhere.tells(map[string]string{
		"/load": "wants a number", "/load x": "wants a number", "/load 3": "number 3 of what", "/search": "wants words",
		"/save": "everything is stored already", "/history many": "shows 1 to 200", "/history 201": "shows 1 to 200",
		"/export": "wants a file", "/Help": "there is no command /Help", "/remember": "wants a sentence", "/forget 1": "one of the last /memories",
		"/new soon": "wants nothing, or temporary",
	})
	for _, line := range []string{"/save x", "/history", "/clear", "/forget", "/memory", "/topics", "/why", "/export x.md", "/edit x", "/again", "/versions"} {
		nowhere.tells(map[string]string{line: errNoChat.Error()})
	}
}

func TestMemoriesAreShownRememberedAndForgotten(t *testing.T) {
	t.Parallel()
	id := uuid.NewString()
	p := play(t, map[string]string{
		"GET /v1/memories": `{"memories": [{"id": "` + id +
			`", "content": "Plays\n the \u001b[2Jcello.", "memory_type": "preference", "status": "inbox", "pinned": true}, {"content": "Has a dog.", ` +
			`"memory_type": "fact", "status": "active"}], "next_cursor": "x"}`,
		"POST /v1/memories":        `{"id": "` + id + `", "content": "Prefers oat milk.", "memory_type": "fact", "status": "active"}`,
		"POST /v1/memories/forget": `{"candidates": [], "token": "t"}`,
	})
	p.says("/memories", "/memories the cello", "/remember Prefers oat milk.", "/forget 1", "/forget unicorns and bees")
	list := "  1  Plays the cello.  (preference, inbox, pinned)\n  2  Has a dog.  (fact)\n     … and more: `throughline memories list` shows all of them.\n"
	p.wants(list+list+"Remembered in all chats: Prefers oat milk.  (fact)\n1 memory was forgotten.\nNothing is remembered of that.\n",
		"GET /v1/memories?limit=50", "GET /v1/memories?limit=50&q=the+cello", `POST /v1/memories {"content":"Prefers oat milk."}`,
		"DELETE /v1/memories/"+id, `POST /v1/memories/forget {"query":"unicorns and bees"}`)
}

func TestNothingIsRememberedYet(t *testing.T) {
	t.Parallel()
	p := play(t, map[string]string{"GET /v1/memories": `{"memories": [], "next_cursor": null}`})
	p.says("/memories", "/memories bees")
	p.wants("Nothing is remembered yet.\nNothing was found.\n")
}

func TestTemporaryChatsAreBegun(t *testing.T) {
	t.Parallel()
	p := play(t, nil)
	for line, temporary := range map[string]bool{"/new temporary": true, "/new": false} {
		if p.says(line); p.Temporary != temporary {
			t.Errorf("%s: temporary is %v", line, p.Temporary)
		}
	}
	assert.Containsf(t, p.out.String(), "nothing of it is remembered in others", "%q", p.out.String())
}

func TestTopicsAreListedShownAndNamed(t *testing.T) {
	t.Parallel()
	chat, bows, rosin := uuid.New(), uuid.NewString(), uuid.NewString()
	path := "/v1/chats/" + chat.String() + "/topics"
	p := play(t, map[string]string{
		"GET " + path: `{"topics": [
			{"id": "` + rosin + `", "number": 2, "title": "Rosin\u001b[2J", "message_count": 1, "state": "archived", "memory_type": "short-term",
				"last_active_at": "2026-03-05T12:00:00Z"},
			{"id": "` + bows + `", "number": 1, "title": "Bows", "message_count": 18, "state": "active", "memory_type": "long-term", "tags": ["cello", "gear"],
				"importance": 0.9,
			 "access_count": 12, "half_life_days": 4, "priority": 0.45, "created_at": "2026-03-03T12:00:00Z", "last_active_at": "2026-03-04T12:00:00Z"}]}`,
		"GET " + path + "/" + bows + "/context": `{"messages": [{"role": "system", "content": "Topic summary: They compared bows."}, {"role": "user", ` +
			`"content": "And\u0007 carbon?"}]}`,
		"PATCH " + path + "/" + rosin: `{"id": "` + rosin +
			`", "number": 2, "title": "Dark rosin", "message_count": 1, "state": "active", "memory_type": "short-term", "last_active_at": "2026-03-05T12:00:00Z"}`,
	})
	p.chatID = chat
	p.says("/topics", "/topics dark rosin", "/topics 1", "/topics 2 Dark rosin")
	list := "  2  Rosin  (1 message, last 2026-03-05, short-term, archived)\n  1  Bows  (18 messages, last 2026-03-04, long-term)\n"
	p.wants(list+list+
		"  1  Bows  (18 messages, last 2026-03-04, long-term)\n     since 2026-03-03, came back 12 times, importance 0.9, priority 0.45, half-life 4 "+
		"days\n     tags: cello, gear\n"+
		"system> Topic summary: They compared bows.\nyou> And carbon?\n"+
		"  2  Dark rosin  (1 message, last 2026-03-05, short-term)\n",
		"GET "+path+"?limit=1000", "GET "+path+"?limit=1000&q=dark+rosin", "GET "+path+"?limit=1000", "GET "+path+"/"+bows+"/context",
		"GET "+path+"?limit=1000", "PATCH "+path+"/"+rosin+` {"title":"Dark rosin"}`)
	p.tells(map[string]string{"/topics 9": "no number 9"})
}

func TestChatWithoutTopics(t *testing.T) {
	t.Parallel()
	p := play(t, map[string]string{"GET /v1/chats/" + aChat + "/topics": `{"topics": []}`})
	p.chatID = uuid.MustParse(aChat)
	p.says("/topics", "/topics bees")
	p.wants("This chat has no topics yet: they begin when its first turns are summarized.\nNothing was found.\n")
}
