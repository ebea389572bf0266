package testkit

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
)

// Script decides the answers of a Model; see offline.Options.
type Script = func(*offline.Request) offline.Answer

// Model is the offline model on a port of its own.
type Model struct {
	*offline.Server
}

// NewModel starts the offline model, which is closed when the test ends. With a nil script the built-in model answers. The test fails
// when a request was refused, or was not as the contract has it.
func NewModel(t testing.TB, script Script) *Model {
	listening, err := offline.Start(offline.Options{Script: script})
	check(t, err)
	t.Cleanup(func() {
		_ = listening.Close() // its answers were checked before
		assert.Empty(t, listening.Refused(), "requests that the model refused")
		assert.Empty(t, listening.Irregular(), "requests that are not as the contract has them")
	})
	return &Model{listening}
}

// AwaitRequest waits for a request that matches, past ones included.
func (m *Model) AwaitRequest(t testing.TB, what string, match func(offline.Request) bool) offline.Request {
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	found, err := m.Await(ctx, match)
	require.NoErrorf(t, err, "in vain: %s", what)
	return found
}

// Asked returns the requests of a kind so far, oldest first.
func (m *Model) Asked(kind offline.Kind) []offline.Request {
	var found []offline.Request
	for _, request := range m.Requests() {
		if request.Kind == kind {
			found = append(found, request)
		}
	}
	return found
}

// InOrder is a script that gives the answers one after another, and the last one to all later requests.
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
