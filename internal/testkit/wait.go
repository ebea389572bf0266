package testkit

import (
	"testing"
	"time"
)

// Patience is how long a test waits for what must come. It says nothing about speed.
const Patience = 90 * time.Second

// Eventually looks again and again until the condition holds, for what sends no signal, and fails the
// test when its patience ends. what says in the failure what was waited for.
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

// Receive waits for a value from a channel, and fails the test when its patience ends.
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
