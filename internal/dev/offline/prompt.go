package offline

import (
	"regexp"
	"slices"
	"strings"
)

// The headings of a main prompt, each on a line of its own.
const (
	headBackground = "BACKGROUND – PRIOR CONVERSATION SUMMARY (use only if relevant):"
	headKept       = "KEPT MESSAGES (pinned or important, oldest first):"
	headRecent     = "RECENT CONVERSATION (oldest first):"
	headFiles      = "FILES (newest first):"
	headSources    = "RETRIEVED SOURCES:"
	headCurrent    = "CURRENT MESSAGE:"
)

// mainPrompt is a main prompt in its sections, "" or nil where there is none.
type mainPrompt struct {
	background string
	recent     []utterance
	sources    []string
	current    string
}

// utterance is one message of a conversation.
type utterance struct {
	assistant bool
	text      string
}

// parsePrompt splits a main prompt. A text without the headings is a current message as a whole.
func parsePrompt(text string) mainPrompt {
	lines := strings.Split(text, "\n")
	// The last heading counts for the message, because everything before it is older text that may
	// hold the heading as a quotation.
	at := lastLine(lines, headCurrent)
	if at < 0 {
		return mainPrompt{current: text}
	}
	p := mainPrompt{current: strings.Trim(strings.Join(lines[at+1:], "\n"), "\n")}
	lines = lines[:at]
	if at := lastLine(lines, headSources); at >= 0 {
		p.sources = parseSources(lines[at+1:])
		lines = lines[:at]
	}
	if at := lastLine(lines, headFiles); at >= 0 {
		p.sources = append(p.sources, strings.Join(lines[at+1:], "\n"))
		lines = lines[:at]
	}
	if at := firstLine(lines, headRecent); at >= 0 {
		p.recent = parseUtterances(lines[at+1:])
		lines = lines[:at]
	}
	if at := firstLine(lines, headKept); at >= 0 {
		p.recent = append(parseUtterances(lines[at+1:]), p.recent...)
		lines = lines[:at]
	}
	if at := firstLine(lines, headBackground); at >= 0 {
		p.background = strings.Trim(strings.Join(lines[at+1:], "\n"), "\n")
	}
	return p
}

func firstLine(lines []string, heading string) int {
	for i, line := range lines {
		if strings.TrimRight(line, " \r") == heading {
			return i
		}
	}
	return -1
}

func lastLine(lines []string, heading string) int {
	for i, line := range slices.Backward(lines) {
		if strings.TrimRight(line, " \r") == heading {
			return i
		}
	}
	return -1
}

// parseUtterances reads "User: …" and "Assistant: …"; other lines go on with the message before.
func parseUtterances(lines []string) []utterance {
	var found []utterance
	for _, line := range lines {
		switch {
		case strings.HasPrefix(line, "User:"):
			found = append(found, utterance{false, strings.TrimPrefix(line[len("User:"):], " ")})
		case strings.HasPrefix(line, "Assistant:"):
			found = append(found, utterance{true, strings.TrimPrefix(line[len("Assistant:"):], " ")})
		case len(found) > 0:
			found[len(found)-1].text += "\n" + line
		}
	}
	for i := range found {
		found[i].text = strings.TrimRight(found[i].text, "\n")
	}
	return found
}

var sourceStart = regexp.MustCompile(`^\[\d+\] ?`)

// parseSources reads "[1] …" to the next number.
func parseSources(lines []string) []string {
	var found []string
	for _, line := range lines {
		if start := sourceStart.FindString(line); start != "" {
			found = append(found, line[len(start):])
		} else if len(found) > 0 {
			found[len(found)-1] += "\n" + line
		}
	}
	return found
}
