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
	var plain, latin, kana, arabic, other int
	for _, r := range content {
		switch {
		case r < unicode.MaxASCII && unicode.IsLetter(r):
			plain++
		case unicode.Is(unicode.Latin, r):
			latin++
		case unicode.In(r, unicode.Hiragana, unicode.Katakana, unicode.Han):
			kana++
		case unicode.Is(unicode.Arabic, r):
			arabic++
		case unicode.IsLetter(r):
			other++
		}
	}
	switch max(plain+latin, kana, arabic, other) {
	case other:
		return ""
	case kana:
		return "ja"
	case arabic:
		return "ar"
	}
	best, known := mostKnown(tokensOf(content))
	if known == 0 && latin > 0 {
		return ""
	}
	return best.code
}

func setOf(words string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		set[w] = true
	}
	return set
}

// languages begin with English. Words are as tokensOf writes them: an apostrophe separates.
var languages = func() []language {
	var all []language
	for code := range strings.FieldsSeq("en de fr es it pt nl pl ru tr") {
		all = append(all, language{code, wordSet(code + " function"), wordSet(code + " small talk")})
	}
	return all
}()

// wordSet returns the words of a section of lang/data/recall_words.txt.
func wordSet(section string) map[string]bool {
	return setOf(strings.Join(lang.Words("recall_words", section), " "))
}

// Of the pairs of characters of a script without spaces, those say nothing that are all hiragana, hold a particle, or
// are a word of small talk.
const particles = `的了是我你您他她它们吗呢吧啊呀在有和就都很也不没会能要想把被给对跟到着过地得这那哪` +
	`什么怎为谁几多少个请の은는이가을를에의도와과요はがをにへ`

var spacelessSmallTalk = wordSet("small talk without spaces")

func spacelessFunction(pair []rune) bool {
	hiragana := 0
	for _, r := range pair {
		if strings.ContainsRune(particles, r) {
			return true
		}
		if r >= 0x3040 && r <= 0x309f {
			hiragana++
		}
	}
	return hiragana == len(pair)
}

// irregular are the other forms of English words whose stems differ.
var irregular = formsOf(strings.Join(lang.Words("recall_words", "irregular"), " "))

func formsOf(table string) map[string][]string {
	forms := map[string][]string{}
	for row := range strings.SplitSeq(table, ",") {
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
