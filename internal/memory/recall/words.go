package recall

import (
	"slices"
	"strings"
	"unicode"

	"github.com/arcoscribe/throughline/internal/memory/lang"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// Word is a word of a question that turns and memories are searched for.
type Word struct {
	// Forms are the word and its irregular forms ("went" for "go"). Any of them counts.
	Forms []string
	// Weak words help to rank turns but pass no gate: they are words of any chat ("thanks", "today"), or numbers.
	Weak bool
	// Function words say nothing by themselves in any text ("what", "the"). They are weak.
	Function bool
}

// mostWords is how many words of a question are looked for. The rest of a pasted page adds nothing but time.
const mostWords = 48

// Words returns the words of a question that say what it is about, each once. Function words of the question's
// language are left out. If there are only those, all are returned as weak words.
func Words(question string) []Word {
	tokens := tokensOf(question)
	language := languageOf(tokens)
	var words, common []Word
	seen := map[string]bool{}
	for _, token := range tokens {
		if seen[token] || len(seen) == mostWords {
			continue
		}
		seen[token] = true
		switch w := (Word{Forms: append([]string{token}, irregularForms(token)...)}); {
		case isFunctionWord(token, language):
			w.Weak, w.Function = true, true
			common = append(common, w)
		default:
			w.Weak = isSmallTalk(token, language) || isNumber(token)
			words = append(words, w)
		}
	}
	if len(words) == 0 {
		return common
	}
	return words
}

// isFunctionWord reports whether a token says nothing by itself. A single letter does not.
func isFunctionWord(token string, l *language) bool {
	first := []rune(token)
	if isSpaceless(first[0]) {
		return spacelessFunction(first)
	}
	return len(first) == 1 && !unicode.IsDigit(first[0]) || l.function[token]
}

func isSmallTalk(token string, l *language) bool {
	return l.smallTalk[token] || spacelessSmallTalk[token]
}

// tokensOf returns the words of a text in lower case, as Postgres would split it. In scripts without spaces each pair of
// neighbouring characters is a word.
func tokensOf(content string) []string {
	const bytesPerToken = 4
	tokens := make([]string, 0, len(content)/bytesPerToken)
	for field := range strings.FieldsSeq(strings.ToLower(content)) {
		if strings.Contains(field, "://") || strings.Contains(field, "@") {
			if token := strings.TrimFunc(field, func(r rune) bool { return !isLetter(r) }); token != "" {
				tokens = append(tokens, token)
			}
			continue
		}
		for part := range strings.FieldsFuncSeq(field, isBetweenWords) {
			part = strings.Trim(part, ".,")
			switch {
			case strings.ContainsFunc(part, isSpaceless):
				tokens = append(tokens, pairs(part)...)
			case strings.Contains(part, ",") && !isNumber(part):
				tokens = append(tokens, strings.FieldsFunc(part, func(r rune) bool { return r == ',' })...)
			case strings.ContainsFunc(part, isLetter):
				tokens = append(tokens, part)
			}
		}
	}
	return tokens
}

func isNumber(part string) bool { return !strings.ContainsFunc(part, unicode.IsLetter) }

// pairs returns each two neighbouring characters of a text without spaces, and what else is between them.
func pairs(part string) []string {
	var out []string
	var run, other []rune
	flush := func() {
		if len(run) == 1 {
			out = append(out, string(run))
		}
		for n := 1; n < len(run); n++ {
			out = append(out, string(run[n-1:n+1]))
		}
		if len(other) > 0 {
			out = append(out, string(other))
		}
		run, other = nil, nil
	}
	for _, r := range part {
		if isSpaceless(r) != (len(run) > 0) {
			flush()
		}
		if isSpaceless(r) {
			run = append(run, r)
		} else {
			other = append(other, r)
		}
	}
	flush()
	return out
}

func isLetter(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

func isBetweenWords(r rune) bool {
	return !isLetter(r) && !unicode.IsMark(r) && r != '.' && r != ','
}

// isSpaceless reports whether r is indexed as a word of its own (throughline.searchable in the migrations).
func isSpaceless(r rune) bool {
	const first = 0x0e00 // Thai; of the scripts before it all have spaces
	return r >= first && (text.Unspaced(r) && isLetter(r) || unicode.Is(unicode.Hangul, r))
}

// rootOf cuts the endings off a word, roughly: enough to find in a text the words that Postgres found by their stems.
func rootOf(token string) string {
	root := token
	for _, ending := range []string{"ings", "ing", "edly", "ied", "ies", "ed", "es", "s", "ly", "e", "y", "i"} {
		if cut, ok := strings.CutSuffix(root, ending); ok && len(cut) >= 3 {
			root = cut
			break
		}
	}
	if n := len(root); n > 3 && root[n-1] == root[n-2] {
		root = root[:n-1]
	}
	return root
}

// irregularForms returns the other forms of an English word, of which token may be one with a regular ending.
func irregularForms(token string) []string {
	for _, ending := range []string{"", "s", "es", "ing"} {
		base, ok := strings.CutSuffix(token, ending)
		for _, candidate := range []string{base, base + "e"} {
			if forms := irregular[candidate]; ok && forms != nil {
				return forms
			}
		}
	}
	return nil
}

// Roots returns the words of a text without their endings, each once.
func Roots(content string) []string {
	var roots []string
	seen := map[string]bool{}
	for _, token := range tokensOf(content) {
		if root := rootOf(token); !seen[root] {
			seen[root] = true
			roots = append(roots, root)
		}
	}
	return roots
}

// TellingRoots are the Roots of the words that say what a text is about: no function words, and none of any chat.
func TellingRoots(content string) []string {
	tokens := tokensOf(content)
	language := languageOf(tokens)
	var roots []string
	for _, token := range tokens {
		root := rootOf(token)
		if !isFunctionWord(token, language) && !isSmallTalk(token, language) && !slices.Contains(roots, root) {
			roots = append(roots, root)
		}
	}
	return roots
}

// The longest names that Names finds, in words and, in scripts without spaces, in characters; and how many it finds.
const (
	nameWords      = 4
	nameCharacters = 8
	mostNames      = 600
)

// Names returns what a question may call somebody or something: its words and up to four that follow one another; in
// scripts without spaces, up to eight characters.
func Names(question string) []string {
	var names []string
	words := strings.FieldsFunc(question, func(r rune) bool { return !isLetter(r) && !unicode.IsMark(r) && !strings.ContainsRune(".+#-'’&", r) })
	for length := 1; length <= nameWords; length++ {
		for at := 0; at+length <= len(words) && len(names) < mostNames; at++ {
			names = append(names, strings.Join(words[at:at+length], " "))
		}
	}
	for _, w := range words {
		run := []rune(w)
		if !strings.ContainsFunc(w, isSpaceless) {
			continue
		}
		for length := 2; length <= nameCharacters; length++ {
			for at := 0; at+length <= len(run) && len(names) < mostNames; at++ {
				names = append(names, string(run[at:at+length]))
			}
		}
	}
	return names
}

type language struct {
	code string // as ISO 639-1 has it
	// function words say nothing by themselves.
	function map[string]bool
	// smallTalk are words of greetings, thanks, agreement and orders to the assistant: of any chat.
	smallTalk map[string]bool
}

// languageOf returns the language of which most tokens are known words; English in doubt.
func languageOf(tokens []string) *language {
	best, _ := mostKnown(tokens)
	return best
}

// mostKnown returns the language of which most tokens are known words, and how many are.
func mostKnown(tokens []string) (best *language, most int) {
	best = &languages[0]
	for n := range languages {
		known := 0
		for _, token := range tokens {
			if languages[n].function[token] || languages[n].smallTalk[token] {
				known++
			}
		}
		if known > most {
			best, most = &languages[n], known
		}
	}
	return best, most
}

// codeOf returns the code of a text's language by its script or its known words, "" where it is not known. A text in plain
// Latin letters without known words counts as English.
func codeOf(content string) string {
	switch script, _ := lang.ScriptOf(content); script {
	case "ja", "zh":
		return "ja"
	case "arabic":
		return "ar"
	case "latin":
	default:
		return ""
	}
	best, known := mostKnown(tokensOf(content))
	isPlain := !strings.ContainsFunc(content, func(r rune) bool { return r > unicode.MaxASCII && unicode.IsLetter(r) })
	if known == 0 && !isPlain {
		return ""
	}
	return best.code
}

func setOf(words []string) map[string]bool {
	set := map[string]bool{}
	for _, w := range words {
		set[w] = true
	}
	return set
}

// languages begin with English. Words are as tokensOf writes them: an apostrophe separates.
var languages = func() []language {
	var all []language
	for code := range strings.FieldsSeq("en de fr es it pt nl pl ru tr") {
		all = append(all, language{code, setOf(lang.Get(code, "function words").Words()), setOf(lang.Get(code, "chat words").Words())})
	}
	return all
}()

// EveryWord returns the words that a section has in any language.
func EveryWord(section string) map[string]bool {
	var words []string
	for _, s := range lang.Each(section) {
		words = append(words, s.Words()...)
	}
	return setOf(words)
}

// Of the pairs of characters of a script without spaces, those say nothing that are all hiragana, hold a particle, or
// are a word of small talk.
var particles = EveryWord("particles")

var spacelessSmallTalk = func() map[string]bool {
	var words []string
	for _, s := range lang.Each("chat words") {
		if !lang.HasSpaces(s.Language) {
			words = append(words, s.Words()...)
		}
	}
	return setOf(words)
}()

func spacelessFunction(pair []rune) bool {
	hiragana := 0
	for _, r := range pair {
		if particles[string(r)] {
			return true
		}
		if r >= 0x3040 && r <= 0x309f {
			hiragana++
		}
	}
	return hiragana == len(pair)
}

// irregular are the other forms of English words whose stems differ.
var irregular = formsOf(lang.Get("en", "irregular").Phrases())

func formsOf(rows []string) map[string][]string {
	forms := map[string][]string{}
	for _, row := range rows {
		words := strings.Fields(row)
		for _, w := range words {
			for _, other := range words {
				if other != w {
					forms[w] = append(forms[w], other)
				}
			}
		}
	}
	return forms
}
