package lang

import (
	"regexp"
	"slices"
	"strings"
)

// Phrases returns the phrases of a section, as they are written.
func (s Section) Phrases() []string {
	var phrases []string
	for _, line := range s.lines {
		phrases = append(phrases, cut(line, ',')...)
	}
	for n := range phrases {
		phrases[n] = strings.TrimSpace(phrases[n])
	}
	return phrases
}

// Folded returns an expression for folded texts that matches any of the phrases of sections; "" where there are none.
func Folded(sections ...Section) string { return anyOf(Fold, sections...) }

// FoldedAs is Folded for texts that FoldAs has folded.
func FoldedAs(s Section) string {
	return anyOf(func(phrase string) string { return FoldAs(s.Language, phrase) }, s)
}

// Plain is Folded for texts that are as they were written, but in lower case.
func Plain(sections ...Section) string {
	return anyOf(func(phrase string) string { return phrase }, sections...)
}

func anyOf(spell func(string) string, sections ...Section) string {
	var all []string
	for _, s := range sections {
		for _, phrase := range s.Phrases() {
			if e := Expression(spell(phrase)); !slices.Contains(all, e) {
				all = append(all, e)
			}
		}
	}
	return strings.Join(all, "|")
}

// Whole returns an expression for whole words of one that matches any of some phrases.
func Whole(alternatives string) string {
	return `(?:^|[^\pL\pM\pN])(?:` + alternatives + `)(?:$|[^\pL\pM\pN])`
}

// HasSpaces reports whether a language puts spaces between its words.
func HasSpaces(language string) bool {
	return !slices.Contains([]string{"zh", "ja", "ko", "th", "km", "lo"}, language)
}

// Expression returns the regular expression of a phrase.
func Expression(phrase string) string {
	p := phraseReader{rest: []rune(phrase)}
	return p.alternatives(0)
}

// phraseReader reads a phrase from left to right.
type phraseReader struct {
	rest []rune
	// opening is what was written of an alternative while all of it may be missing.
	opening string
}

func (p *phraseReader) next() rune {
	r := p.rest[0]
	p.rest = p.rest[1:]
	return r
}

func (p *phraseReader) takes(r rune) bool {
	if len(p.rest) > 0 && p.rest[0] == r {
		p.next()
		return true
	}
	return false
}

// digits reads a number, which may be missing.
func (p *phraseReader) digits() string {
	var digits []rune
	for len(p.rest) > 0 && p.rest[0] >= '0' && p.rest[0] <= '9' {
		digits = append(digits, p.next())
	}
	return string(digits)
}

// upTo reads what stands before a sign, and the sign.
func (p *phraseReader) upTo(end rune) string {
	var read []rune
	for len(p.rest) > 0 {
		r := p.next()
		if r == end {
			break
		}
		read = append(read, r)
	}
	return string(read)
}

// alternatives reads up to the end of a group, or of the phrase.
func (p *phraseReader) alternatives(end rune) string {
	var all []string
	var now strings.Builder
	for len(p.rest) > 0 {
		switch r := p.next(); r {
		case end:
			return strings.Join(append(all, now.String()), "|")
		case '/':
			if end == 0 {
				now.WriteByte('/')
				continue
			}
			all = append(all, now.String())
			now.Reset()
		default:
			p.sign(&now, r)
		}
	}
	return strings.Join(append(all, now.String()), "|")
}

// sign writes what one sign means.
func (p *phraseReader) sign(b *strings.Builder, r rune) {
	switch r {
	case '(':
		b.WriteString(`(?:` + p.alternatives(')') + `)`)
	case '[':
		inner, often := p.alternatives(']'), `?`
		if p.takes('*') {
			often = `*`
		}
		p.missing(b, `(?:`+inner+`)`, often)
	case '{':
		if count := p.digits(); count != "" && p.takes('}') {
			p.missing(b, `\S+`, `{0,`+count+`}`)
		} else { // a name, which the reader of the section replaces
			b.WriteString(`{` + p.upTo('}') + `}`)
		}
	case '*':
		b.WriteString(`[\pL\pM]*`)
	case '_':
		b.WriteString(`\S+`)
	case '#':
		b.WriteString(`\pN+`)
	case '~':
		length := p.digits()
		if length == "" {
			length = "40"
		}
		b.WriteString(`.{0,` + length + `}`)
	case '^', '$':
		b.WriteRune(r)
	case '\\':
		b.WriteString(regexp.QuoteMeta(string(p.next())))
	default:
		b.WriteString(regexp.QuoteMeta(string(r)))
	}
}

// missing writes what may be missing, together with one of the spaces around it: that before it; at the beginning of the phrase
// or of an alternative the one behind it.
func (p *phraseReader) missing(b *strings.Builder, inner, often string) {
	before, hasSpace := strings.CutSuffix(b.String(), " ")
	switch {
	case hasSpace:
		b.Reset()
		b.WriteString(before + `(?: ` + inner + `)` + often)
	case (before == p.opening || before == "" || before == "^") && p.takes(' '):
		b.WriteString(`(?:` + inner + ` )` + often)
		p.opening = b.String()
	default:
		b.WriteString(inner + often)
	}
}

// cut divides a line at a sign that is followed by a space, or ends the line, and stands in no brackets.
func cut(line string, at rune) []string {
	var parts []string
	depth, from := 0, 0
	runes := []rune(line)
	for n := 0; n < len(runes); n++ {
		switch r := runes[n]; {
		case r == '\\':
			n++
		case r == '(' || r == '[':
			depth++
		case r == ')' || r == ']':
			depth--
		case r == at && depth == 0 && (n+1 == len(runes) || runes[n+1] == ' '):
			parts = append(parts, string(runes[from:n]))
			from = n + 1
		}
	}
	if rest := string(runes[from:]); strings.TrimSpace(rest) != "" {
		parts = append(parts, rest)
	}
	return parts
}
