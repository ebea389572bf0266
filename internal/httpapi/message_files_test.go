package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/chat"
)

// lastTurn is what the store was asked to keep last.
func (h *harness) lastTurn() chat.NewTurn {
	h.t.Helper()
	h.store.mu.Lock()
	defer h.store.mu.Unlock()
	if len(h.store.turns) == 0 {
		h.t.Fatal("no turn was stored")
	}
	return h.store.turns[len(h.store.turns)-1].NewTurn
}

// A message with files may be longer than one without, and only by its files.
func TestBodyLimitOfFiles(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"))
	file := marshal(map[string]string{"path": "a.txt", "content": strings.Repeat("a\n", chat.MaxFileBytes/2)})
	files := "[" + file + strings.Repeat(","+file, chat.MaxFiles-1) + "]"
	if answer := h.call(http.MethodPost, firstPath, `{"content": "all of them", "files": `+files+`}`, "Accept", "application/json"); answer.status != 200 {
		t.Errorf("20 files of 256 KiB: %d %s", answer.status, answer.body)
	}
	if got := len(h.lastTurn().Files); got != chat.MaxFiles {
		t.Errorf("%d files were taken", got)
	}
	long := `{"content": "a", "files": ` + files + `, "metadata": {"x": "` + strings.Repeat("y", maxBody) + `"}}`
	if answer := h.call(http.MethodPost, firstPath, long); answer.status != 413 {
		t.Errorf("files beside a long body: %d", answer.status)
	}
}

func TestContinuationIDIsTheChatID(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"))
	var first struct {
		ChatID uuid.UUID `json:"chat_id"`
	}
	h.call(http.MethodPost, firstPath, hello, "Accept", "application/json").decode(t, &first)
	id := first.ChatID.String()
	for body, want := range map[string]int{
		`{"continuation_id": "` + id + `", "content": "a"}`:                                           200,
		`{"chat_id": "` + id + `", "continuation_id": "` + strings.ToUpper(id) + `", "content": "b"}`: 200,
		`{"chat_id": "` + id + `", "continuation_id": "` + uuid.NewString() + `", "content": "c"}`:    422,
		`{"continuation_id": "nonsense", "content": "d"}`:                                             400,
		`{"continuation_id": null, "content": "e"}`:                                                   422,
		`{"continuation_id": "` + uuid.NewString() + `", "content": "f"}`:                             404,
		`{"chat_id": "` + id + `", "content": "g", "revive": true}`:                                   200,
		`{"chat_id": "` + id + `", "content": "g", "revive": "yes"}`:                                  422,
	} {
		if answer := h.call(http.MethodPost, nextPath, body, "Accept", "application/json"); answer.status != want {
			t.Errorf("%s: %d %s", body, answer.status, answer.body)
		}
	}
}
