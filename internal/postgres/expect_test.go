package postgres

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/arcoscribe/throughline/internal/fault"
)

// difference is empty for what is the same: nil and an empty slice are.
func difference[T any](got, want T) string {
	return cmp.Diff(want, got, cmpopts.EquateEmpty(), cmp.Exporter(func(reflect.Type) bool { return true }))
}

// is says so when something is otherwise than wanted.
func is[T any](t testing.TB, got, want T, what string, args ...any) {
	t.Helper()
	if diff := difference(got, want); diff != "" {
		t.Errorf("%s (-want +got):\n%s", fmt.Sprintf(what, args...), diff)
	}
}

// mustBe is is, and ends the test: the rest would make no sense.
func mustBe[T any](t testing.TB, got, want T, what string, args ...any) {
	t.Helper()
	if diff := difference(got, want); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", fmt.Sprintf(what, args...), diff)
	}
}

// wantFault says so when something was not refused for this reason.
func wantFault(t testing.TB, err error, reason fault.Code, what string, args ...any) {
	t.Helper()
	if fault.CodeOf(err) != reason {
		t.Errorf("%s: %v, want %s", fmt.Sprintf(what, args...), err, reason)
	}
}

// faultOf is the details of an error of the contract, which must have this code.
func faultOf(t testing.TB, err error, code fault.Code) map[string]any {
	t.Helper()
	known, ok := errors.AsType[*fault.Error](err)
	if !ok || known.Code != code {
		t.Fatalf("refused with %v, want %s", err, code)
	}
	return known.Details
}

// noError ends the test for an error.
func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// must is the value of a call that must succeed: must(call())(t).
func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		noError(t, err)
		return value
	}
}

// fine says so when something failed.
func fine(t testing.TB, err error, what string, args ...any) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", fmt.Sprintf(what, args...), err)
	}
}

// tuple is several values to compare at once.
func tuple(columns ...any) []string {
	texts := make([]string, len(columns))
	for i, column := range columns {
		texts[i] = fmt.Sprint(column)
	}
	return texts
}

// errOf is the error of a call whose value does not matter.
func errOf[T any](_ T, err error) error { return err }

func errOf2[A, B any](_ A, _ B, err error) error { return err }
