package longterm

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/lang"
)

// parseDate reads YYYY, YYYY-MM or YYYY-MM-DD. An empty text is a zero time.
func parseDate(s string) (time.Time, memory.Precision, bool) {
	s = strings.TrimSpace(s)
	for layout, precision := range map[string]memory.Precision{"2006": memory.Year, "2006-01": memory.Month, time.DateOnly: memory.Day} {
		if at, err := time.Parse(layout, s); err == nil && at.Year() >= 1000 {
			return at, precision, true
		}
	}
	return time.Time{}, "", s == "" || s == "null"
}

// coarser returns the less exact of two precisions; "" is none.
func coarser(a, b memory.Precision) memory.Precision {
	for _, p := range []memory.Precision{memory.Year, memory.Month, memory.Day} {
		if a == p || b == p {
			return p
		}
	}
	return ""
}

// span is a stretch of time that something said can mean, from its first day to its last.
type span struct{ from, to time.Time }

func (s span) meets(from, to time.Time) bool { return !to.Before(s.from) && !from.After(s.to) }

// endOf returns the last day of the day, month or year that begins at from.
func endOf(from time.Time, precision memory.Precision) time.Time {
	switch precision {
	case memory.Year:
		return from.AddDate(1, 0, -1)
	case memory.Month:
		return from.AddDate(0, 1, -1)
	}
	return from
}

// A unit of time, and by how many days something said in it can be off: "last week" is a week ago, more or less.
type unit int

const (
	days unit = iota
	weeks
	months
	years
)

var slack = map[unit]int{days: 2, weeks: 8, months: 45, years: 366}

// near returns the stretch about so many units before or after a day.
func near(day time.Time, n int, u unit) span {
	step := []struct{ years, months, days int }{days: {0, 0, 1}, weeks: {0, 0, 7}, months: {0, 1, 0}, years: {1, 0, 0}}[u]
	at := day.AddDate(n*step.years, n*step.months, n*step.days)
	return span{at.AddDate(0, 0, -slack[u]), at.AddDate(0, 0, slack[u])}
}

// spansOf returns the stretches of time that a message can mean by its words, as seen from the day on which it was said.
// That day itself is always one.
func spansOf(message string, day time.Time) []span {
	found := []span{near(day, 0, days)}
	lower := lang.Fold(message)
	for _, r := range relative {
		if r.pattern().MatchString(lower) {
			for _, n := range r.offsets {
				found = append(found, near(day, n, r.unit))
			}
		}
	}
	undated := lower
	for _, age := range ages {
		undated = age().ReplaceAllString(undated, " ")
	}
	for u, pattern := range counted {
		for _, m := range pattern().FindAllStringSubmatch(undated, -1) {
			if n, ok := countOf(strings.TrimSpace(cmp.Or(m[1], m[2]))); ok && n < 150 {
				found = append(found, near(day, -n, unit(u)), near(day, n, unit(u)))
			}
		}
	}
	if names := monthsIn(lower); len(names) > 0 && !fourDigits().MatchString(lower) {
		for _, month := range names {
			for year := day.Year() - 1; year <= day.Year()+1; year++ {
				from := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
				found = append(found, span{from, endOf(from, memory.Month)})
			}
		}
	}
	return found
}

var (
	fourDigits = express(`(?:^|\D)(1[89]\d\d|20\d\d)(?:\D|$)`)
	// fullDates are dates with a number for each part, largest first.
	fullDates = express(`(?:^|\D)((?:1[89]|20)\d\d)[-/.年](\d{1,2})(?:[-/.月](\d{1,2}))?`)
)

// counted are counts of each unit. In scripts without spaces the count stands before the unit.
var counted = func() (all [4]expression) {
	for u, name := range []string{"unit day", "unit week", "unit month", "unit year"} {
		all[u] = made(func() string {
			spaced, unspaced := bySpaces(name)
			return `(?:^|[^\pL\pN])(\pN+\s?|\pL+\s)(?:` + lang.Folded(spaced...) + `)(?:$|[^\pL])|` +
				`([\pN一二三四五六七八九十两兩한두세네]+) ?(?:` + lang.Folded(unspaced...) + `)`
		})
	}
	return all
}()

// bySpaces divides the languages of a section into those with spaces between words and those without.
func bySpaces(section string) (spaced, unspaced []lang.Section) {
	for _, s := range lang.Each(section) {
		if lang.HasSpaces(s.Language) {
			spaced = append(spaced, s)
		} else {
			unspaced = append(unspaced, s)
		}
	}
	return spaced, unspaced
}

