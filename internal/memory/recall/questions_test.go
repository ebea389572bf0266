package recall_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/memory/recall"
)

// vectorOf asks for the vector of a question and waits for it.
func vectorOf(ctx context.Context, q *recall.Questions, question string) error {
	vector, ok, err := q.Begin(ctx, recall.For{}, question).Vector(ctx, true)
	if err == nil && (!ok || vector.Model != "a model") {
		err = fmt.Errorf("no vector: %v", vector)
	}
	return err
}

func TestQuestionsAreAskedForOnce(t *testing.T) {
	t.Parallel()
	m := &model{answers: make(chan error)}
	q := m.questions(newShelf())
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { assert.NoError(t, vectorOf(t.Context(), q, "Where is the key?")) })
	}
	m.answers <- nil
	all.Wait()
	close(m.answers)
	require.NoError(t, vectorOf(t.Context(), q, "Where is the key?"))
	assert.EqualValues(t, 1, m.asked.Load())
	require.NoError(t, vectorOf(t.Context(), q, "And the other?"))
	assert.EqualValues(t, 2, m.asked.Load())
}

// Who leaves does not end the call for others; the last one does.
func TestQuestionsOutliveTheFirstWhoAsked(t *testing.T) {
	t.Parallel()
	m := &model{answers: make(chan error)}
	q := m.questions(newShelf())
	impatient, leave := context.WithCancel(t.Context())
	left, stays := q.Begin(impatient, recall.For{}, "Where?"), q.Begin(t.Context(), recall.For{}, "Where?")
	leave()
	_, _, err := left.Vector(impatient, true)
	require.ErrorIs(t, err, context.Canceled)
	m.answers <- nil
	_, ok, err := stays.Vector(t.Context(), true)
	assert.Truef(t, ok && err == nil, "%v", err)
	assert.EqualValues(t, 1, m.asked.Load())
}

func TestAQuestionWithoutCallersIsGivenUp(t *testing.T) {
	t.Parallel()
	m := &model{answers: make(chan error)}
	q := m.questions(newShelf())
	ctx, leave := context.WithCancel(t.Context())
	given := q.Begin(ctx, recall.For{}, "Where?")
	leave()
	_, ok, err := given.Vector(t.Context(), true) // ends only with the call
	require.Truef(t, !ok && errors.Is(err, context.Canceled), "%v", err)
	close(m.answers)
	assert.NoError(t, vectorOf(t.Context(), q, "Where?"), "the call that was given up is kept")
	assert.EqualValues(t, 2, m.asked.Load())
}

func TestFailuresOfQuestionsAreNotKept(t *testing.T) {
	t.Parallel()
	m := &model{answers: make(chan error, 1)}
	q := m.questions(newShelf())
	m.answers <- errors.New("away")
	require.Error(t, vectorOf(t.Context(), q, "Where?"))
	close(m.answers)
	assert.NoError(t, vectorOf(t.Context(), q, "Where?"))
}

func TestQuestionsKeepABoundedNumber(t *testing.T) {
	t.Parallel()
	m := &model{answers: make(chan error)}
	close(m.answers)
	q := m.questions(newShelf())
	ask := func(n int) { require.NoError(t, vectorOf(t.Context(), q, fmt.Sprint("question ", n))) }
	const kept, many = 512, 2*512 + 10
	for n := range many {
		ask(n)
		if n%(kept/2) == 0 {
			ask(0) // is used often enough to be kept
		}
	}
	require.EqualValues(t, many, m.asked.Load())
	ask(many - 1)
	assert.EqualValues(t, many, m.asked.Load(), "a late one is forgotten")
	ask(1)
	assert.EqualValues(t, many+1, m.asked.Load(), "an early one is kept")
}

// A question whose vector failed is no error for who does not wait for it.
func TestWhoDoesNotWaitSeesNoFailure(t *testing.T) {
	t.Parallel()
	m := &model{answers: make(chan error)}
	q := m.questions(newShelf())
	pending := q.Begin(t.Context(), recall.For{}, "Where?")
	_, ok, err := pending.Vector(t.Context(), false)
	require.Truef(t, !ok && err == nil, "before the answer: %v", err)
	m.answers <- errors.New("away")
	_, _, err = pending.Vector(t.Context(), true)
	require.Error(t, err)
	_, ok, err = pending.Vector(t.Context(), false)
	assert.Truef(t, !ok && err == nil, "%v", err)
}
