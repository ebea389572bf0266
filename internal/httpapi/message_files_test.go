package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory"
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

func TestFilesAndToolComeWithAMessage(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"))
	body := `{"content": "Look.", "tool_name": "debug", "files": [{"path": "a.go", "content": "package a\n"}, {"path": "b/empty.txt", "content": ""}]}`
	if answer := h.call(http.MethodPost, firstPath, body, "Accept", "application/json"); answer.status != 200 {
		t.Fatalf("%d %s", answer.status, answer.body)
	}
	turn := h.lastTurn()
	var files []memory.File
	for _, file := range turn.Files {
		files = append(files, file.File)
	}
	if diff := cmp.Diff([]memory.File{{Path: "a.go", Content: "package a\n"}, {Path: "b/empty.txt"}}, files); diff != "" {
		t.Error(diff)
	}
	if turn.ToolName != "debug" || turn.TTLHours != memory.ToolTTLHours || turn.MaxTurns != memory.ToolMaxTurns {
		t.Errorf("%+v", turn)
	}
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

func TestRefusedFilesAreNamed(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"))
	one := `{"path": "x.txt", "content": "x"}`
	for name, c := range map[string]struct{ files, place, says string }{
		"too many":   {"[" + one + strings.Repeat(","+one, chat.MaxFiles) + "]", "files", "21 entries"},
		"too long":   {"[" + one + `, {"path": "big.txt", "content": "` + strings.Repeat("x", chat.MaxFileBytes+1) + `"}]`, "files[1]", `"big.txt" has 262145 bytes`},
		"binary":     {`[{"path": "a.png", "content": "\u0089PNG\u0000"}]`, "files[0]", `"a.png" is not a text file`},
		"no path":    {`[{"path": " ", "content": "x"}]`, "files[0]", "has no path"},
		"odd path":   {`[{"path": "a\nb", "content": "x"}]`, "files[0]", "printable"},
		"not a list": {`{"path": "a"}`, "files", "must be an array"},
		"wrong type": {`[{"path": 7, "content": "x"}]`, "files[0].path", "must be a string"},
	} {
		answer := h.call(http.MethodPost, firstPath, `{"content": "a", "files": `+c.files+`}`)
		refusal := answer.error(t)
		told, _ := refusal.Details[c.place].(string)
		if answer.status != 422 || refusal.Code != "validation_failed" || !strings.Contains(told, c.says) {
			t.Errorf("%s: %d %+v", name, answer.status, refusal)
		}
	}
	if len(h.store.turns) != 0 {
		t.Error("something was stored")
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

func TestMemoryIsShown(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"))
	var first struct {
		ChatID uuid.UUID `json:"chat_id"`
	}
	h.call(http.MethodPost, firstPath, hello, "Accept", "application/json").decode(t, &first)
	path := "/v1/chats/" + first.ChatID.String() + "/memory"
	var shown chat.PromptPreview
	h.call(http.MethodGet, path, "").decode(t, &shown)
	if shown.ChatID != first.ChatID || shown.Strategy != memory.StrategySummary || shown.ModelVariant != "arco" || shown.Budget.Window != memory.DefaultWindow {
		t.Errorf("%+v", shown)
	}
	for path, want := range map[string]int{
		path + "?model_variant=arco": 200, path + "?model_variant=nobody": 422,
		"/v1/chats/" + uuid.NewString() + "/memory": 404, "/v1/chats/nonsense/memory": 400,
	} {
		if answer := h.call(http.MethodGet, path, ""); answer.status != want {
			t.Errorf("%s: %d %s", path, answer.status, answer.body)
		}
	}
	h.user = uuid.New()
	if answer := h.call(http.MethodGet, path, ""); answer.status != 404 {
		t.Errorf("another user's: %d %s", answer.status, answer.body)
	}
}
