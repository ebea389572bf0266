package text

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"container/heap"
	_ "embed"
	"encoding/base64"
	"strings"
	"sync"

	"github.com/dlclark/regexp2/v2"
)

// o200k is OpenAI's published table of o200k_base, gzipped: on each line a token in base64 and its rank. As a file and not
// as Go literals it costs the compiler nothing.
//
//go:embed o200k_base.tiktoken.gz
var o200k []byte

// o200kTokens is how many tokens the table has.
const o200kTokens = 199_998

// ranks returns the ranks of all tokens: the lower is merged first. They are built at first use, once per process.
var ranks = sync.OnceValue(loadRanks)

func loadRanks() map[string]int {
	table, err := gzip.NewReader(bytes.NewReader(o200k))
	if err != nil {
		panic("text: the token table: " + err.Error()) // it is compiled in, as all of its lines, which a test reads
	}
	var tokens strings.Builder // all in one string, for one allocation instead of as many as there are tokens
	var ends [o200kTokens]int
	lines, buffer := bufio.NewScanner(table), make([]byte, 256)
	for rank := 0; lines.Scan(); rank++ {
		encoded, _, _ := bytes.Cut(lines.Bytes(), []byte(" "))
		n, _ := base64.StdEncoding.Decode(buffer, encoded)
		tokens.Write(buffer[:n])
		ends[rank] = tokens.Len()
	}
	found, start := make(map[string]int, o200kTokens), 0
	for rank, end := range ends {
		found[tokens.String()[start:end]] = rank
		start = end
	}
	return found
}

// words divides a text before tokens are looked for; the pattern is published with the table.
var words = sync.OnceValue(func() *regexp2.Regexp {
	const ending = `(?i:'s|'t|'re|'ve|'m|'ll|'d)?`
	return regexp2.MustCompile(
		`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+`+ending+
			`|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*`+ending+
			`|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`, regexp2.None)
})

// eachToken calls yield with the length of each token of valid UTF-8. The only error of a search is a timeout, and none
// is set.
func eachToken(text string, yield func(length int)) {
	for word, _ := words().FindStringMatch(text); word != nil; word, _ = words().FindNextMatch(word) {
		eachTokenOfWord(word.String(), yield)
	}
}

func eachTokenOfWord(word string, yield func(length int)) {
	if _, whole := ranks()[word]; whole {
		yield(len(word))
		return
	}
	ends := mergedEnds(word)
	for start := 0; start < len(word); start = ends[start] {
		yield(ends[start] - start)
	}
}

// mergedEnds begins with a token for each byte and merges, again and again, the two neighbors whose merger has the lowest
// rank. It returns the end of each token at its start. The heap keeps a long word from taking quadratic time.
func mergedEnds(word string) (ends []int) {
	ends, before := make([]int, len(word)), make([]int, len(word)+1)
	var open merges
	offer := func(start, end int) {
		if rank, known := ranks()[word[start:end]]; known {
			open = append(open, merge{rank, start, end})
			heap.Fix(&open, len(open)-1)
		}
	}
	for i := range len(word) {
		ends[i], before[i+1] = i+1, i
		if i+2 <= len(word) {
			offer(i, i+2)
		}
	}
	for len(open) > 0 {
		next := open[0]
		heap.Pop(&open)
		middle := ends[next.start]
		if middle == gone || middle >= next.end || ends[middle] != next.end {
			continue // one of the two was merged with another meanwhile
		}
		ends[next.start], ends[middle], before[next.end] = next.end, gone, next.start
		if next.start > 0 {
			offer(before[next.start], next.end)
		}
		if next.end < len(word) {
			offer(next.start, ends[next.end])
		}
	}
	return ends
}

// gone is the end of a token that was merged into the one before it.
const gone = 0

// merge is one that two neighboring tokens, which together go from start to end, may have.
type merge struct{ rank, start, end int }

// merges is a heap.
type merges []merge

func (m merges) Len() int      { return len(m) }
func (m merges) Swap(i, j int) { m[i], m[j] = m[j], m[i] }
func (m merges) Less(i, j int) bool {
	return m[i].rank < m[j].rank || m[i].rank == m[j].rank && m[i].start < m[j].start
}
func (m *merges) Push(any) {} // offer appends by itself
func (m *merges) Pop() any { *m = (*m)[:len(*m)-1]; return nil }
