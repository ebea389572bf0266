package recall

import (
	"slices"
	"strings"
	"unicode"

	"github.com/arcoscribe/throughline/internal/memory/text"
)

// word is a word of a question that turns are searched for.
type word struct {
	// forms are the word and its irregular forms ("went" for "go"). Any of them counts.
	forms []string
	// weak words help to rank turns but pass no gate: they are words of any chat ("thanks", "today"), or numbers.
	weak bool
	// function words say nothing by themselves in any text ("what", "the"). They are weak.
	function bool
}

// mostWords is how many words of a question are looked for. The rest of a pasted page adds nothing but time.
const mostWords = 48

// wordsOf returns the words of a question that say what it is about, each once. Function words of the question's
// language are left out. If there are only those, all are returned as weak words.
func wordsOf(question string) []word {
	tokens := tokensOf(question)
	language := languageOf(tokens)
	var words, common []word
	seen := map[string]bool{}
	for _, token := range tokens {
		if seen[token] || len(seen) == mostWords {
			continue
		}
		seen[token] = true
		switch w := (word{forms: append([]string{token}, irregularForms(token)...)}); {
		case isFunctionWord(token, language):
			w.weak, w.function = true, true
			common = append(common, w)
		default:
			w.weak = isSmallTalk(token, language) || isNumber(token)
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
			if token := strings.TrimFunc(field, isNoLetter); token != "" {
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
				tokens = append(tokens, strings.FieldsFunc(part, isComma)...)
			case strings.ContainsFunc(part, isLetter):
				tokens = append(tokens, part)
			}
		}
	}
	return tokens
}

func isComma(r rune) bool { return r == ',' }

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

func isNoLetter(r rune) bool { return !isLetter(r) }

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

// Word is a word of a question for others that search by words.
type Word struct {
	// Forms are the word and its irregular forms, of which any counts.
	Forms []string
	// Weak words say nothing by themselves in a conversation: small talk, numbers, and function words ("what", "the").
	Weak, Function bool
}

// Words returns the words of a question that are no function words, each once; if there are none, its function words.
func Words(question string) []Word {
	words := wordsOf(question)
	out := make([]Word, len(words))
	for n, w := range words {
		out[n] = Word{Forms: w.forms, Weak: w.weak, Function: w.function}
	}
	return out
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
