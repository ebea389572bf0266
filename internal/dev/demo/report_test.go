package demo

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/memory/prompt"
)

func reported(t *testing.T, s Summary) string {
	t.Helper()
	var out strings.Builder
	if err := s.report(t.Context(), Options{URL: "http://127.0.0.1:8080", Out: &out}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// played is a chat of the length given.
func played(turns int) Summary {
	s := Summary{ChatID: uuid.MustParse("11111111-2222-4333-8444-555555555555"), Elapsed: 83 * time.Second}
	for n := range turns {
		s.Turns = append(s.Turns, Turn{n + 1, Answer{Tokens: Bill{Memory: 1000, History: 100 * n, Input: 1300, Cached: 900}}})
	}
	return s
}

func TestReport(t *testing.T) {
	t.Parallel()
	s := played(30)
	s.Answers = []Answered{{"What is my\x1b[2J teacher called?", Answer{Text: " Ilse\x1b[2J Brandauer.\n", Receipt: prompt.Receipt{BriefVersion: 2}, Tokens: Bill{Memory: 1100}}}}
	want := `
TOKEN BILL  30 turns, played in 1m23s: what each prompt had of the past, beside the whole history
   turn   memory   whole history   model's input   cached
      2    1,000             100           1,300      900
`
	got := reported(t, s)
	if !strings.Contains(got, want) {
		t.Errorf("printed:\n%s", got)
	}
	for _, said := range []string{
		"     30    1,000           2,900           1,300      900\n    all   30,000          43,500          39,000   27,000\n",
		"1.4 times as many tokens. The largest memory of any turn was 1,000 tokens.", "No turn was left out",
		"(brief v2, 1,100 tokens of memory, 0 turns recalled)\n\n  > What is my teacher called?\n  < Ilse Brandauer.\n", "make inspect CHAT=11111111-2222-4333-8444-555555555555",
	} {
		if !strings.Contains(got, said) {
			t.Errorf("it does not say %q:\n%s", said, got)
		}
	}
}

func TestReportOfDroppedTurns(t *testing.T) {
	t.Parallel()
	s := played(3)
	s.Turns[1].Receipt.DroppedTurns, s.Turns[2].Receipt.DroppedTurns = 2, 3
	s.FailedTurns, s.Interrupted = 1, true
	got := reported(t, s)
	for _, said := range []string{"LEFT OUT of prompts, added up over all replies: 5 by the receipts. Folds", "Replies that failed: 1", "Interrupted"} {
		if !strings.Contains(got, said) {
			t.Errorf("it does not say %q:\n%s", said, got)
		}
	}
}

func TestReportOfNothing(t *testing.T) {
	t.Parallel()
	if got := reported(t, Summary{Interrupted: true}); !strings.Contains(got, "No chat was started.") {
		t.Errorf("got %q", got)
	}
}

func TestNumbersForPeople(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := grouped(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
	if count(1, "turn") != "1 turn" || count(0, "turn") != "0 turns" || count(2000, "turn") != "2,000 turns" {
		t.Error("count")
	}
}

// Earlier turns that a receipt accounts for nowhere are counted, whatever its dropped_turns says.
func TestUnseenTurns(t *testing.T) {
	t.Parallel()
	var messages []storedMessage
	var users []uuid.UUID // at 1, 3, 5, 6, 8 and 10: the third has no reply
	for n := range 6 {
		users = append(users, uuid.New())
		messages = append(messages, storedMessage{ID: users[n], Seq: int64(len(messages) + 1), IsUser: true})
		if n != 2 {
			messages = append(messages, storedMessage{ID: uuid.New(), Seq: int64(len(messages) + 1)})
		}
	}
	for n, c := range []struct {
		receipt prompt.Receipt
		want    int
	}{
		{prompt.Receipt{}, 0},
		{prompt.Receipt{TailTurns: 1}, 0},
		{prompt.Receipt{TailTurns: 1, DroppedTurns: 1}, 1},
		{prompt.Receipt{CoveredThroughSeq: 2, TailTurns: 1}, 1},                 // 5 was shown, 3 not
		{prompt.Receipt{CoveredThroughSeq: 4, TailTurns: 1, BridgeTurns: 1}, 0}, // 5 and 6 were shown
		{prompt.Receipt{CoveredThroughSeq: 0, TailTurns: 1, BridgeTurns: 1}, 3}, // a stale brief claims nothing
	} {
		turn := Turn{n + 1, Answer{UserMessageID: users[n], Receipt: c.receipt}}
		if got, complete := unseenTurns([]Turn{turn}, messages); got != c.want || !complete {
			t.Errorf("turn %d: %d unseen, %v, want %d", n+1, got, complete, c.want)
		}
	}
	if _, complete := unseenTurns([]Turn{{1, Answer{UserMessageID: uuid.New()}}}, messages); complete {
		t.Error("a message that is not stored was checked")
	}
}

func TestReportSaysHowCoverageWasChecked(t *testing.T) {
	t.Parallel()
	s := played(3)
	s.CoverageChecked = true
	if got := reported(t, s); !strings.Contains(got, "every later reply (checked against the stored messages)") {
		t.Errorf("printed:\n%s", got)
	}
	s.UnseenTurns = 3
	if got := reported(t, s); !strings.Contains(got, "0 by the receipts, 3 by the stored messages") {
		t.Errorf("printed:\n%s", got)
	}
}
