package offline

import (
	"regexp"
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

// sections divides a text at the lines that begin with its titles: what follows a title, up to the next one, by the
// title, and what is before all of them by "". Behind the last of the titles nothing is one: that section is somebody's own words.
// Elsewhere the product quotes lines that look like a title.
func sections(text string, titles ...string) map[string]string {
	found := map[string]string{}
	at := ""
	for line := range strings.Lines(text) {
		for _, title := range titles {
			if strings.HasPrefix(line, title) && at != titles[len(titles)-1] {
				at, line = title, line[len(title):]
				break
			}
		}
		found[at] += line
	}
	return found
}

// bare is a section without the empty lines around it.
func bare(section string) string { return strings.Trim(section, "\r\n") }

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
	in := sections(text, headBackground, headKept, headRecent, headFiles, headMemories, headTopic, headRecall, headSources, headCurrent)
	current, found := in[headCurrent]
	if !found {
		return mainPrompt{current: text}
	}
	_, topic, _ := strings.Cut(in[headTopic], "\n") // the first line goes on with its title
	p := mainPrompt{
		background: bare(in[headBackground]),
		memories:   startingWith(memoryStart, in[headMemories]),
		topic:      bare(topic),
		recent:     append(parseUtterances(in[headKept]), parseUtterances(in[headRecent])...),
		sources:    startingWith(sourceStart, in[headSources]),
		current:    bare(current),
	}
	for _, turn := range startingWith(turnStart, in[headRecall]) { // User: … / Assistant: …
		said := turnBreak.ReplaceAllStringFunc(turn, func(at string) string { return "\n" + at[len(" / "):] })
		p.recalled = append(p.recalled, parseUtterances(said)...)
	}
	if files, found := in[headFiles]; found {
		p.sources = append(p.sources, bare(files))
	}
	return p
}

var (
	turnStart   = regexp.MustCompile(`^\[\d{4}-\d\d-\d\d\] `)
	turnBreak   = regexp.MustCompile(` / (?:User|Assistant|Tool): `)
	sourceStart = regexp.MustCompile(`^\[\d+\] ?`)
	memoryStart = regexp.MustCompile(`^- `)
)

// startingWith returns what follows each such beginning of a line, up to the next.
func startingWith(start *regexp.Regexp, section string) []string {
	var found []string
	for line := range strings.Lines(section) {
		if at := start.FindString(line); at != "" {
			found = append(found, line[len(at):])
		} else if len(found) > 0 {
			found[len(found)-1] += line
		}
	}
	for i := range found {
		found[i] = bare(found[i])
	}
	return found
}

// parseUtterances reads "User: …" and "Assistant: …"; other lines go on with the message before.
func parseUtterances(section string) []utterance {
	var found []utterance
	for line := range strings.Lines(section) {
		who, said, _ := strings.Cut(line, ":")
		switch {
		case who == "User" || who == "Assistant":
			found = append(found, utterance{who == "Assistant", strings.TrimPrefix(said, " ")})
		case len(found) > 0:
			found[len(found)-1].text += line
		}
	}
	for i := range found {
		found[i].text = strings.TrimRight(found[i].text, "\r\n")
	}
	return found
}
