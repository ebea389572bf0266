package longterm

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/lang"
)

// numberWords are numbers that are written as words, folded.
var numberWords = func() map[string]int {
	table := map[string]int{}
	for _, section := range lang.Each("numbers") {
		for _, row := range section.Rows() {
			number, _ := strconv.Atoi(row[0])
			for _, word := range row[1:] {
				table[lang.Fold(word)] = number
			}
		}
	}
	return table
}()

// digitsOf returns a number's digits as ASCII, of any script.
func digitsOf(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsDigit(r) || r < unicode.MaxASCII {
			return r
		}
		zero := r
		for unicode.IsDigit(zero-1) && r-zero < 9 {
			zero--
		}
		return '0' + r - zero
	}, s)
}

var (
	numeral   = express(`\d+(?:[.,' ]\d{3})+(?:[^\d]|$)|\d+`)
	separator = express(`[^\d]`)
)

// numbersIn returns the numbers of a text, without separators between thousands and without leading zeros.
func numbersIn(content string) []string {
	var found []string
	for _, match := range numeral().FindAllString(digitsOf(content), -1) {
		number := strings.TrimLeft(separator().ReplaceAllString(match, ""), "0")
		if number == "" {
			number = "0"
		}
		found = append(found, number)
	}
	return found
}

// spelled returns the numbers of a text that are written as words. Those in tens and ones, such as "twenty-three", are
// both found.
func spelled(content string) []string {
	var found []string
	for _, word := range lang.Terms(content) {
		if n, ok := numberWords[word]; ok {
			found = append(found, strconv.Itoa(n))
		}
	}
	words := lang.WordsOf(content)
	for n := 1; n < len(words); n++ {
		tens, ones := numberWords[words[n-1]], numberWords[words[n]]
		if tens >= 20 && tens < 100 && ones > 0 && ones < 10 {
			found = append(found, strconv.Itoa(tens+ones))
		}
	}
	return found
}

// allNumbersIn returns the numbers of a text, in digits and as words.
func allNumbersIn(content string) []string { return append(numbersIn(content), spelled(content)...) }

// heard is what a message holds that facts are made of.
type heard struct {
	words   []string
	joined  string // all words with spaces, for names in scripts without
	numbers []string
	months  []time.Month
	// spans are the times that it can mean. To look for them costs more than all else, and few facts have a date.
	spans func() []span
}

func hear(in Input, m memory.Message) *heard {
	h := &heard{
		words: lang.WordsOf(m.Content), numbers: allNumbersIn(m.Content), months: monthsIn(lang.Fold(m.Content)),
		spans: sync.OnceValue(func() []span { return spansOf(m.Content, dayIn(in, m)) }),
	}
	h.joined = strings.Join(h.words, " ")
	slices.Sort(h.words)
	h.words = slices.Compact(h.words)
	return h
}

// said is what a fact may take its names, numbers and dates from: its evidence, and the messages before it.
type said []*heard

func (s said) holdsNumber(n string) bool {
	return slices.ContainsFunc(s, func(h *heard) bool { return slices.Contains(h.numbers, n) })
}

// holdsName reports whether each word of a name was said, in any case and form.
func (s said) holdsName(name, language string) bool {
	return !slices.ContainsFunc(lang.WordsOf(name), func(part string) bool { return !s.holdsWord(part, language) })
}

func (s said) holdsWord(part, language string) bool {
	if len([]rune(part)) < 2 || numberWords[part] > 0 || userWords[part] || lang.Knows(language, part) {
		return true
	}
	spaceless := strings.ContainsFunc(part, lang.Spaceless)
	return slices.ContainsFunc(s, func(h *heard) bool {
		if spaceless {
			return strings.Contains(h.joined, part)
		}
		return slices.ContainsFunc(h.words, func(word string) bool { return sameName(part, word, language) })
	})
}

// inflecting languages change the ends of names.
var inflecting = strings.Fields("pl ru uk bg tr cs fi hu ro")

// sameName reports whether two folded words can be one name: equal, or with the ending of a genitive or plural; in
// languages that inflect names, with any short ending. A part of a compound counts as well.
func sameName(name, word, language string) bool {
	if name == word || demonyms[name] != "" && strings.HasPrefix(word, demonyms[name]) {
		return true
	}
	shorter, longer := name, word
	if len(shorter) > len(longer) {
		shorter, longer = longer, shorter
	}
	if slices.Contains(inflecting, language) {
		return sameStem(name, word)
	}
	const ofCompound = 5 // bytes: shorter ones are in too many words
	if len(shorter) >= ofCompound && strings.Contains(longer, shorter) {
		return true
	}
	ending, ok := strings.CutPrefix(longer, shorter)
	return ok && len(shorter) >= 2 && endings[ending]
}

var endings = wordSet("endings of names")

// demonyms are adjectives that do not begin like the country they are made of.
var demonyms = func() map[string]string {
	table := map[string]string{}
	for _, row := range lang.Get("en", "demonyms").Rows() {
		table[row[0]] = row[1]
	}
	return table
}()

// namesIn returns the words of a fact that are written as names are. In German, where all nouns have a capital, only what
// stands where names stand.
func namesIn(fact, language string) []string {
	var names []string
	words := nameWord().FindAllStringIndex(fact, -1)
	for n, at := range words {
		word := fact[at[0]:at[1]]
		first := []rune(word)[0]
		switch {
		case strings.ContainsFunc(word, unicode.IsDigit):
			continue // its number is looked at
		case !unicode.IsUpper(first):
			continue
		case isGenericWord(lang.Fold(word)):
			continue
		case n == 0 || startsSentence(fact[:at[0]]):
			if !afterName().MatchString(fact[at[1]:]) || lang.Knows(language, lang.Fold(word)) || lang.Knows("en", lang.Fold(word)) {
				continue
			}
		case language == "de" && !isGermanName(fact[:at[0]], word):
			continue
		}
		names = append(names, word)
	}
	for _, run := range katakana().FindAllString(fact, -1) {
		if !isGenericWord(lang.Fold(run)) {
			names = append(names, run)
		}
	}
	return names
}

