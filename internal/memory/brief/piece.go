package brief

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// Excerpt is a message in a fold's input: all of it, or one part of a message too long for one model call. The parts of
// a message, concatenated, are its whole text.
type Excerpt struct {
	Message memory.Message
	Text    string
	// Part counts from 1 to Parts; both are 1 for a whole message.
	Part, Parts int
}

// PieceTurn is a turn, or the part of a turn, that one model call reads. It is never empty.
type PieceTurn []Excerpt

// Piece is the input of one model call of a fold.
type Piece struct {
	Turns []PieceTurn
	// Tokens is the size of the turns' text.
	Tokens int
}

// WholePiece returns turns as one piece of any size. Blank messages are left out.
func WholePiece(turns []memory.Turn) Piece {
	var p Piece
	for _, t := range turns {
		p.add(excerptsOf(t), t.Tokens())
	}
	return p
}

func (p *Piece) add(turn PieceTurn, tokens int) {
	if len(turn) == 0 {
		return
	}
	p.Turns = append(p.Turns, turn)
	p.Tokens += tokens
}

func (p *Piece) textLen() int {
	size := 0
	for _, turn := range p.Turns {
		for i := range turn {
			size += len(turn[i].Text) + 32
		}
	}
	return size
}

func excerptsOf(t memory.Turn) PieceTurn {
	excerpts := make(PieceTurn, 0, len(t.Messages))
	for _, m := range t.Messages {
		if !m.Blank() {
			excerpts = append(excerpts, Excerpt{Message: m, Text: m.Content, Part: 1, Parts: 1})
		}
	}
	return excerpts
}

// Upper bounds of the tokens that the frame of a fold's input takes: the fences, a turn's header with the blank line
// before it, a speaker label with the note about parts.
const (
	frameTokens  = 48
	headerTokens = 6
	partTokens   = 12
)

// minRoom is the least room of a piece for turns, in tokens, so that a fold makes progress with any limits and never
// needs a call per word.
const minRoom = 64

// pieceRoom returns how many tokens a piece may hold beside a summary of the given size. The summary counts against the
// limit, but leaves at least half of it.
func pieceRoom(limit, summaryTokens int) int {
	return max(limit-frameTokens-summaryTokens, limit/2-frameTokens, minRoom)
}

// cost returns how many tokens of a piece's room a whole turn takes.
func cost(t memory.Turn) int {
	return t.Tokens() + headerTokens + memory.LabelTokens*len(t.Messages)
}

// packer fills pieces with turns, in order.
type packer struct {
	room   int
	pieces []Piece
	used   int // of the last piece
}

// pack divides turns into pieces of at most room tokens. Turns that fit in a piece stay whole; a longer one is split,
// first between its messages, then within them.
func pack(turns []memory.Turn, room int) []Piece {
	p := packer{room: room}
	for _, t := range turns {
		if t.Blank() {
			continue
		}
		t = counted(t)
		if c := cost(t); c <= room {
			p.put(excerptsOf(t), t.Tokens(), c)
		} else {
			p.split(t)
		}
	}
	return p.pieces
}

// counted returns a turn whose messages have at least as many tokens as their texts: the stored counts are estimates, and
// the model has a limit.
func counted(t memory.Turn) memory.Turn {
	t.Messages = slices.Clone(t.Messages)
	for i := range t.Messages {
		m := &t.Messages[i]
		m.Tokens = max(m.Tokens, text.Tokens(m.Content))
	}
	return t
}

// put adds a turn, or a part of one, to the last piece, or to a new one when it does not fit there.
func (p *packer) put(turn PieceTurn, tokens, cost int) {
	if len(p.pieces) == 0 || p.used+cost > p.room {
		p.pieces = append(p.pieces, Piece{})
		p.used = 0
	}
	p.pieces[len(p.pieces)-1].add(turn, tokens)
	p.used += cost
}

