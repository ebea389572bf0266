package recall

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// BenchmarkQuote reads a message of about 400 tokens.
func BenchmarkQuote(b *testing.B) {
	found := &ranked{ranking: newRanking(Words("Which string broke in March, and what did the dentist say about it?"), Matches{Turns: 100})}
	finder := found.finder()
	content := strings.Repeat("The long programme is said to be in two parts. ", 5) +
		strings.Repeat("We talked about the concert in the old hall, and she told us that it would be fine. ", 17) + "A string broke."
	b.SetBytes(int64(len(content)))
	b.ReportAllocs()
	for b.Loop() {
		finder.quote(content)
	}
}

// BenchmarkRanking ranks the 2 400 matches of a question and the vectors of 20 000 turns.
func BenchmarkRanking(b *testing.B) {
	words := Words("Which string broke on the violin during the long lesson?")
	chat := uuid.New()
	place := func(turn int) Place {
		return Place{
			Span: Span{TurnID: TurnID{chat, int64(2 * turn)}, LastSeq: int64(2*turn + 1)}, AskedSeq: int64(2*turn - 2),
			Segment: turn / 20, Size: 30, SaidAt: time.Unix(int64(60*turn), 0),
		}
	}
	matches := Matches{Turns: 20_000}
	for n := range 2400 {
		matches.Found = append(matches.Found, Match{Place: place(1 + 8*n), Word: n % len(words), Own: 1})
	}
	var near []Near
	for n := range 20_000 {
		near = append(near, Near{Place: place(1 + n), Cosine: float64(n*7919%1000) / 1000})
	}
	for _, vectors := range []bool{false, true} {
		b.Run(fmt.Sprintf("vectors=%v", vectors), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := newRanking(words, matches)
				if vectors {
					r.addMeaning(near)
				}
				r.ranked(.8, nil)
			}
		})
	}
}
