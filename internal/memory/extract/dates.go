package extract

import (
	"cmp"
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
	var at time.Time
	switch u {
	case days:
		at = day.AddDate(0, 0, n)
	case weeks:
		at = day.AddDate(0, 0, 7*n)
	case months:
		at = day.AddDate(0, n, 0)
	default:
		at = day.AddDate(n, 0, 0)
	}
	return span{at.AddDate(0, 0, -slack[u]), at.AddDate(0, 0, slack[u])}
}

// spansOf returns the stretches of time that a message can mean by its words, as seen from the day on which it was said.
// That day itself is always one.
func spansOf(message string, day time.Time) []span {
	found := []span{near(day, 0, days)}
	lower := fold(message)
	for _, r := range relative {
		if r.pattern().MatchString(lower) {
			for _, n := range r.offsets {
				found = append(found, near(day, n, r.unit))
			}
		}
	}
	for _, m := range counted().FindAllStringSubmatch(ages().ReplaceAllString(lower, " "), -1) {
		count, word := cmp.Or(m[1], m[3]), cmp.Or(m[2], m[4])
		if n, ok := countOf(strings.TrimSpace(count)); ok && n < 150 {
			u := unitOf(word)
			found = append(found, near(day, -n, u), near(day, n, u))
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
	counted   = express(`(?:^|[^\pL\pN])(\pN+\s?|\pL+\s)(` + unitWords + `)(?:$|[^\pL])|` +
		`([\pN一二三四五六七八九十两兩한두세네]+) ?(` + eastAsianUnits + `)`)
)

var unitWords = lang.Pattern("dates", "unitWords")

// ages are counts of years from which nobody shall compute a year of birth.
var ages = expressOf("dates", "ages")

const eastAsianUnits = `天|日|周|週間|週|个星期|星期|个月|個月|か月|ヶ月|月|年|일|주|달|개월|년`

func unitOf(word string) unit {
	for u, beginnings := range map[unit]string{
		weeks:  `week woch semain semana settiman weken tyg hafta недел 周 週 星期 주 اسب أسب هفت हफ सप्`,
		months: `month monat mois mes maand mies ay месяц 个 個 か ヶ 月 달 개월 شهر اشهر أشهر महीने`,
		years:  `year jahr an ja lat rok yil год лет 年 년 سن साल`,
	} {
		for beginning := range strings.FieldsSeq(beginnings) {
			if strings.HasPrefix(word, beginning) {
				return u
			}
		}
	}
	return days
}

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

const dayNames = `monday|tuesday|wednesday|thursday|friday|saturday|sunday`

// relative are the sections of lang/data/relative_dates.txt. Their names are the four fields.
var relative = func() []relativeTime {
	units := map[string]unit{"days": days, "weeks": weeks, "months": months, "years": years}
	var all []relativeTime
	for _, section := range lang.Sections("relative_dates") {
		fields := strings.Fields(section.Name)
		r := relativeTime{unit: units[fields[2]]}
		if fields[0] != "any" {
			r.lang = fields[0]
		}
		for _, field := range fields[3:] {
			offset, _ := strconv.Atoi(field)
			r.offsets = append(r.offsets, offset)
		}
		compile := anywhere
		if fields[1] == "words" {
			compile = phrases
		}
		for _, pattern := range section.Patterns() {
			r.pattern = compile(pattern)
			all = append(all, r)
		}
	}
	return all
}()

// ago are counts of units before or after now, in which the words around the count make it relative: "three days ago".
var ago = append(phrasesOf("dates", "ago"), anywhereOf("dates", "ago without spaces")...)

// relativeDate reports whether a fact names a time that only the day on which it was said makes clear. What is written
// with a capital within a sentence, or in quotes, is a title: "Yesterday", "USA Today".
func relativeDate(fact string) bool {
	plain, lang := fold(withoutTitles(fact)), languageOf(fact)
	for _, r := range relative {
		other := r.lang != "" && lang != "" && r.lang != lang
		if !other && r.pattern().MatchString(plain) && !isGeneral(plain) {
			return true
		}
	}
	return anyMatches(ago, plain)
}

// isGeneral reports whether a text speaks of days as such: "the last week of every month".
var general = phrases(lang.Pattern("dates", "general"))

func isGeneral(plain string) bool { return general().MatchString(plain) }

var inQuotes = express(`"[^"\n]{1,80}"|“[^”\n]{1,80}”|„[^“”\n]{1,80}[“”]|«[^»\n]{1,80}»|『[^』\n]{1,80}』|「[^」\n]{1,80}」`)

// withoutTitles returns a fact without what stands in quotes, and without words within a sentence that have a capital: all
// but the days of the week. In German every noun has one.
func withoutTitles(fact string) string {
	fact = inQuotes().ReplaceAllString(fact, "·")
	if languageOf(fact) == "de" {
		return fact
	}
	var b strings.Builder
	copied := 0
	for _, at := range nameWord().FindAllStringIndex(fact, -1) {
		word := fact[at[0]:at[1]]
		first, _ := utf8.DecodeRuneInString(word)
		if unicode.IsUpper(first) && !startsSentence(fact[:at[0]]) && !dayName().MatchString(fold(word)) {
			b.WriteString(fact[copied:at[0]] + "·")
			copied = at[1]
		}
	}
	return b.String() + fact[copied:]
}

var dayName = express(`^(?:` + dayNames + `)$`)

// monthNames are the folded beginnings of the names of months.
var monthNames = numbersOf("months")

var eastAsianMonth = express(`(\d{1,2})(?:月|월)`)

// monthsIn returns the months that a folded text names, in whatever form of the word.
func monthsIn(folded string) []time.Month {
	seen := map[time.Month]bool{}
	for _, word := range wordsOf(folded) {
		month, ok := monthNames[word]
		if !ok && len([]rune(word)) > 5 {
			for name, m := range monthNames {
				if len([]rune(name)) > 4 && strings.HasPrefix(word, name) {
					month, ok = m, true
				}
			}
		}
		if ok {
			seen[time.Month(month)] = true
		}
	}
	for _, m := range eastAsianMonth().FindAllStringSubmatch(folded, -1) {
		if n, _ := strconv.Atoi(m[1]); n >= 1 && n <= 12 {
			seen[time.Month(n)] = true
		}
	}
	var months []time.Month
	for m := time.January; m <= time.December; m++ {
		if seen[m] {
			months = append(months, m)
		}
	}
	return months
}
