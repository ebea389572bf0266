package text

import (
	"compress/bzip2"
	_ "embed" // the table
	"io"
	"math"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/rangetable"
)

// packedTokens is OpenAI's o200k_base (tiktoken, MIT License, © 2022 OpenAI, Shantanu Jain): of each token the length, in one
// byte, and its bytes, in the order of their ranks. As Go literals it took longer to compile than all else.
//
//go:embed o200k_base.tokens.bz2
var packedTokens string

// tableSize is how long the table is when it is unpacked, in bytes.
const tableSize = 1_597_668

func tokenTable() string {
	table := make([]byte, tableSize)
	if _, err := io.ReadFull(bzip2.NewReader(strings.NewReader(packedTokens)), table); err != nil {
		panic("text: the table of tokens: " + err.Error()) // it is compiled in
	}
	return string(table)
}

// codec divides text as o200k_base does: into chunks by a pattern, which asks of what kinds a character is, and those into
// tokens by their ranks.
type codec struct {
	ranks map[string]uint32
	kinds [unicode.MaxRune + 1]uint8
}

const (
	letter  = 1 << iota
	initial // a word begins with any number of them, and goes on with
	inner
	number
	space
	newline
)

// o200k is built at first use (about 150 ms, most of it for unpacking, and 10 MB), once per process. It is safe for concurrent use: it is only read.
var o200k = sync.OnceValue(build)

func build() *codec {
	c := &codec{ranks: make(map[string]uint32, 200_000)}
	for rest := tokenTable(); rest != ""; {
		end := 1 + int(rest[0])
		c.ranks[rest[1:end]] = uint32(len(c.ranks))
		rest = rest[end:]
	}
	mark := func(kind uint8, tables ...*unicode.RangeTable) {
		for _, table := range tables {
			rangetable.Visit(table, func(r rune) { c.kinds[r] |= kind })
		}
	}
	mark(letter, unicode.L)
	mark(initial, unicode.Lu, unicode.Lt, unicode.Lm, unicode.Lo, unicode.M)
	mark(inner, unicode.Ll, unicode.Lm, unicode.Lo, unicode.M)
	mark(number, unicode.N)
	mark(space, unicode.White_Space)
	mark(newline, rangetable.New('\r', '\n'))
	return c
}

// each calls found with the byte offset after each token of text, which must be valid UTF-8.
func (c *codec) each(text string, found func(end int)) {
	for at := 0; at < len(text); {
		chunk := text[at : at+c.chunk(text[at:])]
		if _, whole := c.ranks[chunk]; whole {
			found(at + len(chunk))
		} else {
			c.merge(chunk, func(end int) { found(at + end) })
		}
		at += len(chunk)
	}
}

// merge is byte pair encoding: it joins those two neighbors that make the token of the lowest rank, the leftmost of equals,
// until none make one. The root of a tree of pairs is the lowest of its leaves, so that the time for a long chunk grows with
// n log n.
func (c *codec) merge(chunk string, found func(end int)) {
	const few = 32
	n := len(chunk)
	var fewPairs [2 * few]uint64
	var fewNext, fewPrevious [few + 1]int
	pairs, next, previous := fewPairs[:], fewNext[:], fewPrevious[:]
	if n > few {
		pairs, next, previous = make([]uint64, 2*n), make([]int, n+1), make([]int, n+1)
	}
	pair := func(i int) uint64 { // of the part at i with the next one: its rank and i; the highest where it is no token
		if i < n && next[i] < n {
			if rank, ok := c.ranks[chunk[i:next[next[i]]]]; ok {
				return uint64(rank)<<32 | uint64(i)
			}
		}
		return math.MaxUint64
	}
	for i := range next {
		next[i], previous[i] = i+1, i-1
	}
	for i := range n {
		pairs[n+i] = pair(i)
	}
	for i := n - 1; i > 0; i-- {
		pairs[i] = min(pairs[2*i], pairs[2*i+1])
	}
	set := func(i int, value uint64) {
		i += n
		for pairs[i] = value; i > 1; {
			i /= 2
			pairs[i] = min(pairs[2*i], pairs[2*i+1])
		}
	}
	for pairs[1] != math.MaxUint64 {
		i := int(uint32(pairs[1]))
		gone := next[i]
		next[i] = next[gone]
		previous[next[i]] = i
		set(gone, math.MaxUint64)
		set(i, pair(i))
		if i > 0 {
			set(previous[i], pair(previous[i]))
		}
	}
	for end := next[0]; end <= n; end = next[end] {
		found(end)
	}
}