// split divides a turn that is longer than a piece among several. Messages of the turn stay together while they fit.
func (p *packer) split(t memory.Turn) {
	var part PieceTurn
	tokens, used := 0, headerTokens
	flush := func() {
		if len(part) > 0 {
			p.put(part, tokens, used)
		}
		part, tokens, used = nil, 0, headerTokens
	}
	for _, e := range excerptsOf(t) {
		for _, sized := range splitMessage(e, p.room-headerTokens) {
			if used+sized.cost > p.room {
				flush()
			}
			part = append(part, sized.Excerpt)
			tokens += sized.tokens
			used += sized.cost
		}
	}
	flush()
}

type sizedExcerpt struct {
	Excerpt
	tokens, cost int
}

// splitMessage returns a message as one excerpt when that costs at most room tokens, else in parts.
func splitMessage(e Excerpt, room int) []sizedExcerpt {
	if c := e.Message.Tokens + memory.LabelTokens; c <= room {
		return []sizedExcerpt{{Excerpt: e, tokens: e.Message.Tokens, cost: c}}
	}
	texts := text.Split(e.Text, room-partTokens)
	parts := make([]sizedExcerpt, len(texts))
	for i, content := range texts {
		n := text.Tokens(content)
		parts[i] = sizedExcerpt{
			Excerpt: Excerpt{Message: e.Message, Text: content, Part: i + 1, Parts: len(texts)},
			tokens:  n,
			cost:    n + partTokens,
		}
	}
	return parts
}

// The frame of a fold's input. It must not change: hosted prompts and inspection tools rely on it.
const (
	summaryFence    = "=== EXISTING_SUMMARY ==="
	endSummaryFence = "=== END_EXISTING_SUMMARY ==="
	turnsFence      = "=== NEW_TURNS ==="
	EndTurnsFence   = "=== END_NEW_TURNS ==="
	noSummary       = "NONE"
)

// FoldInput writes the summarizer's input: the summary so far, or the word NONE, and the turns of one piece, numbered
// from 1. Blank messages are left out. A line of the summary or of a message that looks like a part of this frame (a
// fence, a turn header, a speaker label) is quoted, so that a person's text cannot pass for another's words. All
// other text is word for word.
func FoldInput(existingSummary string, piece Piece) string {
	var b strings.Builder
	b.Grow(len(existingSummary) + piece.textLen() + 256)
	b.WriteString(summaryFence + "\n")
	b.WriteString(quoteSummary(existingSummary))
	b.WriteString("\n" + endSummaryFence + "\n\n" + turnsFence + "\n")
	for i, turn := range piece.Turns {
		if i > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString("Turn " + strconv.Itoa(i+1) + ":")
		for _, e := range turn {
			b.WriteByte('\n')
			writeExcerpt(&b, e)
		}
	}
	b.WriteString("\n" + EndTurnsFence)
	return b.String()
}

func quoteSummary(summary string) string {
	summary = strings.TrimSpace(summary)
	if summary == "" || strings.EqualFold(summary, noSummary) {
		return noSummary
	}
	return text.QuoteLines(summary, looksLikeFoldInput)
}

func writeExcerpt(b *strings.Builder, e Excerpt) {
	b.WriteString(e.Message.Role.Label())
	b.WriteString(": ")
	if e.Parts > 1 {
		fmt.Fprintf(b, "[part %d of %d] ", e.Part, e.Parts)
	}
	b.WriteString(text.QuoteLines(e.Text, looksLikeFoldInput))
}

var fenceWords = regexp.MustCompile(`(^=|==)(end)?(` + text.Folded("existingsummary", "") + `|newturns)`)

// looksLikeFoldInput reports whether a line looks like a part of a fold input's frame.
func looksLikeFoldInput(line string) bool {
	return looksLikeFence(line) || text.LooksLikeLabel(line, false)
}

// looksLikeFence reports whether a line begins like a fence, or holds a whole one further on.
func looksLikeFence(line string) bool {
	if !text.HasEquals(line) || strings.HasPrefix(line, text.QuotePrefix) {
		return false
	}
	return fenceWords.MatchString(text.Folded(text.Skeleton(line, len(line)), "="))
}
