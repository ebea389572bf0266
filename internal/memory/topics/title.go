package topics

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

const (
	// leastTitle and mostTitle are how many words a title has. In scripts without spaces two characters are a word.
	leastTitle, mostTitle = 3, 6
	// Untitled stands for a title where no message says anything, or none was made yet.
	Untitled = "…"
	// titleReads is how many bytes of a message a title is made of.
	titleReads = 600
)

// Title makes a title of a message: its first noun phrase, as far as form alone tells what that is, such as "Bow of my cello",
// or the first ones if they are short. It is never the beginning of a sentence that breaks off: a message without a phrase is
// its own title, or none if it is long.
func Title(message string) string {
	phrases := phrasesOf(strings.ToValidUTF8(message[:min(len(message), titleReads)], " "))
	if len(phrases) > 1 && phrases[0].words == 1 && !phrases[0].led && phrases[1].words > 1 {
		phrases = phrases[1:] // a verb, or a greeting
	}
	var title phrase
	for _, p := range phrases {
		if title.words >= leastTitle {
			break
		}
		title = title.and(p.cut(mostTitle - title.words))
	}
	if whole := text.OneLine(message); title.words == 0 && len(strings.Fields(whole)) <= mostTitle && utf8.RuneCountInString(whole) <= TitleLength {
		title.text = strings.TrimRight(whole, ".,:;!?")
	}
	written := []rune(strings.Map(func(c rune) rune {
		if unicode.IsControl(c) || c == utf8.RuneError {
			return -1
		}
		return c
	}, title.text))
	if !strings.ContainsFunc(title.text, isLetterOrDigit) {
		return Untitled
	}
	written[0] = unicode.ToUpper(written[0])
	return string(written[:min(len(written), TitleLength)])
}

// phrase is a run of words that say something, and of links between them.
type phrase struct {
	text  string
	words int
	led   bool // an article or the like stands before it, so that it begins with a noun
}

// cut returns the beginning of a phrase that has no more than so many words, and does not end with a link.
func (p phrase) cut(most int) phrase {
	words := strings.Fields(p.text)
	if p.words <= most || len(words) < p.words {
		return p
	}
	for words = words[:most]; links[strings.ToLower(words[len(words)-1])]; {
		words = words[:len(words)-1]
	}
	return phrase{text: strings.Join(words, " "), words: len(words)}
}

func (p phrase) and(next phrase) phrase {
	if p.words == 0 {
		return next
	}
	return phrase{text: p.text + joint(p.text) + next.text, words: p.words + next.words}
}

// links are the function words that may stand within a phrase.
var links = recall.EveryWord("title links")

// phrasesOf returns the phrases of a text, of at most mostTitle words each.
func phrasesOf(content string) []phrase {
	r := reader{telling: map[string]bool{}, weak: map[string]bool{}}
	for _, word := range recall.Words(content) {
		isNumber := strings.ContainsFunc(word.Forms[0], unicode.IsDigit)
		r.telling[word.Forms[0]] = !word.Weak || isNumber
		r.weak[word.Forms[0]] = word.Weak && !word.Function
	}
	for field := range strings.FieldsSeq(content) {
		r.field(field)
	}
	r.end()
	return r.phrases
}

// reader reads phrases, field by field.
type reader struct {
	telling map[string]bool
	weak    map[string]bool // words of any chat ("new"), which may stand within a phrase as well
	phrases []phrase
	current phrase
	linked  string // words that wait for a telling one, so that a phrase does not end with it
	led     bool   // the word before is a link
}

func (r *reader) field(field string) {
	word := strings.TrimFunc(field, isMark)
	if word == "" || !strings.HasPrefix(field, word) {
		r.end()
	}
	isLink := links[strings.ToLower(word)]
	switch {
	case strings.ContainsFunc(word, isSpaceless):
		r.spaceless(word)
	case r.tells(word):
		r.add(word, 1)
	case r.current.words > 0 && (isLink || r.weak[strings.ToLower(word)]):
		r.linked += " " + word
	default:
		r.end()
	}
	r.led = isLink
	if !strings.HasSuffix(field, word) {
		r.end()
	}
}

// tells reports whether a word, or a part of it ("l'archet"), says something.
func (r *reader) tells(word string) bool {
	for part := range strings.FieldsFuncSeq(strings.ToLower(word), isMark) {
		if r.telling[part] {
			return true
		}
	}
	return false
}

// add adds a telling word. What would make the phrase too long begins the next one.
func (r *reader) add(word string, words int) {
	if links := len(strings.Fields(r.linked)); links > 2 || r.current.words+links+words > mostTitle {
		r.end()
	}
	if r.current.words == 0 {
		r.current.led = r.led
	} else {
		r.current.text += r.linked + " "
		r.current.words += len(strings.Fields(r.linked))
	}
	r.current.text += word
	r.current.words += words
	r.linked = ""
}

// spaceless adds the parts of a word without spaces of which each two neighbouring characters say something.
func (r *reader) spaceless(word string) {
	characters := []rune(word)
	isTelling := func(n int) bool {
		return n >= 0 && n+1 < len(characters) && r.telling[strings.ToLower(string(characters[n:n+2]))]
	}
	run := []rune{}
	for n, c := range characters {
		if (isTelling(n) || isTelling(n-1)) && len(run) < 2*mostTitle {
			run = append(run, c)
			continue
		}
		r.endRun(run)
		run = nil
	}
	r.endRun(run)
}

func (r *reader) endRun(run []rune) {
	r.end()
	if len(run) > 1 {
		r.phrases = append(r.phrases, phrase{text: string(run), words: (len(run) + 1) / 2})
	}
}

// end ends a phrase. A number alone is none.
func (r *reader) end() {
	if strings.ContainsFunc(r.current.text, unicode.IsLetter) {
		r.phrases = append(r.phrases, r.current)
	}
	r.current, r.linked = phrase{}, ""
}

func isLetterOrDigit(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) }

func isMark(c rune) bool { return !isLetterOrDigit(c) && !unicode.IsMark(c) }

// isSpaceless reports whether recall has each two neighbouring characters as a word.
func isSpaceless(c rune) bool {
	return unicode.IsLetter(c) && (text.Unspaced(c) || unicode.Is(unicode.Hangul, c))
}

// joint returns the separator of two phrases, by the end of the first.
func joint(phrase string) string {
	switch last, _ := utf8.DecodeLastRuneInString(phrase); {
	case unicode.Is(unicode.Hangul, last):
		return " "
	case isSpaceless(last):
		return "、"
	}
	return ", "
}
