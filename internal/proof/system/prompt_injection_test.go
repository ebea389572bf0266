package system

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/testkit/injection"
)

// lastReplyRequest returns the input of the latest request for a reply, and the rest of the request, which is the same
// for every chat.
func (r *rig) lastReplyRequest() (input string, rest map[string]any) {
	r.t.Helper()
	asked := r.model.Asked(offline.KindReply)
	last := asked[len(asked)-1]
	require.NoError(r.t, json.Unmarshal(last.Body, &rest))
	var roles []string
	items, _ := rest["input"].([]any)
	for _, item := range items {
		role, _ := item.(map[string]any)["role"].(string)
		roles = append(roles, role)
	}
	if _, short := rest["input"].(string); !short && strings.Join(roles, " ") != "user" { // a text alone is the user's
		r.t.Errorf("the input's roles are %q", roles)
	}
	for _, name := range []string{"input", "prompt_cache_key", "safety_identifier"} {
		delete(rest, name)
	}
	return last.Text, rest
}

// sendEverywhere puts a text everywhere in a chat: title, question, file and its path, source, the model's reply and
// the brief. It returns the model's requests for that question and for the next.
func (r *rig) sendEverywhere(text, path string) (inputs []string, rests []map[string]any) {
	r.t.Helper()
	made := r.wanted(201, "POST", "/v1/chats", testkit.Body{"title": path, "recall": "chat"})
	chatID := made["id"].(string)
	testkit.Exec(r.t, r.pool, `update conversation_briefs set brief = jsonb_set(brief, '{global_summary}', to_jsonb($2::text)), brief_tokens = 1, version = 1
		where chat_id = $1`, chatID, text)
	for _, payload := range []testkit.Body{
		{
			"content": text, "files": []testkit.Body{{"path": path, "content": text}},
			"sources": []testkit.Body{{"title": path, "url": path, "content": text}},
		},
		{"content": "And now?"},
	} {
		r.Send(chatID, payload).Rest()
		input, rest := r.lastReplyRequest()
		inputs, rests = append(inputs, input), append(rests, rest)
	}
	return inputs, rests
}

// A prompt with hostile text differs from one with harmless text only in that text: sections and speakers are ours,
// the role is the user's, and the instructions are the same to the byte. The reply repeats the text, so that the
// model's own is covered too.
func TestPayloadsDoNotLeaveTheirPlaceInAPrompt(t *testing.T) {
	t.Parallel()
	said := make(chan string, 1)
	r := newRig(t, func(*offline.Request) offline.Answer {
		select {
		case text := <-said:
			return offline.Answer{Text: text}
		default:
			return offline.Answer{Text: "Fine."}
		}
	}, nil)
	said <- "<reply>"
	frames, wantRests := r.sendEverywhere("<text>", "<path>")
	for i, want := range []string{"<text> 4 <path> 3 <reply> 0", "<text> 3 <path> 1 <reply> 1"} {
		got := fmt.Sprintf("<text> %d <path> %d <reply> %d", strings.Count(frames[i], "<text>"), strings.Count(frames[i], "<path>"),
			strings.Count(frames[i], "<reply>"))
		if got != want {
			t.Fatalf("prompt %d has the places %s, want %s:\n%s", i+1, got, want, frames[i])
		}
	}
	for _, p := range injection.All() {
		path := strings.TrimSpace(string([]rune(p.OneLine())[:min(60, len([]rune(p.OneLine())))]))
		said <- p.Text
		inputs, rests := r.sendEverywhere(p.Text, path)
		for i, frame := range frames {
			assert.Equalf(t, "", cmp.Diff(fill(frame, p, path), inputs[i]), "%s, prompt %d: (-want +got)\n", p.Name, i+1)
			assert.Equalf(t, "", cmp.Diff(wantRests[i], rests[i]),
				"%s, prompt %d: the text beside the input (-want +got)\n", p.Name, i+1)
		}
	}
	if refused := r.model.Refused(); len(refused) > 0 {
		t.Errorf("the model refused a call as malformed: %s", refused[0])
	}
}

// fill replaces the placeholders of a harmless prompt by a payload, in the form that each section needs.
func fill(frame string, p injection.Payload, path string) string {
	const files, sources, current = "\nFILES (newest first):\n", "\nRETRIEVED SOURCES:\n", "\nCURRENT MESSAGE:\n"
	text := p.In(injection.Prompt)
	var b strings.Builder
	for line := range strings.Lines(frame) {
		switch "\n" + line {
		case files:
			text = p.In(injection.File)
		case sources:
			text = p.In(injection.Passage)
		case current:
			text = p.Text // the last section cannot be left
		}
		b.WriteString(strings.NewReplacer("<text>", text, "<reply>", text, "<path>", path).Replace(line))
	}
	return b.String()
}
