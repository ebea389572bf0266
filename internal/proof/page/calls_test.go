package page

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
)

// toolsFile declares the tools of serveTools; its argument is their address.
const toolsFile = `{"tools": [
	{"name": "roll_dice", "url": "%[1]s/dice", "parameters": {}},
	{"name": "send_mail", "url": "%[1]s/mail", "parameters": {}, "approval": true},
	{"name": "odd", "url": "%[1]s/odd", "parameters": {}}]}`

// deep is how deep hostile arguments and outputs are nested: too deep for programs that go down by calling themselves.
const deep = 5500

var nested = strings.Repeat("[", deep) + strings.Repeat("]", deep)

// hostileOutput tries what hostileReply tries.
var hostileOutput = map[string]any{
	"html": hostileReply[:600], "<b>key</b>": "\u202Egnirts", "word": strings.Repeat("word", 5000), "": nil,
	"deep": json.RawMessage(nested),
}

// serveTools serves an app's tools. Mail is sent when the script releases its text.
func (s *stage) serveTools(t *testing.T) *httptest.Server {
	tools := http.NewServeMux()
	say := func(w http.ResponseWriter, output any) {
		w.Header().Set("Content-Type", "application/json")
		encoder := json.NewEncoder(w)
		encoder.SetEscapeHTML(false)
		assert.NoError(t, encoder.Encode(output))
	}
	tools.HandleFunc("POST /dice", func(w http.ResponseWriter, _ *http.Request) { say(w, map[string]any{"rolls": []int{1, 3}, "total": 4}) })
	tools.HandleFunc("POST /odd", func(w http.ResponseWriter, _ *http.Request) { say(w, hostileOutput) })
	tools.HandleFunc("POST /mail", func(w http.ResponseWriter, r *http.Request) {
		var mail struct{ Text string }
		if assert.NoError(t, json.NewDecoder(r.Body).Decode(&mail)) {
			<-s.gate(mail.Text)
			say(w, "sent")
		}
	})
	server := httptest.NewServer(tools)
	t.Cleanup(server.Close)
	return server
}

// call answers a message with calls of tools by its words, and says how many results it got of them.
func (s *stage) call(request *offline.Request) offline.Answer {
	switch {
	case request.Kind != offline.KindReply:
		return offline.Answer{}
	case request.Step > 0:
		return offline.Answer{Text: fmt.Sprintf("That makes %d results.", len(request.Outputs))}
	}
	mail := offline.Call{Name: "send_mail", Arguments: map[string]string{"to": "Anna", "text": request.Current}}
	items := []offline.Item{offline.Text{Text: "Let me see 🎲."}}
	for word := range strings.FieldsSeq(request.Current) {
		switch word {
		case "think":
			items = append(items, offline.Reasoning{Summary: []string{"**Which** tool?", "This one."}})
		case "dice":
			items = append(items, offline.Call{Name: "roll_dice", Arguments: map[string]int{"sides": 6}})
		case "mail":
			items = append(items, mail)
		case "photo":
			items = append(items, offline.Call{Name: "take_photo", Arguments: map[string]string{"of": "the sea"}})
		case "odd":
			items = append(items, offline.Call{Name: "odd", Arguments: map[string]string{"<img src=x onerror='window.hurt = 8'>": "\u202Egnirts"}})
		case "deep":
			items = append(items, offline.Call{Name: "odd", Arguments: `{"deep": ` + nested + `}`})
		}
	}
	return offline.Says(items...)
}

// TestCalls is how a person sees calls of tools, and answers them. Its script calls the stage, at STAGE: /release?name=…
func TestCalls(t *testing.T) {
	t.Parallel()
	s := &stage{}
	dir := t.TempDir()
	tools, models := filepath.Join(dir, "tools.json"), filepath.Join(dir, "models.json")
	require.NoError(t, os.WriteFile(tools, fmt.Appendf(nil, toolsFile, s.serveTools(t).URL), 0o600))
	require.NoError(t, os.WriteFile(models, []byte(`{"variants": [{"name": "thinker", "model": "gpt-test", "reasoning_summary": "auto"}]}`), 0o600))
	r := newRig(t, s.call, env{"TOOLS_FILE": tools, "MODELS_FILE": models})
	calls := http.NewServeMux()
	calls.HandleFunc("POST /release", func(_ http.ResponseWriter, request *http.Request) { close(s.gate(request.FormValue("name"))) })
	stage := httptest.NewServer(calls)
	t.Cleanup(stage.Close)
	r.inBrowser("calls.mjs", env{"STAGE": stage.URL})
}
