package testkit

import (
	"context"
	"testing"

	"github.com/arcoscribe/throughline/internal/dev/offline"
)

// Script decides the answers of a Model; see offline.Options.
type Script = func(*offline.Request) offline.Answer

// Model is the offline model on a port of its own.
type Model struct {
	*offline.Listening
}

// NewModel starts the offline model and ends it with the test. A nil script leaves every answer to the
// built-in model.
func NewModel(t testing.TB, script Script) *Model {
	t.Helper()
	listening, err := offline.Start(offline.Options{Script: script})
	if err != nil {
		t.Fatalf("testkit: %v", err)
	}
	t.Cleanup(func() { _ = listening.Close() }) // what it serves was checked before
	return &Model{listening}
}

// AwaitRequest waits for a request that matches, past ones included.
func (m *Model) AwaitRequest(t testing.TB, what string, match func(offline.Request) bool) offline.Request {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	found, err := m.Await(ctx, match)
	if err != nil {
		t.Fatalf("in vain: %s", what)
	}
	return found
}

// Asked are the requests of a kind that came so far, oldest first.
func (m *Model) Asked(kind offline.Kind) []offline.Request {
	var found []offline.Request
	for _, request := range m.Requests() {
		if request.Kind == kind {
			found = append(found, request)
		}
	}
	return found
}

// HeldReply is a script whose replies say a text, after so many pieces of it not before the gate is
// closed. Summaries are the built-in model's.
func HeldReply(text string, pieces int, gate <-chan struct{}) Script {
	return func(request *offline.Request) offline.Answer {
		if request.Kind != offline.KindReply {
			return offline.Answer{}
		}
		return offline.Answer{Text: text, Gate: gate, GateAfter: pieces}
	}
}

// InOrder is a script that answers one request after another with these, and all later ones with the last.
func InOrder(answers ...offline.Answer) Script {
	next := make(chan offline.Answer, len(answers))
	for _, answer := range answers[:len(answers)-1] {
		next <- answer
	}
	return func(*offline.Request) offline.Answer {
		select {
		case answer := <-next:
			return answer
		default:
			return answers[len(answers)-1]
		}
	}
}
