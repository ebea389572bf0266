package llm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/testkit"
)

func TestQuestionsAreAskedForOnce(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	server := model(t, always(offline.Answer{Gate: gate}))
	q := NewQuestions(embedder(t, server.BaseURL(), small))
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			got, err := q.Embed(t.Context(), recall.For{}, []string{"Where is the key?"})
			assert.Truef(t, err == nil && len(got) == 1 && len(got[0]) == recall.VectorSize, "%v", err)
		})
	}
	_, err := server.Await(t.Context(), func(offline.Request) bool { return true })
	require.NoError(t, err)
	close(gate)
	all.Wait()
	if _, err := q.Embed(t.Context(), recall.For{}, []string{"Where is the key?"}); err != nil || len(server.Requests()) != 1 {
		t.Errorf("%v, asked %d times", err, len(server.Requests()))
	}
	if _, err := q.Embed(t.Context(), recall.For{}, []string{"And the other?"}); err != nil || len(server.Requests()) != 2 {
		t.Errorf("%v, asked %d times", err, len(server.Requests()))
	}
	assert.Equal(t, small, q.Model(), "model")
}

// Who leaves does not end the call for others; the last one does.
func TestQuestionsOutliveTheFirstWhoAsked(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	server := model(t, always(offline.Answer{Gate: gate}))
	q := NewQuestions(embedder(t, server.BaseURL(), small))
	impatient, leave := context.WithCancelCause(t.Context())
	var left, stayed error
	var all sync.WaitGroup
	all.Go(func() { _, left = q.Embed(impatient, recall.For{}, []string{"Where?"}) })
	_, err := server.Await(t.Context(), func(offline.Request) bool { return true })
	require.NoError(t, err)
	joined := make(chan struct{})
	all.Go(func() {
		vector, f := q.keptOrJoined(t.Context(), keyOf("Where?"), recall.For{}, nil)
		close(joined)
		<-f.done
		if stayed = f.err; vector != nil {
			stayed = errors.New("it was there already")
		}
	})
	<-joined
	leave(errLeaves)
	<-impatient.Done()
	close(gate)
	all.Wait()
	assert.Truef(t, (fault.CodeOf(left) == "" || errors.Is(left, errLeaves)) && stayed == nil,
		"who left: %v; who stayed: %v", left, stayed)
}

func TestAQuestionThatNobodyWaitsForIsGivenUp(t *testing.T) {
	t.Parallel()
	server := model(t, always(offline.Answer{Fault: offline.FaultStall}))
	q := NewQuestions(embedder(t, server.BaseURL(), small))
	ctx, leave := context.WithCancelCause(t.Context())
	go func() {
		defer leave(context.DeadlineExceeded)
		if _, err := server.Await(ctx, func(offline.Request) bool { return true }); err != nil {
			t.Errorf("it is never asked: %v", err)
		}
	}()
	_, err := q.Embed(ctx, recall.For{}, []string{"Where?"})
	wantFault(t, err, fault.UpstreamTimeout)
	if _, err := server.Await(t.Context(), func(r offline.Request) bool { return r.HungUp }); err != nil {
		t.Error("the call goes on")
	}
	assert.Equal(t, 0, len(q.flights), "the flight is kept")
}

func TestFailuresOfQuestionsAreNotKept(t *testing.T) {
	t.Parallel()
	server := model(t, testkit.InOrder(offline.Answer{Fault: offline.Fault503}, offline.Answer{}))
	q := NewQuestions(embedder(t, server.BaseURL(), small))
	_, err := q.Embed(t.Context(), recall.For{}, []string{"Where?"})
	assert.Error(t, err, "the first call did not fail")
	_, err = q.Embed(t.Context(), recall.For{}, []string{"Where?"})
	assert.NoError(t, err)
}

func TestQuestionsKeepABoundedNumber(t *testing.T) {
	t.Parallel()
	server := model(t, nil)
	q := NewQuestions(embedder(t, server.BaseURL(), small))
	ask := func(n int) {
		_, err := q.Embed(t.Context(), recall.For{}, []string{fmt.Sprint("question ", n)})
		require.NoError(t, err)
	}
	const many = 2*keptQuestions + 10
	for n := range many {
		ask(n)
		if n%(keptQuestions/2) == 0 {
			ask(0) // is used often enough to be kept
		}
	}
	if kept := len(q.recent) + len(q.older); kept > 2*keptQuestions || len(server.Requests()) != many {
		t.Errorf("%d are kept, asked %d times", kept, len(server.Requests()))
	}
}
