package longterm

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// The titles of the input, each at the beginning of a line. They must not change: the instructions, the offline model
// and tools outside rely on them.
const (
	summaryTitle = "CONVERSATION SUMMARY"
	recentTitle  = "RECENT MESSAGES"
	newTitle     = "NEW MESSAGES"
)

// How much is shown, in tokens. An extraction is made for about six turns, and all of it together has to cost less than
// 700 tokens a turn: so assistants, who say little of a user, are cut short, and long pastes as well.
const (
	summaryTokens      = 250
	recentTokens       = 40
	userTokens         = 400
	assistantTokens    = 70
	newTokens          = 2_400
	leastMessageTokens = 40
	excludedTokens     = 100
)

// WriteInput writes the input of an extraction. A line of a message that looks like a title, an alias or a speaker label is
// quoted, so that what people wrote cannot pass for somebody else's words. Long messages are shortened in the middle.
func WriteInput(in Input) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Time zone: %s\n", zoneOf(in))
	if in.Language != "" {
		fmt.Fprintf(&b, "Language of the user's settings: %s\n", text.OneLine(in.Language))
	}
	if len(in.Excluded) > 0 {
		fmt.Fprintf(&b, "Not to be remembered: %s\n", text.FitCap(text.OneLine(strings.Join(in.Excluded, "; ")), excludedTokens))
	}
	if summary := strings.TrimSpace(in.Summary); summary != "" {
		fmt.Fprintf(&b, "\n%s:\n%s\n", summaryTitle, quoted(text.FitCap(summary, summaryTokens)))
	}
	writeRecent(&b, in)
	fmt.Fprintf(&b, "\n%s:\n", newTitle)
	limits := limitsOf(numbered(in.New))
	for n, m := range numbered(in.New) {
		content, _ := text.Clip(strings.TrimSpace(m.Content), limits[n])
		if m.Role == memory.RoleUser {
			fmt.Fprintf(&b, "%s [%s]: %s\n", m.alias, dayOf(in, m.SaidAt), quoted(content))
		} else {
			fmt.Fprintf(&b, "%s: %s\n", m.alias, quoted(content))
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

func writeRecent(b *strings.Builder, in Input) {
	recent := recentOf(in)
	if len(recent) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s:\n", recentTitle)
	for _, m := range recent {
		content, _ := text.Clip(strings.TrimSpace(m.Content), recentTokens)
		fmt.Fprintf(b, "%s: %s\n", m.Role.Label(), quoted(content))
	}
}

// aliased is a new message with the alias by which the model names it.
type aliased struct {
	Message

	alias string
}

// numbered returns the messages of users and assistants that have text, with their aliases: U1, A1, U2 …
func numbered(messages []Message) []aliased {
	var out []aliased
	count := map[string]int{}
	for _, m := range messages {
		letter := letterOf(m)
		if letter == "" {
			continue
		}
		count[letter]++
		out = append(out, aliased{m, letter + strconv.Itoa(count[letter])})
	}
	return out
}

// letterOf returns the letter of a message's alias, "" for a message that is not shown.
func letterOf(m Message) string {
	switch {
	case strings.TrimSpace(m.Content) == "":
		return ""
	case m.Role == memory.RoleUser:
		return "U"
	case m.Role == memory.RoleAssistant:
		return "A"
	}
	return ""
}

// recentOf returns the messages before the new ones that are shown.
func recentOf(in Input) []Message {
	var shown []Message
	for _, m := range in.Recent {
		if letterOf(m) != "" {
			shown = append(shown, m)
		}
	}
	return shown[max(0, len(shown)-RecentMessages):]
}

// limitsOf returns how many tokens of each message are shown: as many as of any, and fewer when all together are too
// many.
func limitsOf(messages []aliased) []int {
	limits, sum := make([]int, len(messages)), 0
	for n, m := range messages {
		limits[n] = assistantTokens
		if m.Role == memory.RoleUser {
			limits[n] = userTokens
		}
		limits[n] = min(limits[n], text.Tokens(m.Content))
		sum += limits[n]
	}
	for level := userTokens; sum > newTokens && level > leastMessageTokens; level = level * 3 / 4 {
		sum = 0
		for n := range limits {
			limits[n] = min(limits[n], level)
			sum += limits[n]
		}
	}
	return limits
}

func zoneOf(in Input) *time.Location {
	if in.Zone == nil {
		return time.UTC
	}
	return in.Zone
}

// dayOf writes the day on which something was said where the user is: "2026-03-14 Sat".
func dayOf(in Input, at time.Time) string { return at.In(zoneOf(in)).Format("2006-01-02 Mon") }

// dayIn returns the day on which a message was said where the user is, as a date in UTC.
func dayIn(in Input, m Message) time.Time {
	year, month, day := m.SaidAt.In(zoneOf(in)).Date()
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

func quoted(content string) string { return text.QuoteLines(content, looksLikeInput) }

var (
	aliasAtStart = express(`^[^\pL\pN]{0,8}[UACMuacm]\s?\pN+\s*[\[:(\].-]`)
	titleWords   = []string{"conversationsummary", "recentmessages", "newmessages", "nottoberemembered", "timezone", "languageoftheuserssettings"}
)

// looksLikeInput reports whether a line looks like a title, an alias or a speaker label of an extraction's input.
func looksLikeInput(line string) bool {
	if strings.HasPrefix(line, text.QuotePrefix) {
		return false
	}
	skeleton := text.Skeleton(line, text.PrefixRunes)
	words := text.LettersAndDigits(skeleton, "")
	for _, title := range titleWords {
		if strings.HasPrefix(words, title) {
			return true
		}
	}
	return aliasAtStart().MatchString(skeleton) || text.LooksLikeLabel(line, true)
}
