package offline

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

var (
	monthWord = `(january|february|march|april|may|june|july|august|september|october|november|december)`
	beginning = `\b(?:since|as of|from|in|on)\s+(?:the\s+)?`
	// sinceDate is "since 3 March 2025", "in March", "since 2019", "since 2025-03".
	sinceDate = regexp.MustCompile(`(?i)[\s,]*` + beginning +
		`(?:(\d{1,2})(?:st|nd|rd|th)?\s+(?:of\s+)?)?` + monthWord + `(?:,?\s+(?:of\s+)?((?:19|20)\d\d))?\b`)
	sinceYear = regexp.MustCompile(`(?i)[\s,]*` + beginning + `((?:19|20)\d\d)(-\d\d)?(-\d\d)?\b`)
	// sinceThen are dates that follow from the message's own.
	sinceThen = regexp.MustCompile(`(?i)[\s,]*\b(?:since\s+)?(yesterday|(?:last|this) (?:week|month|year))\b`)
)

// takeDate takes the date since when something is true out of a clause. It returns the rest, and the date as
// precisely as it is known: a year, a month or a day; "" where there is none.
func takeDate(clause string, said time.Time) (rest, from string) {
	if at := sinceYear.FindStringSubmatchIndex(clause); at != nil {
		found := sinceYear.FindStringSubmatch(clause)
		return cutOut(clause, at), found[1] + found[2] + found[3]
	}
	if at := sinceDate.FindStringSubmatchIndex(clause); at != nil {
		found := sinceDate.FindStringSubmatch(clause)
		return cutOut(clause, at), dateOf(found[1], found[2], found[3], said)
	}
	if at := sinceThen.FindStringSubmatchIndex(clause); at != nil && !said.IsZero() {
		found := sinceThen.FindStringSubmatch(clause)
		return cutOut(clause, at), dateBefore(strings.ToLower(found[1]), said)
	}
	return clause, ""
}

func cutOut(text string, at []int) string {
	return strings.TrimSpace(strings.TrimRight(text[:at[0]], " ,") + " " + strings.TrimLeft(text[at[1]:], " ,"))
}

// dateOf puts a date together. A month without a year is the last one before the message.
func dateOf(day, month, year string, said time.Time) string {
	number := monthOf(month)
	if year == "" {
		if said.IsZero() {
			return ""
		}
		of := said.Year()
		if number > said.Month() {
			of--
		}
		year = strconv.Itoa(of)
	}
	from := year + "-" + twoDigits(int(number))
	if d, err := strconv.Atoi(day); err == nil && 1 <= d && d <= 31 {
		from += "-" + twoDigits(d)
	}
	return from
}

func monthOf(name string) time.Month {
	month, _ := time.Parse("January", strings.ToLower(name)) // one of monthWord
	return month.Month()
}

func twoDigits(n int) string {
	text := strconv.Itoa(n)
	if n < 10 {
		text = "0" + text
	}
	return text
}

// dateBefore is the date that a word like "yesterday" means in a message of that day.
func dateBefore(word string, said time.Time) string {
	switch {
	case strings.Contains(word, "year"):
		if strings.HasPrefix(word, "this") {
			return said.Format("2006")
		}
		return said.AddDate(-1, 0, 0).Format("2006")
	case strings.Contains(word, "month"):
		if strings.HasPrefix(word, "this") {
			return said.Format("2006-01")
		}
		return time.Date(said.Year(), said.Month()-1, 1, 0, 0, 0, 0, time.UTC).Format("2006-01")
	case strings.Contains(word, "week"):
		return said.Format("2006-01") // of a week only the month is sure enough
	}
	return said.AddDate(0, 0, -1).Format(time.DateOnly)
}
