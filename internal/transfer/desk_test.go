package transfer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"
)

// A user's second import waits for the first, and nobody's import waits for a place that a waiting one would hold.
func TestImportsWaitForAPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(2)
		anna, ben, carl := uuid.New(), uuid.New(), uuid.New()
		entered := make(chan uuid.UUID, 4)
		enter := func(user uuid.UUID) (leave func()) {
			ready := make(chan func(), 1)
			go func() {
				leave, err := d.enter(t.Context(), user)
				if err != nil {
					t.Error(err)
				}
				entered <- user
				ready <- leave
			}()
			return func() { (<-ready)() }
		}
		check := func(want ...uuid.UUID) {
			t.Helper()
			synctest.Wait()
			if len(entered) != len(want) {
				t.Fatalf("%d entered, want %d", len(entered), len(want))
			}
			for _, user := range want {
				if got := <-entered; got != user {
					t.Fatalf("%s entered, want %s", got, user)
				}
			}
		}
		first := enter(anna)
		check(anna)
		second := enter(anna)
		check()
		other := enter(ben)
		check(ben)
		third := enter(carl)
		check()
		first()
		synctest.Wait()
		// Anna's second and Carl's may come in either order: one of them has the place.
		if len(entered) != 1 {
			t.Fatalf("%d entered", len(entered))
		}
		other()
		synctest.Wait()
		second()
		third()
		if d.mu.Lock(); len(d.users) != 0 || len(d.places) != 0 {
			t.Errorf("left are %v and %d places", d.users, len(d.places))
		}
		d.mu.Unlock()
	})
}

func TestImportThatIsGivenUpLeavesItsPlace(t *testing.T) {
	t.Parallel()
	d := newDesk(1)
	anna, ben := uuid.New(), uuid.New()
	leave, err := d.enter(t.Context(), anna)
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, user := range []uuid.UUID{anna, ben} {
		if _, err := d.enter(gone, user); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	}
	leave()
	for _, user := range []uuid.UUID{anna, ben} {
		leave, err := d.enter(t.Context(), user)
		if err != nil {
			t.Fatal(err)
		}
		leave()
	}
	if len(d.users) != 0 {
		t.Errorf("left are %v", d.users)
	}
}
