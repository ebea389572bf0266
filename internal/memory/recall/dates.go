package recall

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// period is a time that a question names, from its beginning up to without its end.
type period struct{ from, to time.Time }

func isWithin(periods []period, t time.Time) bool {
	for _, p := range periods {
		if !t.Before(p.from) && t.Before(p.to) {
			return true
		}
	}
	return false
}

// months are the names by which a question may call each month, in en de fr es it pt. Names that are words as well
// count only beside a number or after a word such as "in".
var months = monthNames(
	"january jan januar jänner janvier enero gennaio janeiro",
	"february feb februar février fevrier febrero febbraio fevereiro",
	"march märz maerz mars marzo março marco",
	"april apr avril abril aprile",
	"may mai mayo maggio maio",
	"june juni juin junio giugno junho",
	"july juli juillet julio luglio julho",
	"august aug août aout agosto",
	"september sept septembre septiembre settembre setembro",
	"october oct oktober octobre octubre ottobre outubro",
	"november nov novembre noviembre novembro",
	"december dec dezember décembre decembre diciembre dicembre dezembro")

func monthNames(rows ...string) map[string]time.Month {
	names := map[string]time.Month{}
	for n, row := range rows {
		for name := range strings.FieldsSeq(row) {
			names[name] = time.Month(n + 1)
		}
	}
	return names
}

var (
	isAlsoAWord  = setOf(`march may mars mai marco mayo jan dec oct`)
	beforeMonths = setOf(`in on of since during until by from last this next late early mid im am seit vom ab en au du le de del dal nel em no di à`)
	ordinal      = regexp.MustCompile(`^(\d{1,2})(?:st|nd|rd|th|er|º|ª|\.)?$`)
	isoDate      = regexp.MustCompile(`\b(\d{4})[-/](\d{1,2})(?:[-/](\d{1,2}))?\b`)
	dottedDate   = regexp.MustCompile(`\b(\d{1,2})\.\s?(\d{1,2})\.\s?(\d{4})\b`)
	yearOnly     = regexp.MustCompile(`^(19[89]\d|20\d\d)$`)
	dateWord     = regexp.MustCompile(`[\pL\pN\pM]+[.ºª]?`)
)

// relative are phrases for a time before now: how many units ago it began, and of which unit it is one whole.
var relative = []struct {
	pattern *regexp.Regexp
	ago     int
	unit    string
}{
	{phrase(`day before yesterday|vorgestern|avant hier|avant-hier|anteayer|antes de ayer|altro ieri|anteontem`), 2, "day"},
	{phrase(`yesterday|last night|gestern|hier|ayer|anoche|ieri|ontem`), 1, "day"},
	{phrase(`today|heute|aujourd.hui|hoy|oggi|hoje`), 0, "day"},
	{phrase(`last week|letzte woche|letzter woche|vorige woche|la semaine derni[eè]re|la semana pasada|semana pasada|la settimana scorsa|settimana ` +
		`scorsa|a semana passada|semana passada`), 1, "week"},
	{phrase(`this week|diese woche|dieser woche|cette semaine|esta semana|questa settimana`), 0, "week"},
	{phrase(`last month|letzten monat|letztem monat|vorigen monat|le mois dernier|mois dernier|el mes pasado|mes pasado|il mese scorso|mese ` +
		`scorso|m[eê]s passado`), 1, "month"},
	{phrase(`this month|diesen monat|diesem monat|ce mois|este mes|questo mese|este m[eê]s`), 0, "month"},
	{phrase(`last year|letztes jahr|letztem jahr|voriges jahr|l.ann[eé]e derni[eè]re|l.an dernier|el a[nñ]o pasado|a[nñ]o pasado|l.anno scorso|anno ` +
		`scorso|ano passado`), 1, "year"},
	{phrase(`this year|dieses jahr|diesem jahr|cette ann[eé]e|este a[nñ]o|quest.anno|este ano`), 0, "year"},
}

func phrase(alternatives string) *regexp.Regexp {
	return regexp.MustCompile(`(?:^|[^\pL\pN])(?:` + alternatives + `)(?:$|[^\pL\pN])`)
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
