package recall

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/memory/lang"
)

// period is a time that a question names, from its beginning up to without its end.
type period struct{ from, to time.Time }

func isWithin(periods []period, t time.Time) bool {
	return slices.ContainsFunc(periods, func(p period) bool { return !t.Before(p.from) && t.Before(p.to) })
}

// months are the names by which a question may call each month, in the languages whose words recall knows. Names that are words as
// well count only beside a number or after a word such as "in".
var months = func() map[string]time.Month {
	names := map[string]time.Month{}
	for code := range strings.FieldsSeq("en de fr es it pt") {
		for n, row := range lang.Get(code, "months").Rows() {
			for _, name := range row {
				names[name] = time.Month(n + 1)
				names[lang.Fold(name)] = time.Month(n + 1)
			}
		}
	}
	for _, row := range lang.Get("en", "months short").Rows() {
		number, _ := strconv.Atoi(row[0])
		names[row[1]] = time.Month(number)
	}
	return names
}()

var (
	isAlsoAWord  = EveryWord("months or words")
	beforeMonths = EveryWord("before months")
	ordinal      = regexp.MustCompile(`^(\d{1,2})(?:st|nd|rd|th|er|º|ª|\.)?$`)
	isoDate      = regexp.MustCompile(`\b(\d{4})[-/](\d{1,2})(?:[-/](\d{1,2}))?\b`)
	dottedDate   = regexp.MustCompile(`\b(\d{1,2})\.\s?(\d{1,2})\.\s?(\d{4})\b`)
	yearOnly     = regexp.MustCompile(`^(19[89]\d|20\d\d)$`)
	dateWord     = regexp.MustCompile(`[\pL\pN\pM]+[.ºª]?`)
)

// relative are phrases for a time before now: how many units ago it began, and of which unit it is one whole. The longest time is
// looked for first, because "the day before yesterday" holds "yesterday".
var relative = func() []relativeTime {
	names := lang.Names("ago ")
	var all []relativeTime
	for _, name := range names {
		fields := strings.Fields(name)
		ago, _ := strconv.Atoi(fields[1])
		pattern := regexp.MustCompile(lang.Whole(lang.Plain(lang.Each(name)...)))
		all = append(all, relativeTime{pattern, ago, fields[2]})
	}
	slices.SortStableFunc(all, func(a, b relativeTime) int { return b.ago - a.ago })
	return all
}()

type relativeTime struct {
	pattern *regexp.Regexp
	ago     int
	unit    string
}

// periodsIn returns the times that a question names, in the time zone of now. A month or a day without a year is the
// latest one.
func periodsIn(question string, now time.Time) []period {
	lower := strings.ToLower(question)
	var found []period
	for _, r := range relative {
		if r.pattern.MatchString(lower) {
			found = append(found, unitAgo(now, r.ago, r.unit))
			lower = r.pattern.ReplaceAllString(lower, " ")
		}
	}
	for _, m := range isoDate.FindAllStringSubmatch(lower, -1) {
		found = appendDate(found, m[1], m[2], m[3], now)
	}
	for _, m := range dottedDate.FindAllStringSubmatch(lower, -1) {
		found = appendDate(found, m[3], m[2], m[1], now)
	}
	lower = dottedDate.ReplaceAllString(isoDate.ReplaceAllString(lower, " "), " ")
	return append(found, namedPeriods(dateWord.FindAllString(lower, -1), now)...)
}

// namedPeriods finds names of months with the day and the year beside them, and years that stand alone.
func namedPeriods(words []string, now time.Time) []period {
	var found []period
	taken := map[int]bool{}
	at := func(n int) string {
		if n < 0 || n >= len(words) {
			return ""
		}
		return strings.TrimSuffix(words[n], ".")
	}
	for n := range words {
		month, ok := months[at(n)]
		if !ok {
			continue
		}
		day, year := 0, 0
		next := n + 1
		if match := ordinal.FindStringSubmatch(at(n + 1)); match != nil {
			day, _ = strconv.Atoi(match[1])
			next++
		} else if match := ordinal.FindStringSubmatch(at(n - 1)); match != nil {
			day, _ = strconv.Atoi(match[1])
		} else if match := ordinal.FindStringSubmatch(at(n - 2)); match != nil && beforeMonths[at(n-1)] {
			day, _ = strconv.Atoi(match[1])
		}
		if beforeMonths[at(next)] && yearOnly.MatchString(at(next+1)) {
			next++
		}
		if yearOnly.MatchString(at(next)) {
			year, _ = strconv.Atoi(at(next))
			taken[next] = true
		}
		if isAlsoAWord[at(n)] && day == 0 && year == 0 && !beforeMonths[at(n-1)] {
			continue
		}
		found = append(found, monthOrDay(year, month, day, now))
	}
	for n := range words {
		if year := at(n); !taken[n] && yearOnly.MatchString(year) {
			found = appendDate(found, year, "", "", now)
		}
	}
	return found
}

func monthOrDay(year int, month time.Month, day int, now time.Time) period {
	if year == 0 {
		year = now.Year()
		if time.Date(year, month, max(day, 1), 0, 0, 0, 0, now.Location()).After(now) {
			year--
		}
	}
	if day < 1 || day > 31 {
		from := time.Date(year, month, 1, 0, 0, 0, 0, now.Location())
		return period{from, from.AddDate(0, 1, 0)}
	}
	from := time.Date(year, month, day, 0, 0, 0, 0, now.Location())
	return period{from, from.AddDate(0, 0, 1)}
}

// appendDate appends a year, a month or a day, unless the numbers are none.
func appendDate(found []period, yearText, monthText, dayText string, now time.Time) []period {
	year, _ := strconv.Atoi(yearText)
	month, _ := strconv.Atoi(monthText)
	day, _ := strconv.Atoi(dayText)
	switch {
	case month > 12:
		return found
	case month > 0:
		return append(found, monthOrDay(year, time.Month(month), day, now))
	}
	from := time.Date(year, time.January, 1, 0, 0, 0, 0, now.Location())
	return append(found, period{from, from.AddDate(1, 0, 0)})
}

func unitAgo(now time.Time, ago int, unit string) period {
	today := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
	switch unit {
	case "week":
		monday := today.AddDate(0, 0, -int(today.Weekday()+6)%7-7*ago)
		return period{monday, monday.AddDate(0, 0, 7)}
	case "month":
		first := time.Date(today.Year(), today.Month()-time.Month(ago), 1, 0, 0, 0, 0, now.Location())
		return period{first, first.AddDate(0, 1, 0)}
	case "year":
		first := time.Date(today.Year()-ago, time.January, 1, 0, 0, 0, 0, now.Location())
		return period{first, first.AddDate(1, 0, 0)}
	default:
		day := today.AddDate(0, 0, -ago)
		return period{day, day.AddDate(0, 0, 1)}
	}
}
