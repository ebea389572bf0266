package recall

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// The most tokens of a section, its most turns, and the most tokens of each. What ordinary messages take fits two dozen times.
const (
	SectionTokens    = 600
	SectionTurns     = 24
	SectionTurnLimit = 120
)

// Section writes turns, which come best first, for a prompt: at most SectionTurns, each of at most SectionTurnLimit
// tokens around what the question is about, as many of the best as fit into budget tokens, in the order in which they were
// said. It returns the text, the turns that are in it, in that order, and the tokens that they take with their line ends.
func Section(turns []Turn, budget int) (written string, shown []Turn, tokens int) {
	lines := map[TurnID]string{}
	for _, t := range turns {
		if len(shown) == SectionTurns {
			break
		}
		line, size := line(t)
		if size > SectionTurnLimit || tokens+size > budget {
			continue
		}
		lines[TurnID{t.ChatID, t.Seq}] = line
		shown = append(shown, t)
		tokens += size
	}
	slices.SortFunc(shown, func(a, b Turn) int { return cmp.Or(a.SaidAt.Compare(b.SaidAt), cmp.Compare(a.Seq, b.Seq)) })
	inOrder := make([]string, 0, len(shown))
	for _, t := range shown {
		inOrder = append(inOrder, lines[TurnID{t.ChatID, t.Seq}])
	}
	return strings.Join(inOrder, "\n"), shown, tokens
}

// line writes a turn as "[2026-03-03] User: … / Assistant: …", and returns its tokens with the line end. One of another chat
// begins with [2026-03-03, chat "Scales"].
func line(t Turn) (written string, tokens int) {
	excerpts := t.excerpts()
	var b strings.Builder
	b.WriteString(t.SaidAt.UTC().Format("[2006-01-02") + t.where() + "] ")
	for n, m := range t.Messages {
		if n > 0 {
			b.WriteString(" / ")
		}
		b.WriteString(memory.Role(m.Role).Label() + ": " + quoted(excerpts[n]))
	}
	return b.String(), text.Tokens(b.String()) + 1
}

// where names the chat of a turn of another one. A title cannot end the brackets around it, nor begin what looks like a message.
func (t *Turn) where() string {
	if !t.Elsewhere {
		return ""
	}
	const longest = 60
	plain := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r) || strings.ContainsRune(" -'’.,!?&+#", r) {
			return r
		}
		return ' '
	}, t.Messages[0].ChatTitle)
	title := []rune(text.OneLine(plain))
	if len(title) == 0 {
		return ", another chat"
	}
	if len(title) > longest {
		title = append(title[:longest], '…')
	}
	return `, chat "` + string(title) + `"`
}

// excerpts returns the excerpt of each message: of the others up to two fifths of the room, of the message that says most of
// the question what they leave, and of the others what that leaves.
func (t *Turn) excerpts() []string {
	best := 0
	for n, m := range t.Messages {
		if m.Score > t.Messages[best].Score {
			best = n
		}
	}
	left := SectionTurnLimit - 20 - text.Tokens(t.where()) // for the date, labels and quotes
	others := left * 2 / (5 * max(len(t.Messages)-1, 1))
	out := make([]string, len(t.Messages))
	show := func(n, limit int) {
		had := text.Tokens(out[n])
		out[n] = t.Messages[n].excerpt(limit)
		left -= text.Tokens(out[n]) - had
	}
	for n := range t.Messages {
		if n != best {
			show(n, others)
			left -= memory.LabelTokens
		}
	}
	show(best, max(left, others))
	for n := range t.Messages {
		if n != best && left > 0 {
			show(n, max(others, text.Tokens(out[n])+left))
		}
	}
	return out
}

// excerpt returns at most limit tokens around Text, with "…" where something is left out.
func (m *Message) excerpt(limit int) string {
	content := strings.TrimSpace(m.Content)
	const mostPerToken = 8 // bytes; an estimate that spares counting long texts
	if len(content) <= limit*mostPerToken && text.Tokens(content) <= limit {
		return content
	}
	at := max(strings.Index(content, m.Text), 0)
	from, to := max(at-limit*mostPerToken, 0), min(at+len(m.Text)+limit*mostPerToken, len(content))
	sentences := text.Sentences(strings.ToValidUTF8(content[from:to], ""))
	within, position := 0, 0
	for n, sentence := range sentences {
		if position <= at-from {
			within = n
		}
		position += len(sentence)
	}
	const ellipses = 4
	part := strings.TrimSpace(around(sentences, within, max(limit-ellipses, 1), text.Tokens))
	if !strings.HasPrefix(content, part) {
		part = "… " + part
	}
	if !strings.HasSuffix(content, strings.TrimPrefix(part, "… ")) {
		part += " …"
	}
	return part
}

// quoted marks the parts of an old text that look like the prompt's own headings, labels and turns. Messages of a turn
// stand in one line, with a slash before each label.
func quoted(content string) string {
	marked := text.QuoteLines(content, prompt.LooksLikeQuote)
	var b strings.Builder
	copied := 0
	for i, r := range marked {
		if after := i + utf8.RuneLen(r); text.LooksLike(r, "/") && text.LooksLikeLabel(marked[after:], false) {
			b.WriteString(marked[copied:after] + " " + text.QuotePrefix)
			copied = after
		}
	}
	return b.String() + marked[copied:]
}
