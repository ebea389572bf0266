package demo

import (
	"strings"
	"testing"
	"time"
)

func TestCleanTakesWhatMovesTheCursor(t *testing.T) {
	t.Parallel()
	got := clean("a\x1b[2J\x9b1mb\tc\r\nd\u202Ee\u200B\x00\xff")
	if want := "a[2J�1mb c\nde�"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWriteWrapped(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	writeWrapped(&out, "| ", "The user said:\n- äöü äöü äöü äöü\n\nunbreakablyLongWord x", 14)
	want := "| The user\n| said:\n| - äöü äöü\n|   äöü äöü\n|\n| unbreakablyLongWord\n| x\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func TestNumbersForPeople(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234", -12: "-12"} {
		if got := grouped(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
	if count(1, "turn") != "1 turn" || count(0, "turn") != "0 turns" || count(2000, "turn") != "2,000 turns" {
		t.Error("count")
	}
	if got := clock(3*time.Minute + 4600*time.Millisecond); got != "3:05" {
		t.Errorf("clock %q", got)
	}
	if lastRunes("äöüß", 4) != "äöüß" || lastRunes("äöüß", 3) != "…üß" {
		t.Error("lastRunes")
	}
}
