package recall

import (
	_ "embed"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/testkit/golden"
)

//go:embed testdata/questions.txt
var questions string

//go:embed testdata/turns.txt
var turnsText string

var goldenNow = time.Date(2026, time.April, 2, 12, 0, 0, 0, time.UTC)

// The words of questions, with a full stop those which pass no gate, and the times that they name.
func TestGoldenQuestions(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	for question := range strings.Lines(questions) {
		question = strings.TrimSpace(question)
		words := Words(question)
		fmt.Fprintf(&out, "%s\n  gate open: %v\n", question, canPass(words))
		for _, w := range words {
			mark := ""
			if w.Weak {
				mark = "."
			}
			fmt.Fprintf(&out, "  %s%s\n", strings.Join(w.Forms, " "), mark)
		}
		for _, p := range periodsIn(question, goldenNow) {
			fmt.Fprintf(&out, "  from %s until %s\n", p.from.Format(time.DateOnly), p.to.Format(time.DateOnly))
		}
	}
	golden.Check(t, "questions.golden", out.String())
}

// Eight turns are ranked by words, and by words and vectors, and the section is written.
func TestGoldenRanking(t *testing.T) {
	t.Parallel()
	shelf := readShelf(t)
	var out strings.Builder
	for n, question := range []string{"Which string broke in March?", "What is the name of my dentist?"} {
		found := shelf.rank(question)
		fmt.Fprintf(&out, "== %s, words ==\n", question)
		shelf.write(&out, found)
		found.addMeaning(shelf.near[n])
		found.best = found.ranked(1, found.times)
		fmt.Fprintf(&out, "== %s, words and meaning ==\n", question)
		shelf.write(&out, found)
	}
	golden.Check(t, "ranking.golden", out.String())
}

// goldenShelf is the turns of a file, and their nearness to two questions.
type goldenShelf struct {
	places   []Place
	messages [][]Message
	near     [2][]Near
}

func readShelf(t *testing.T) *goldenShelf {
	t.Helper()
	s := &goldenShelf{}
	seq := int64(0)
	for block := range strings.SplitSeq(strings.TrimPrefix(turnsText, "# "), "\n# ") {
		lines := strings.Split(strings.TrimSpace(block), "\n")
		var date string
		var cosines [2]float64
		if _, err := fmt.Sscan(lines[0], &date, &cosines[0], &cosines[1]); err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.DateOnly, date)
		require.NoError(t, err)
		p := Place{Span: Span{TurnID: TurnID{Seq: seq + 1}, LastSeq: seq + 2}, AskedSeq: max(seq-1, 1), SaidAt: at.Add(time.Duration(seq) * time.Minute)}
		if n := len(s.places); n > 0 {
			p.Segment = s.places[n-1].Segment
			if !s.places[n-1].SaidAt.Add(time.Hour).After(at) {
				p.Segment++
			}
		}
		var messages []Message
		for n, role := range []memory.Role{memory.RoleUser, memory.RoleAssistant} {
			seq++
			messages = append(messages, Message{Seq: seq, Role: string(role), Content: lines[n+1][len("U: "):], CreatedAt: p.SaidAt})
			p.Size += len(tokensOf(messages[n].Content))
		}
		s.places, s.messages = append(s.places, p), append(s.messages, messages)
		for n := range cosines {
			s.near[n] = append(s.near[n], Near{Place: p, Cosine: cosines[n]})
		}
	}
	return s
}

func (s *goldenShelf) rank(question string) *ranked {
	words := Words(question)
	matches := Matches{Turns: len(s.places)}
	for n, p := range s.places {
		for w := range words {
			m := Match{Place: p, Word: w}
			for _, message := range s.messages[n] {
				m.Own += times(words[w], message.Content)
			}
			if n > 0 {
				m.Asked = times(words[w], s.messages[n-1][0].Content)
			}
			if m.Own+m.Asked > 0 {
				matches.Found = append(matches.Found, m)
			}
		}
	}
	found := &ranked{ranking: newRanking(words, matches), times: periodsIn(question, goldenNow)}
	found.best = found.ranked(0, found.times)
	return found
}

func times(w Word, content string) float64 {
	count := 0.
	for _, token := range tokensOf(content) {
		for _, form := range w.Forms {
			if rootOf(token) == rootOf(form) {
				count++
			}
		}
	}
	return count
}

func (s *goldenShelf) write(out *strings.Builder, found *ranked) {
	finder := found.finder()
	var turns []Turn
	for _, c := range found.best {
		messages := s.messages[(c.Seq-1)/2]
		turn := found.turn(c, messages)
		turn.score(finder.quotes(messages), nil)
		turns = append(turns, turn)
		fmt.Fprintf(out, "%2d own %+.2f window %+.2f near %+.2f meaning %+.2f sum %+.2f passes %v (%s)\n",
			c.Seq, c.ownView, c.window, c.near, c.meaning, c.score, found.passesByWords(c), turn.Why)
		for _, m := range turn.Messages {
			fmt.Fprintf(out, "   %2d %.3f %s\n", m.Seq, m.Score, m.Text)
		}
	}
	written, _, tokens := Section(turns, 120)
	fmt.Fprintf(out, "-- %d tokens --\n%s\n", tokens, written)
}
