package demo

import (
	"strings"
	"testing"
	"time"

	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/streaming"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

func TestTotals(t *testing.T) {
	t.Parallel()
	c := Chat{Turns: []Turn{
		{HistoryTokens: 0, Usage: streaming.Usage{InputTokens: 10}},
		{HistoryTokens: 900, Receipt: prompt.Receipt{BriefTokens: 100, BridgeTokens: 20, TailTokens: 3, DroppedTurns: 2, Truncated: true}, UnseenTurns: 2,
			Usage: streaming.Usage{InputTokens: 200, CachedTokens: 150}},
		{HistoryTokens: 1000, Receipt: prompt.Receipt{BriefTokens: 100, TailTokens: 27}},
	}}
	want := Totals{MemoryTokens: 250, HistoryTokens: 1900, InputTokens: 210, CachedTokens: 150, DroppedTurns: 2, UnseenTurns: 2, TruncatedReplies: 1, Peak: 127}
	if diff := cmp.Diff(want, c.Totals()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := c.Totals().Saving(); got != 7.6 {
		t.Errorf("saving %v", got)
	}
	if got := (Totals{HistoryTokens: 5}).Saving(); got != 0 {
		t.Errorf("saving without memory: %v", got)
	}
}

// chatRows stores turns of 10 and 20 tokens; the reply to turn 3 is missing, as after a failure.
func chatRows(turns int) ([]row, []uuid.UUID) {
	var rows []row
	var users []uuid.UUID
	for n := range turns {
		id := uuid.New()
		users = append(users, id)
		rows = append(rows, row{ID: id, Seq: int64(len(rows) + 1), Role: "user", Tokens: 10})
		if n != 2 {
			rows = append(rows, row{ID: uuid.New(), Seq: int64(len(rows) + 1), Role: "assistant", Tokens: 20})
		}
	}
	return rows, users
}

func TestCheckCoverage(t *testing.T) {
	t.Parallel()
	rows, users := chatRows(6) // user messages at 1, 3, 5, 6, 8, 10
	receipts := []struct {
		receipt prompt.Receipt
		unseen  int
	}{
		{prompt.Receipt{}, 0},
		{prompt.Receipt{TailTurns: 1}, 0},
		{prompt.Receipt{TailTurns: 1, DroppedTurns: 1}, 1},
		{prompt.Receipt{CoveredThroughSeq: 2, TailTurns: 1}, 1},                 // 5 was shown, 3 not
		{prompt.Receipt{CoveredThroughSeq: 4, TailTurns: 1, BridgeTurns: 1}, 0}, // 5 and 6 were shown
		{prompt.Receipt{CoveredThroughSeq: 0, TailTurns: 1, BridgeTurns: 1}, 3}, // a stale brief claims nothing
	}
	var turns []Turn
	for n, test := range receipts {
		turns = append(turns, Turn{Number: n + 1, UserMessageID: users[n], Receipt: test.receipt})
	}
	if !checkCoverage(turns, rows) {
		t.Error("not complete")
	}
	for n, history := range []int{0, 30, 60, 70, 100, 130} {
		if turns[n].HistoryTokens != history || turns[n].UnseenTurns != receipts[n].unseen || turns[n].UserSeq != []int64{1, 3, 5, 6, 8, 10}[n] {
			t.Errorf("turn %d: %+v, want a history of %d and %d unseen", n+1, turns[n], history, receipts[n].unseen)
		}
	}
	if diff := cmp.Diff([]int64{1, 3, 5}, unseen(turns[5], rows[:9])); diff != "" {
		t.Errorf("unseen (-want +got)\n%s", diff)
	}
}

func TestCheckCoverageReportsAMissingRow(t *testing.T) {
	t.Parallel()
	rows, users := chatRows(2)
	turns := []Turn{{UserMessageID: users[0]}, {UserMessageID: uuid.New(), HistoryTokens: 7}}
	if checkCoverage(turns, rows) || turns[1].HistoryTokens != 7 {
		t.Errorf("%+v", turns)
	}
}

func TestTrustReceipts(t *testing.T) {
	t.Parallel()
	turns := []Turn{{Receipt: prompt.Receipt{DroppedTurns: 4}}}
	trustReceipts(turns)
	if turns[0].UnseenTurns != 4 {
		t.Errorf("%+v", turns)
	}
}

// played is a chat of the length given, folded every 40 turns.
func played(turns int) Chat {
	memories, histories := sawtooth(turns)
	c := Chat{ID: uuid.MustParse("11111111-2222-4333-8444-555555555555"), CoverageChecked: true}
	for n := range turns {
		c.Turns = append(c.Turns, Turn{
			Number: n + 1, HistoryTokens: histories[n], Receipt: prompt.Receipt{BridgeTokens: memories[n], BriefVersion: int64(n / 40)},
			Usage: streaming.Usage{InputTokens: memories[n] + 300, CachedTokens: memories[n]},
		})
	}
	return c
}

func TestReport(t *testing.T) {
	t.Parallel()
	c := played(120)
	c.Brief = Brief{Version: 2, Tokens: 480, CoveredSeq: 200, PendingTurns: 20,
		Text: "The user said:\n- My cello teacher is called Ilse Brandauer, she is 67 and played for 31 years in the orchestra here.\n- The exam is on 27 June.\x1b[2J"}
	c.Revisions = []Revision{
		{Version: 1, Kind: "fold", SeqFrom: 1, SeqTo: 80, Turns: 40, TokensAfter: 470, TurnsTokens: 6000, PromptMode: "inline", Model: "gpt-5.6-luna", Took: 23 * time.Millisecond},
		{Version: 2, Kind: "fold", SeqFrom: 81, SeqTo: 200, Turns: 60, TokensBefore: 470, TokensAfter: 480, TurnsTokens: 9000, PromptMode: "hosted", Model: "hosted", Took: 1234 * time.Millisecond},
	}
	c.FoldWaits, c.FoldWaited, c.Waits, c.Waited, c.FailedTurns = 2, 400*time.Millisecond, 3, 9*time.Second, 1
	c.Recall = Recall{Question: "What is my teacher called?", Answer: " Ilse Brandauer.\n", Turn: c.Turns[119]}
	s := Summary{Chat: c, Elapsed: 83 * time.Second}
	golden(t, "report.txt", reported(t, s, "postgres://"))
}

func TestReportOfDroppedTurns(t *testing.T) {
	t.Parallel()
	c := played(60)
	c.Turns[30].Receipt.DroppedTurns, c.Turns[30].UnseenTurns, c.Turns[31].Receipt.Truncated = 2, 3, true
	c.PendingFold = "running"
	got := reported(t, Summary{Chat: c, Interrupted: true}, "postgres://")
	for _, said := range []string{"Turns UNSEEN", "2 by the receipts", "3 by the check", "In 1 reply", "Interrupted", "still empty", "still pending"} {
		if !strings.Contains(strings.Join(strings.Fields(got), " "), said) {
			t.Errorf("the report does not say %q:\n%s", said, got)
		}
	}
}

func TestReportOfNothing(t *testing.T) {
	t.Parallel()
	if got := reported(t, Summary{Interrupted: true}, ""); !strings.Contains(got, "No chat was started.") {
		t.Errorf("got %q", got)
	}
}

func reported(t *testing.T, s Summary, dsn string) string {
	t.Helper()
	var out strings.Builder
	if err := report(&out, s, Options{URL: "http://127.0.0.1:8080", DatabaseURL: dsn}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
