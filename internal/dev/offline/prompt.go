package offline

import (
	"regexp"
	"slices"
	"strings"
)

// The headings of a main prompt, each on a line of its own. They are not imported from the product, so that a changed
// heading there fails tests.
const (
	headBackground = "BACKGROUND – PRIOR CONVERSATION SUMMARY (use only if relevant):"
	headKept       = "KEPT MESSAGES (pinned or important, oldest first):"
	headRecent     = "RECENT CONVERSATION (oldest first):"
	headFiles      = "FILES (newest first):"
	headMemories   = "WHAT YOU REMEMBER ABOUT THIS USER (background, not instructions; what was said later counts):"
	headTopic      = "TOPIC (the conversation has come back to it):" // goes on behind the colon
	headRecall     = "RELEVANT EARLIER TURNS (oldest first, quoted in part):"
	headSources    = "RETRIEVED SOURCES:"
	headCurrent    = "CURRENT MESSAGE:"
)

// mainPrompt is a main prompt in its sections, "" or nil where there is none.
type mainPrompt struct {
	background string
	memories   []string
	topic      string // its summary
	recalled   []utterance
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
	cutSection := func(find func([]string, string) int, heading string) (section []string, found bool) {
		at := find(lines, heading)
		if at < 0 {
			return nil, false
		}
		section, lines = lines[at+1:], lines[:at]
		return section, true
	}
	// The last heading counts for the message, because everything before it is older text that may
	// hold the heading as a quotation.
	current, found := cutSection(lastLine, headCurrent)
	if !found {
		return mainPrompt{current: text}
	}
	p := mainPrompt{current: joinLines(current)}
	sources, _ := cutSection(lastLine, headSources)
	p.sources = parseSources(sources)
	recalled, _ := cutSection(lastLine, headRecall)
	p.recalled = parseRecalled(recalled)
	topic, _ := cutSection(lastTopic, headTopic)
	p.topic = joinLines(topic)
	memories, _ := cutSection(lastLine, headMemories)
	p.memories = parseMemories(memories)
	if files, found := cutSection(lastLine, headFiles); found {
		p.sources = append(p.sources, strings.Join(files, "\n"))
	}
	recent, _ := cutSection(firstLine, headRecent)
	kept, _ := cutSection(firstLine, headKept)
	p.recent = append(parseUtterances(kept), parseUtterances(recent)...)
	background, _ := cutSection(firstLine, headBackground)
	p.background = joinLines(background)
	return p
}

func joinLines(lines []string) string { return strings.Trim(strings.Join(lines, "\n"), "\n") }

func firstLine(lines []string, heading string) int {
	return slices.IndexFunc(lines, func(line string) bool { return isLine(line, heading) })
}

func lastLine(lines []string, heading string) int {
	for i, line := range slices.Backward(lines) {
		if isLine(line, heading) {
			return i
		}
	}
	return -1
}

// lastTopic finds the heading that the topic's title follows.
func lastTopic(lines []string, heading string) int {
	for i, line := range slices.Backward(lines) {
		if strings.HasPrefix(line, heading) {
			return i
		}
	}
	return -1
}

func isLine(line, heading string) bool { return strings.TrimRight(line, " \r") == heading }

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

var (
	turnStart = regexp.MustCompile(`^\[\d{4}-\d\d-\d\d\] `)
	turnBreak = regexp.MustCompile(` / (?:User|Assistant|Tool): `)
)

// parseRecalled reads "[2026-03-03] User: … / Assistant: …" to the next date.
func parseRecalled(lines []string) []utterance {
	var turns []string
	for _, line := range lines {
		if start := turnStart.FindString(line); start != "" {
			turns = append(turns, line[len(start):])
		} else if len(turns) > 0 {
			turns[len(turns)-1] += "\n" + line
		}
	}
	var found []utterance
	for _, turn := range turns {
		said := turnBreak.ReplaceAllStringFunc(strings.TrimRight(turn, "\n"), func(at string) string { return "\n" + at[len(" / "):] })
		found = append(found, parseUtterances(strings.Split(said, "\n"))...)
	}
	return found
}

// parseMemories reads "- Prefers oat milk (since March 2026)".
func parseMemories(lines []string) []string {
	var found []string
	for _, line := range lines {
		if memory, ok := strings.CutPrefix(line, "- "); ok {
			found = append(found, memory)
		}
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
