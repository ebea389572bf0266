package testkit

import (
	"testing"
	"time"
)

// Patience is how long a test waits for what must happen. It is not a bound on speed.
const Patience = 4 * time.Minute

// Eventually polls until the condition holds, for what sends no signal, and fails the test after Patience. what
// names the condition in the failure.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(Patience); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

// Receive waits for a value from a channel, and fails the test after Patience.
func Receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(Patience):
		t.Fatalf("in vain: %s", what)
		panic("unreachable")
	}
}
