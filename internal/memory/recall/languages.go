package recall

import (
	"strings"
	"unicode"

	"github.com/arcoscribe/throughline/internal/memory/lang"
)

// language is what recall knows of a language.
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

// everyWord returns the words that a section has in any language.
func everyWord(section string) map[string]bool {
	var words []string
	for _, s := range lang.Each(section) {
		words = append(words, s.Words()...)
	}
	return setOf(words)
}

// Of the pairs of characters of a script without spaces, those say nothing that are all hiragana, hold a particle, or
// are a word of small talk.
var particles = everyWord("particles")

// spacelessSmallTalk are such words.
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
