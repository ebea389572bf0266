package terminal

import (
	"strings"
	"testing"

	"github.com/google/uuid"
)

func TestTopicsAreListedShownAndNamed(t *testing.T) {
	t.Parallel()
	chat, bows, rosin := uuid.New(), uuid.NewString(), uuid.NewString()
	path := "/v1/chats/" + chat.String() + "/topics"
	shown, out, asked := remembered(t, map[string]string{
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
	shown.chatID = chat
	for _, line := range []string{"/topics", "/topics dark rosin", "/topics 1", "/topics 2 Dark rosin"} {
		if err := shown.run(t.Context(), line); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	list := "  2  Rosin  (1 message, last 2026-03-05, short-term, archived)\n  1  Bows  (18 messages, last 2026-03-04, long-term)\n"
	want := list + list +
		"  1  Bows  (18 messages, last 2026-03-04, long-term)\n     since 2026-03-03, came back 12 times, importance 0.9, priority 0.45, half-life 4 " +
		"days\n     tags: cello, gear\n" +
		"system> Topic summary: They compared bows.\nyou> And carbon?\n" +
		"  2  Dark rosin  (1 message, last 2026-03-05, short-term)\n"
	if got := out.String(); got != want {
		t.Errorf("%s", got)
	}
	requests := []string{
		"GET " + path + "?limit=1000", "GET " + path + "?limit=1000&q=dark+rosin", "GET " + path + "?limit=1000", "GET " + path + "/" + bows + "/context",
		"GET " + path + "?limit=1000", "PATCH " + path + "/" + rosin + ` {"title":"Dark rosin"}`,
	}
	if got := strings.Join(*asked, "\n"); got != strings.Join(requests, "\n") {
		t.Errorf("asked %s", got)
	}
	if err := shown.run(t.Context(), "/topics 9"); err == nil || !strings.Contains(err.Error(), "no number 9") {
		t.Errorf("an unknown number: %v", err)
	}
}

func TestChatWithoutTopics(t *testing.T) {
	t.Parallel()
	chat := uuid.New()
	shown, out, _ := remembered(t, map[string]string{"GET /v1/chats/" + chat.String() + "/topics": `{"topics": []}`})
	if err := shown.run(t.Context(), "/topics"); err == nil || !strings.Contains(err.Error(), "no chat yet") {
		t.Errorf("without a chat: %v", err)
	}
	shown.chatID = chat
	for _, line := range []string{"/topics", "/topics bees"} {
		if err := shown.run(t.Context(), line); err != nil {
			t.Fatal(err)
		}
	}
	if got := out.String(); got != "This chat has no topics yet: they begin when its first turns are summarized.\nNothing was found.\n" {
		t.Errorf("%q", got)
	}
}
