package recall

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
)

// The worked example of docs/memories.md: two of the chat's five turns hold a word, the second in the question before it.
func TestExampleOfTheDocument(t *testing.T) {
	t.Parallel()
	const question = "Which string broke in March?"
	words := wordsOf(question)
	at := time.Date(2026, time.March, 3, 18, 20, 0, 0, time.UTC)
	first := Place{Span: Span{TurnID: TurnID{Seq: 1}, LastSeq: 2}, AskedSeq: 1, Size: 20, SaidAt: at}
	second := Place{Span: Span{TurnID: TurnID{Seq: 3}, LastSeq: 4}, AskedSeq: 1, Size: 21, SaidAt: at.Add(time.Minute)}
	r := newRanking(words, Matches{Turns: 5, Found: []Match{
		{first, 0, 1, 0}, {first, 1, 1, 0}, {second, 0, 0, 1}, {second, 1, 0, 1},
	}})
	var lines []string
	for _, c := range r.ranked(0, periodsIn(question, at.AddDate(0, 3, 0))) {
		lines = append(lines, fmt.Sprintf("%d %.2f %.2f %.2f %.2f %v", c.Seq, c.ownView, c.window, c.near, c.score, r.passesByWords(c)))
	}
	want := "1 1.00 1.00 1.00 1.80 true\n3 -1.00 -1.00 -1.00 -1.80 false"
	assert.Equal(t, "", cmp.Diff(want, strings.Join(lines, "\n")))
}
