package system

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

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

// A hundred copies of one message on two servers at the same moment: one of them generates, all others join or get the
// stored reply. On a busy machine some get a 503 first.
func TestHundredCopiesWithoutAFirst(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	servers := []*node{r.node, r.replica()}
	message := testkit.Body{"content": "My cello teacher is called Ilse.", "client_message_id": uuid.NewString()}
	const copies = 100
	said, failed := make([]testkit.Said, copies), make([]error, copies)
	var all sync.WaitGroup
	for i := range copies {
		all.Go(func() { said[i], failed[i] = servers[i%2].sendUntilAccepted(message) })
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		t.Fatal(err)
	}
	for _, one := range said {
		if one.MessageID != said[0].MessageID || one.UserMessageID != said[0].UserMessageID || one.Text != said[0].Text || one.End.Name != testkit.Completion {
			t.Fatalf("one of them got %+v, another %+v", one, said[0])
		}
	}
	r.checkAskedOnce("My cello teacher is called Ilse.", said[0].ChatID)
	r.checkNothingRuns()
}

// sendUntilAccepted sends a first message, again after each 503, and reads the reply.
func (n *node) sendUntilAccepted(message testkit.Body) (testkit.Said, error) {
	for began := time.Now(); ; {
		s, err := n.TryOpen(http.MethodPost, "/v1/message/first", message)
		if err != nil {
			return testkit.Said{}, err
		}
		if s.Response.StatusCode == http.StatusOK {
			return s.TryRest()
		}
		raw := s.Raw()
		if s.Response.StatusCode != http.StatusServiceUnavailable || time.Since(began) > testkit.Patience {
			return testkit.Said{}, fmt.Errorf("%s %s", s.Response.Status, raw)
		}
	}
}
