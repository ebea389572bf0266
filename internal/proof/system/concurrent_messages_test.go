package system

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// Two servers repeatedly get different messages to one chat at the same moment: one of them generates, the other answers
// 409. The next message succeeds on either.
func TestTwoReplicasAnswerOneChat(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	servers := []*node{r.node, r.replica()}
	chatID := r.Say("", "Hello, I am Ada.").ChatID
	const rounds = 20
	for round := range rounds {
		gate := make(chan struct{})
		answered := make(chan openResult, len(servers))
		for n, server := range servers {
			path, payload := testkit.MessagePath(chatID, testkit.Body{"content": fmt.Sprintf("I am server %d, round %d.", n, round)})
			go func() {
				<-gate
				s, err := server.TryOpen(http.MethodPost, path, payload)
				answered <- openResult{s, err}
			}()
		}
		close(gate)
		began := 0
		for range servers {
			got := testkit.Receive(t, "an answer", answered)
			if got.err != nil {
				t.Fatal(got.err)
			}
			switch status := got.stream.Response.StatusCode; status {
			case http.StatusOK: // both, when the first was done before the second began
				began++
				if said := got.stream.Rest(); said.End.Name != testkit.Completion {
					t.Errorf("round %d: %+v", round, said)
				}
			case http.StatusConflict:
				if refused := (testkit.Answer{Status: status, Text: got.stream.Raw()}); refused.Code() != "generation_in_progress" {
					t.Errorf("round %d: %s", round, refused.Text)
				}
			default:
				t.Errorf("round %d: %d %s", round, status, got.stream.Raw())
			}
		}
		if began == 0 {
			t.Errorf("round %d: nobody answered", round)
		}
	}
	asked := len(r.model.Asked(offline.KindReply))
	if n := r.count("select count(*) from messages where role = 'assistant' and status = 'complete'"); n != asked || n < rounds+1 {
		t.Errorf("%d replies of %d calls", n, asked)
	}
	r.checkNothingRuns()
}
