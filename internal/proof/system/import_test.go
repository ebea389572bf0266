package system

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/testkit"
)

// importFile imports a file as it is. Accept chooses how it is answered.
func importFile(client testkit.Client, file, accept string) testkit.Answer {
	client.T.Helper()
	request := client.Request(client.T.Context(), http.MethodPost, "/v1/chats/import", nil, "Content-Type", "application/x-ndjson", "Accept", accept)
	request.Body, request.ContentLength = io.NopCloser(strings.NewReader(file)), int64(len(file))
	return client.Do(request)
}

// imports imports a file that nothing is wrong with.
func (r *rig) imports(file string) map[string]any {
	r.t.Helper()
	answer := importFile(r.Client, file, "application/json")
	if answer.Status != http.StatusOK {
		r.t.Fatalf("%d %s", answer.Status, answer.Text)
	}
	return answer.JSON(r.t)
}

// An imported chat gets a brief from the workers and continues as any other. Its export can be imported by another user.
func TestImportedChatIsRemembered(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, smallMemory)
	var file strings.Builder
	file.WriteString(`{"role":"user","content":"My cello teacher is called Ilse and I live in Graz.","created_at":"2024-05-06T07:08:09Z"}` + "\n")
	file.WriteString(`{"role":"assistant","content":"How nice."}` + "\n")
	for n := range 20 {
		fmt.Fprintf(&file, `{"role":"user","content":"On day %d I practised the etude number %d for an hour, and my bow arm felt heavy."}`+"\n", n, 1000+n)
		file.WriteString(`{"role":"assistant","content":"Rest a little more."}` + "\n")
	}
	chatID := r.imports(file.String())["chats"].([]any)[0].(map[string]any)["chat_id"].(string)
	testkit.Eventually(t, "the chat has a brief", func() bool {
		return testkit.Ask[bool](t, r.pool, "select version > 0 from conversation_briefs where chat_id = $1", uuid.MustParse(chatID))
	})
	r.awaitFolds()
	if said := r.Say(chatID, "What is my cello teacher called?"); !strings.Contains(said.Text, "Ilse") {
		t.Errorf("forgotten: %q", said.Text)
	}
	exported := r.Call(http.MethodGet, "/v1/chats/"+chatID+"/export", nil)
	if exported.Status != http.StatusOK || strings.Count(exported.Text, `{"type":"message"`) != 44 || !strings.Contains(exported.Text, `{"type":"revision"`) {
		t.Fatalf("%d %.400s", exported.Status, exported.Text)
	}
	r.newUser()
	r.Token = r.token
	if other := r.imports(exported.Text); other["imported"] != 1.0 || other["messages"] != 44.0 {
		t.Errorf("another user: %v", other)
	}
	if answer := r.Call(http.MethodGet, "/v1/chats/"+chatID+"/export", nil); answer.Status != http.StatusNotFound {
		t.Errorf("the first user's chat: %d", answer.Status)
	}
}