// chunk returns where the first match of o200k_base's pattern ends, whose alternatives are, in order:
//
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//	\p{N}{1,3}
//	 ?[^\s\p{L}\p{N}]+[\r\n/]*
//	\s*[\r\n]+
//	\s+(?!\S)
//	\s+
func (c *codec) chunk(text string) int {
	first, size := utf8.DecodeRuneInString(text)
	kind := c.kinds[first]
	if end := c.word(text, kind, size); end > 0 {
		return end + contraction(text[end:])
	}
	if kind&number != 0 {
		return c.run(text, 0, 3, number, true)
	}
	from := 0
	if first == ' ' {
		from = 1
	}
	end := c.run(text, from, len(text), space|letter|number, false)
	if end == from {
		return c.blank(text)
	}
	for end < len(text) && strings.IndexByte("\r\n/", text[end]) >= 0 {
		end++
	}
	return end
}

// word is where a match of the first two alternatives ends, before a contraction; 0: there is none.
func (c *codec) word(text string, kind uint8, size int) int {
	if kind&(letter|number|newline) != 0 {
		size = 0 // it does not stand before a word
	}
	end := c.lower(text, size)
	if end == 0 && size > 0 {
		end = c.lower(text, 0)
	}
	if end > 0 {
		return end
	}
	if end := c.run(text, size, len(text), initial, true); end > size {
		return end
	}
	return c.run(text, 0, len(text), initial, true)
}

// lower is where a run of initial characters and then, at least one, inner ones ends; 0: there is none.
func (c *codec) lower(text string, from int) int {
	last := 0 // the end of the last that is both, which the first run gives back to the second
	for from < len(text) {
		r, size := utf8.DecodeRuneInString(text[from:])
		switch kind := c.kinds[r]; {
		case kind&initial == 0 && kind&inner == 0:
			return last
		case kind&initial == 0:
			return c.run(text, from, len(text), inner, true)
		case kind&inner != 0:
			last = from + size
		}
		from += size
	}
	return last
}

// run is where a run ends of at most so many characters that are of some of the kinds, or of none.
func (c *codec) run(text string, from, most int, kinds uint8, some bool) int {
	for ; from < len(text) && most > 0; most-- {
		r, size := utf8.DecodeRuneInString(text[from:])
		if (c.kinds[r]&kinds != 0) != some {
			break
		}
		from += size
	}
	return from
}

// contraction is the length of a contraction that text begins with.
func contraction(text string) int {
	if text == "" || text[0] != '\'' {
		return 0
	}
	for _, short := range []string{"'s", "'ſ", "'t", "'re", "'ve", "'m", "'ll", "'d"} {
		if len(text) >= len(short) && strings.EqualFold(text[:len(short)], short) {
			return len(short)
		}
	}
	return 0
}

// blank ends white space: after its last line breaks, or before its last character, which goes with what follows.
func (c *codec) blank(text string) int {
	end := c.run(text, 0, len(text), space, true)
	if last := strings.LastIndexAny(text[:end], "\r\n"); last >= 0 {
		return last + 1
	}
	if _, size := utf8.DecodeLastRuneInString(text[:end]); end < len(text) && end > size {
		return end - size
	}
	return end
}
