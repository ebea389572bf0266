package recall_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

func said(day, seq int, question, answer string) recall.Turn {
	at := time.Date(2026, time.March, day, 12, 0, 0, 0, time.UTC)
	turn := recall.Turn{Seq: int64(seq), LastSeq: int64(seq), SaidAt: at, Messages: []recall.Message{{Role: "user", Content: question, Text: question, Score: 1}}}
	if answer != "" {
		turn.LastSeq++
		turn.Messages = append(turn.Messages, recall.Message{Role: "assistant", Content: answer, Text: answer, Score: .5})
	}
	return turn
}

func TestSectionIsInOrderOfTime(t *testing.T) {
	t.Parallel()
	written, shown, tokens := recall.Section([]recall.Turn{
		said(5, 9, "My dentist is Dr. Wu.", "Noted."), said(3, 1, "The E string broke.", ""),
	}, 600)
	want := "[2026-03-03] User: The E string broke.\n[2026-03-05] User: My dentist is Dr. Wu. / Assistant: Noted."
	assert.Truef(t, written == want && len(shown) == 2 && shown[0].Seq == 1 && tokens >= text.Tokens(want) && tokens <= text.Tokens(want)+2,
		"%s\n%d turns, %d tokens", written, len(shown), tokens)
	if written, shown, tokens := recall.Section(nil, 600); written != "" || shown != nil || tokens != 0 {
		t.Errorf("of nothing: %q, %v, %d", written, shown, tokens)
	}
}

func TestSectionKeepsItsLimits(t *testing.T) {
	t.Parallel()
	var turns []recall.Turn
	for n := range recall.SectionTurns + 3 {
		fact := fmt.Sprintf("The code of door %d is %d.", n, 7*n)
		long := strings.Repeat("This is about something else. ", 400) + fact + strings.Repeat(" And so is this.", 400)
		turn := said(1+n%28, 1+2*n, long, long)
		turn.Messages[0].Text, turn.Messages[1].Text = fact, fact
		turns = append(turns, turn)
	}
	for _, budget := range []int{0, 10, 250, 600, 5000} {
		written, shown, tokens := recall.Section(turns, budget)
		assert.Truef(t, tokens <= budget && tokens >= text.Tokens(written) && tokens <= text.Tokens(written)+len(shown) && len(shown) <= recall.SectionTurns,
			"budget %d: %d turns of %d tokens", budget, len(shown), tokens)
		for line := range strings.SplitSeq(written, "\n") {
			if text.Tokens(line) > recall.SectionTurnLimit {
				t.Errorf("a turn of %d tokens", text.Tokens(line))
			}
		}
		for _, turn := range shown {
			fact := turn.Messages[0].Text
			assert.Truef(t, strings.Count(written, fact) != 0, "%q was left out of its turn", fact)
		}
		assert.Truef(t, budget != 5000 || len(shown) == recall.SectionTurns, "%d turns", len(shown))
	}
}

// What one message of a turn leaves of the room is the other's, whichever says most of the question.
func TestMessagesOfATurnShareItsRoom(t *testing.T) {
	t.Parallel()
	long := strings.TrimSpace(strings.Repeat("This is about something else. ", 13)) // 78 tokens
	for _, turn := range []recall.Turn{said(3, 1, "The E string broke.", long), said(3, 1, long, "I see.")} {
		written, _, tokens := recall.Section([]recall.Turn{turn}, 600)
		assert.Truef(t, strings.Contains(written, long) && tokens <= recall.SectionTurnLimit,
			"%d tokens: %s", tokens, written)
	}
}