// ages are counts of years from which no model shall compute a year of birth.
var ages = spoken("ages")

// countOf reads a number in digits or as a word.
func countOf(s string) (int, bool) {
	if n, err := strconv.Atoi(digitsOf(s)); err == nil {
		return n, true
	}
	n, ok := numberWords[s]
	return n, ok
}

// relativeTime are words for a time that only the day on which they are said makes clear, and how many units from there
// it may be. They are written folded.
type relativeTime struct {
	// lang is the language of words that mean something else in another one, "" where none are.
	lang    string
	pattern expression
	unit    unit
	offsets []int
}

// relative are the sections of near times.
var relative = func() []relativeTime {
	var all []relativeTime
	for _, kind := range []struct {
		name    string
		unit    unit
		offsets []int
	}{
		{"near days", days, []int{-2, -1, 0, 1, 2}},
		{"weekdays", days, []int{-7, -4, -1, 0, 1, 4, 7}},
		{"near weeks", weeks, []int{-1, 0, 1}},
		{"near months", months, []int{-1, 0, 1}},
		{"near years", years, []int{-2, -1, 0, 1}},
	} {
		for _, s := range lang.Each(kind.name) {
			all = append(all, relativeTime{"", phrasesOf(s), kind.unit, kind.offsets})
		}
		if kind.unit == days {
			for _, s := range lang.Each(kind.name + ", own language") {
				all = append(all, relativeTime{s.Language, phrasesOf(s), kind.unit, kind.offsets})
			}
		}
	}
	return all
}()

// ago are counts of units before or after now, in which the words around the count make it relative: "three days ago".
var ago = spoken("relative counts")

// relativeDate reports whether a fact names a time that only the day on which it was said makes clear. What is written
// with a capital within a sentence, or in quotes, is a title: "Yesterday", "USA Today".
func relativeDate(fact string) bool {
	plain, language := lang.Fold(withoutTitles(fact)), lang.Of(fact)
	for _, r := range relative {
		other := r.lang != "" && language != "" && r.lang != language
		if !other && r.pattern().MatchString(plain) && !anyMatches(general, plain) {
			return true
		}
	}
	return anyMatches(ago, plain)
}

// general is how a text speaks of days as such: "the last week of every month".
var general = spoken("general times")

var inQuotes = express(`"[^"\n]{1,80}"|“[^”\n]{1,80}”|„[^“”\n]{1,80}[“”]|«[^»\n]{1,80}»|『[^』\n]{1,80}』|「[^」\n]{1,80}」`)

// withoutTitles returns a fact without what stands in quotes, and without words within a sentence that have a capital: all
// but the days of the week. In German every noun has one.
func withoutTitles(fact string) string {
	fact = inQuotes().ReplaceAllString(fact, "·")
	if lang.Of(fact) == "de" {
		return fact
	}
	var b strings.Builder
	copied := 0
	for _, at := range nameWord().FindAllStringIndex(fact, -1) {
		word := fact[at[0]:at[1]]
		first, _ := utf8.DecodeRuneInString(word)
		if unicode.IsUpper(first) && !startsSentence(fact[:at[0]]) && !dayName().MatchString(lang.Fold(word)) {
			b.WriteString(fact[copied:at[0]] + "·")
			copied = at[1]
		}
	}
	return b.String() + fact[copied:]
}

var dayName = express(`^(?:monday|tuesday|wednesday|thursday|friday|saturday|sunday)$`)

// monthNames are the folded beginnings of the names of months.
var monthNames = func() map[string]time.Month {
	table := map[string]time.Month{}
	for _, section := range lang.Each("months") {
		for n, row := range section.Rows() {
			for _, name := range row {
				table[lang.Fold(name)] = time.Month(n + 1)
			}
		}
	}
	return table
}()

var eastAsianMonth = express(`(\d{1,2})(?:月|월)`)

// monthsIn returns the months that a folded text names, in any form of the word.
func monthsIn(folded string) []time.Month {
	var months []time.Month
	for _, word := range lang.WordsOf(folded) {
		month, ok := monthNames[word]
		if !ok && len([]rune(word)) > 5 {
			for name, m := range monthNames {
				if len([]rune(name)) > 4 && strings.HasPrefix(word, name) {
					month, ok = m, true
				}
			}
		}
		if ok {
			months = append(months, month)
		}
	}
	for _, m := range eastAsianMonth().FindAllStringSubmatch(folded, -1) {
		if n, _ := strconv.Atoi(m[1]); n >= 1 && n <= 12 {
			months = append(months, time.Month(n))
		}
	}
	slices.Sort(months)
	return slices.Compact(months)
}