var (
	katakana     = express(`[\p{Katakana}ー]{3,}`)
	nameWord     = express(`[\pL\pM\pN]+(?:['’.-][\pL\pM\pN]+)*`)
	sentenceStop = express(`[.!?:;。！？]["'”’)]*\s+["'“‘(]*$`)
	// afterName are the words that follow a name at the beginning of a sentence.
	afterName    = made(func() string { return `^(?:['’]s)? (?:` + words("behind names", asWritten) + `)(?:$|[^\pL])` })
	germanBefore = made(func() string { return `(?:^|[^\pL])(?:` + words("before names", asWritten) + `) $` })
	germanNoun   = made(func() string { return `(?:` + words("endings of nouns", asWritten) + `)$` })
)

func startsSentence(before string) bool {
	return strings.TrimSpace(before) == "" || sentenceStop().MatchString(before)
}

func isGermanName(before, word string) bool {
	return germanBefore().MatchString(before) && !germanNoun().MatchString(strings.ToLower(word))
}

// isGenericWord reports whether a word with a capital is no name: the user, a day, a month, an abbreviation of time.
func isGenericWord(word string) bool {
	return userWords[word] || generic[word] || len(monthsIn(word)) > 0
}

var generic = wordSet("no names")

// invented reports whether a fact holds a name or a number that was not said. A date that the day of a message explains
// was said.
func (s said) invented(fact, language string) bool {
	if slices.ContainsFunc(namesIn(fact, language), func(name string) bool { return !s.holdsName(name, language) }) {
		return true
	}
	rest := s.withoutDates(fact)
	missing := func(n string) bool { return !s.holdsNumber(n) }
	if slices.ContainsFunc(numbersIn(rest), missing) {
		return true
	}
	return slices.Contains(numberLanguages, language) && slices.ContainsFunc(spelled(rest), func(n string) bool { return n != "1" && missing(n) })
}

// numberLanguages are the languages in which a number as a word is as good as one in digits.
var numberLanguages = strings.Fields("en de fr es it pt nl")

// withoutDates returns a fact without the dates that were said or that follow from the messages.
func (s said) withoutDates(fact string) string {
	fact = fullDates().ReplaceAllStringFunc(digitsOf(fact), func(match string) string {
		m := fullDates().FindStringSubmatch(match)
		if from, precision, ok := dateOf(m[1], m[2], m[3]); ok && s.meets(from, precision) {
			return " "
		}
		return match
	})
	named := monthsIn(lang.Fold(fact))
	return numeral().ReplaceAllStringFunc(fact, func(match string) string {
		n, err := strconv.Atoi(strings.TrimSpace(match))
		switch {
		case err != nil:
		case n >= 1900 && n <= 2100 && s.meetsYear(n, named):
			return " "
		case n >= 1 && n <= 31 && s.meetsDay(n, named):
			return " "
		}
		return match
	})
}

func dateOf(year, month, day string) (time.Time, memory.Precision, bool) {
	y, _ := strconv.Atoi(year)
	m, _ := strconv.Atoi(month)
	d, err := strconv.Atoi(day)
	precision := memory.Day
	if err != nil {
		d, precision = 1, memory.Month
	}
	from := time.Date(y, time.Month(m), d, 0, 0, 0, 0, time.UTC)
	return from, precision, from.Month() == time.Month(m) && from.Day() == d
}

// meetsYear reports whether a year follows from the messages, in one of the months that stand beside it if any do.
func (s said) meetsYear(year int, named []time.Month) bool {
	if len(named) == 0 {
		return s.meets(time.Date(year, time.January, 1, 0, 0, 0, 0, time.UTC), memory.Year)
	}
	return slices.ContainsFunc(named, func(month time.Month) bool {
		return s.meets(time.Date(year, month, 1, 0, 0, 0, 0, time.UTC), memory.Month)
	})
}

func (s said) meetsDay(day int, named []time.Month) bool {
	return slices.ContainsFunc(named, func(month time.Month) bool {
		return slices.ContainsFunc(s, func(h *heard) bool { return h.meetsDay(month, day) })
	})
}

func (h *heard) meetsDay(month time.Month, day int) bool {
	for _, span := range h.spans() {
		from := time.Date(span.from.Year(), month, day, 0, 0, 0, 0, time.UTC)
		for _, at := range []time.Time{from, from.AddDate(1, 0, 0)} {
			if at.Day() == day && span.meets(at, at) {
				return true
			}
		}
	}
	return false
}

// meets reports whether a date follows from the messages and their days.
func (s said) meets(from time.Time, precision memory.Precision) bool {
	year, month, day := s.holdsNumber(strconv.Itoa(from.Year())), s.saysMonth(from.Month()), s.holdsNumber(strconv.Itoa(from.Day()))
	if year && (precision == memory.Year || month && (precision == memory.Month || day)) {
		return true
	}
	to := endOf(from, precision)
	return slices.ContainsFunc(s, func(h *heard) bool {
		return slices.ContainsFunc(h.spans(), func(at span) bool { return at.meets(from, to) })
	})
}

func (s said) saysMonth(m time.Month) bool {
	return s.holdsNumber(strconv.Itoa(int(m))) || slices.ContainsFunc(s, func(h *heard) bool { return slices.Contains(h.months, m) })
}
