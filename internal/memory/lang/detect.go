package lang

import (
	"maps"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// known are common words of each language, folded: by them a language is told.
var known = sync.OnceValue(func() map[string]map[string]bool {
	sets := map[string]map[string]bool{}
	for _, name := range []string{"function words", "telling words"} {
		for _, s := range Each(name) {
			if sets[s.Language] == nil {
				sets[s.Language] = map[string]bool{}
			}
			maps.Copy(sets[s.Language], Set(s))
		}
	}
	return sets
})

// Knows reports whether a folded word is a common word of a language.
func Knows(language, word string) bool { return known()[language][word] }

// alphabets are scripts that only one of our languages is written in.
var alphabets = []struct {
	table *unicode.RangeTable
	lang  string
}{
	{unicode.Hangul, "ko"}, {unicode.Thai, "th"}, {unicode.Hebrew, "he"}, {unicode.Greek, "el"}, {unicode.Bengali, "bn"},
	{unicode.Tamil, "ta"}, {unicode.Telugu, "te"}, {unicode.Georgian, "ka"}, {unicode.Armenian, "hy"}, {unicode.Lao, "lo"},
	{unicode.Khmer, "km"}, {unicode.Myanmar, "my"}, {unicode.Gujarati, "gu"}, {unicode.Kannada, "kn"}, {unicode.Malayalam, "ml"},
	{unicode.Gurmukhi, "pa"}, {unicode.Sinhala, "si"}, {unicode.Ethiopic, "am"},
}

// shared are scripts of several languages: by their words these are told apart.
var shared = []struct {
	table *unicode.RangeTable
	name  string
	langs []string
}{
	{unicode.Latin, "latin", []string{"en", "de", "fr", "es", "it", "pt", "nl", "pl", "tr", "sv", "da", "no", "fi", "cs", "hu", "ro", "id", "vi"}},
	{unicode.Cyrillic, "cyrillic", []string{"ru", "uk", "bg"}},
	{unicode.Arabic, "arabic", []string{"ar", "fa", "ur"}},
	{unicode.Devanagari, "devanagari", []string{"hi", "mr"}},
}

// ScriptOf returns the script that most letters of a text belong to, and how many do. A character of a script without
// spaces counts as three letters, and kana make Han letters Japanese.
func ScriptOf(content string) (name string, letters int) {
	count := map[string]int{}
	for _, r := range content {
		if unicode.IsLetter(r) {
			count[scriptOfRune(r)] += lettersOf(r)
		}
	}
	if kana := count["ja"]; kana > 0 && (kana+count["zh"])*2 > count["latin"] {
		return "ja", kana + count["zh"]
	}
	for script, n := range count {
		if n > letters || n == letters && script < name {
			name, letters = script, n
		}
	}
	return name, letters
}

func lettersOf(r rune) int {
	if Spaceless(r) {
		return 3
	}
	return 1
}

func scriptOfRune(r rune) string {
	switch {
	case unicode.Is(unicode.Han, r):
		return "zh"
	case unicode.In(r, unicode.Hiragana, unicode.Katakana):
		return "ja"
	}
	for _, s := range shared {
		if unicode.Is(s.table, r) {
			return s.name
		}
	}
	for _, a := range alphabets {
		if unicode.Is(a.table, r) {
			return a.lang
		}
	}
	return "other"
}

// langsIn returns the languages of a text's script; that alone which the script tells, as told, and none without letters.
func langsIn(content string) (langs []string, told string) {
	script, letters := ScriptOf(content)
	if letters == 0 || script == "other" {
		return nil, ""
	}
	for _, s := range shared {
		if s.name == script {
			return s.langs, ""
		}
	}
	return nil, script
}

// Of returns the language of a text as ISO 639-1 has it, "" where it cannot be told.
func Of(content string) string {
	langs, told := langsIn(content)
	if langs == nil {
		return told
	}
	lang, hits, second := bestOf(vocabularyOf(content), langs)
	if hits < 2 || hits == second {
		return ""
	}
	return lang
}

// Likely returns the language that a text is in most likely: the one with most known words, else the first of its script; "" where
// it has no letters.
func Likely(content string) string {
	langs, told := langsIn(content)
	if langs == nil {
		return told
	}
	best, most := langs[0], 0
	words := vocabularyOf(content)
	for _, l := range langs {
		score := 2 * hitsOf(words, l)
		for word := range words.words {
			if len(word) == 1 && known()[l][word] { // they tell little
				score++
			}
		}
		if score > most {
			best, most = l, score
		}
	}
	return best
}

// vocabulary is what of a text tells its language: its different words, and its letters.
type vocabulary struct {
	words   map[string]bool
	letters string
}

func wordSet(content string) map[string]bool {
	set := map[string]bool{}
	for _, word := range WordsOf(content) {
		set[word] = true
	}
	return set
}

func vocabularyOf(content string) vocabulary {
	return vocabulary{wordSet(content), strings.ToLower(norm.NFC.String(content))}
}

// hitsOf counts the words that are known of a language, and two of its own letters as a word each.
func hitsOf(v vocabulary, lang string) int {
	hits := 0
	for word := range v.words {
		if len(word) > 1 && known()[lang][word] {
			hits++
		}
	}
	own := 0
	for _, letter := range ownLetters()[lang] {
		if own < 2 && strings.ContainsRune(v.letters, letter) {
			own++
		}
	}
	return hits + own
}

// ownLetters are letters that few other languages have.
var ownLetters = sync.OnceValue(func() map[string]string {
	letters := map[string]string{}
	for _, s := range Each("own letters") {
		letters[s.Language] = strings.Join(s.Words(), "")
	}
	return letters
})

func bestOf(words vocabulary, langs []string) (lang string, hits, second int) {
	for _, l := range langs {
		switch n := hitsOf(words, l); {
		case n > hits:
			lang, hits, second = l, n, hits
		case n > second:
			second = n
		}
	}
	return lang, hits, second
}

// Differ reports whether a fact is plainly in another language than the words that it was made of: of another script, or with words
// that are known of one language where those are known of another. In doubt it is not.
func Differ(fact, said string) bool {
	const (
		fewLetters = 6
		plainly    = 2 // words more
	)
	scriptA, lettersA := ScriptOf(fact)
	scriptB, lettersB := ScriptOf(said)
	if lettersA < fewLetters || lettersB < 2 || scriptA == "other" || scriptB == "other" {
		return false
	}
	if scriptA != scriptB {
		return !mixes(said, scriptA)
	}
	langs, _ := langsIn(fact)
	if langs == nil {
		return false
	}
	wordsA, wordsB := vocabularyOf(fact), vocabularyOf(said)
	langA, hitsA, _ := bestOf(wordsA, langs)
	langB, hitsB, _ := bestOf(wordsB, langs)
	if langA == langB || hitsA < 2 || hitsB < 2 {
		return false
	}
	return hitsA-hitsOf(wordsA, langB) >= plainly && hitsB-hitsOf(wordsB, langA) >= plainly
}

// mixes reports whether a good part of a text is in a script: then it may be told in that script, too.
func mixes(content, script string) bool {
	in, all := 0, 0
	for _, r := range content {
		if unicode.IsLetter(r) {
			name, n := scriptOfRune(r), lettersOf(r)
			all += n
			if name == script || script == "ja" && name == "zh" || script == "zh" && name == "ja" {
				in += n
			}
		}
	}
	return in*3 > all
}
