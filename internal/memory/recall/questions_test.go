package recall_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/memory/recall"
)

// vectorOf asks for the vector of a question and waits for it.
func vectorOf(ctx context.Context, q *recall.Questions, question string) error {
	vector, ok, err := q.Vector(ctx, recall.Question{Text: question}, true)
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
	synctest.Test(t, func(t *testing.T) {
		m := &model{answers: make(chan error)}
		q := m.questions(newShelf())
		impatient, leave := context.WithCancel(t.Context())
		left, stays := make(chan error, 1), make(chan error, 1)
		go func() { left <- vectorOf(impatient, q, "Where?") }()
		synctest.Wait()
		go func() { stays <- vectorOf(t.Context(), q, "Where?") }()
		synctest.Wait()
		leave()
		require.ErrorIs(t, <-left, context.Canceled)
		m.answers <- nil
		assert.NoError(t, <-stays)
		assert.EqualValues(t, 1, m.asked.Load())
	})
}

func TestAQuestionWithoutCallersIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &model{answers: make(chan error)}
		q := m.questions(newShelf())
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() { left <- vectorOf(ctx, q, "Where?") }()
		synctest.Wait()
		leave()
		require.ErrorIs(t, <-left, context.Canceled)
		synctest.Wait() // the call has ended, too
		close(m.answers)
		assert.NoError(t, vectorOf(t.Context(), q, "Where?"), "the call that was given up is kept")
		assert.EqualValues(t, 2, m.asked.Load())
	})
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

// Who does not wait has a vector that is kept, and has none made.
func TestWhoDoesNotWaitHasWhatIsKept(t *testing.T) {
	t.Parallel()
	m := &model{answers: make(chan error, 1)}
	q := m.questions(newShelf())
	question := recall.Question{Text: "Where?"}
	_, ok, err := q.Vector(t.Context(), question, false)
	require.Truef(t, !ok && err == nil && m.asked.Load() == 0, "before: %v, %d calls", err, m.asked.Load())
	m.answers <- nil
	require.NoError(t, vectorOf(t.Context(), q, question.Text))
	_, ok, err = q.Vector(t.Context(), question, false)
	assert.Truef(t, ok && err == nil, "%v", err)
}
