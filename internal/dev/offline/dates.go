package offline

import (
	"regexp"
	"strings"
	"time"
)

// since is "since 3 March 2025", "in March", "since 2019", "since 2025-03", "last month".
var since = regexp.MustCompile(`(?i)[\s,]*\b(?:(?:since|as of|from|in|on)\s+(?:the\s+)?((?:19|20)\d\d(?:-\d\d){0,2}` +
	`|(?:\d{1,2} )?(?:january|february|march|april|may|june|july|august|september|october|november|december)(?: (?:19|20)\d\d)?)` +
	`|(?:since\s+)?(yesterday|(?:last|this) (?:week|month|year)))\b`)

// dateForms are the ways in which dates are said, and how precisely they are known.
var dateForms = [][2]string{
	{"2006", "2006"}, {"2006-01", "2006-01"}, {time.DateOnly, time.DateOnly}, {"2 January 2006", time.DateOnly}, {"January 2006", "2006-01"},
}

// takeDate takes the date since when something is true out of a clause. It returns the rest, and the date as
// precisely as it is known: a year, a month or a day; "" where there is none.
func takeDate(clause string, said time.Time) (rest, from string) {
	found := since.FindStringSubmatch(clause)
	if found == nil || said.IsZero() {
		return clause, ""
	}
	before, after, _ := strings.Cut(clause, found[0])
	rest = strings.TrimSpace(before + " " + strings.TrimLeft(after, " ,"))
	if found[2] != "" {
		return rest, dateBefore(strings.ToLower(found[2]), said)
	}
	for _, form := range dateForms {
		if at, err := time.Parse(form[0], found[1]); err == nil {
			return rest, at.Format(form[1])
		}
		// Without a year it is the last one before the message.
		if at, err := time.Parse(form[0], found[1]+said.Format(" 2006")); err == nil {
			if at.After(said) {
				at = at.AddDate(-1, 0, 0)
			}
			return rest, at.Format(form[1])
		}
	}
	return rest, ""
}

// dateBefore is the date that a word like "yesterday" means in a message of that day. Of a week only the month is sure
// enough.
func dateBefore(word string, said time.Time) string {
	switch word {
	case "yesterday":
		return said.AddDate(0, 0, -1).Format(time.DateOnly)
	case "last month":
		return said.AddDate(0, 0, -said.Day()).Format("2006-01")
	case "last year":
		return said.AddDate(-1, 0, 0).Format("2006")
	case "this year":
		return said.Format("2006")
	}
	return said.Format("2006-01")
}
