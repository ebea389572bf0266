// Package judge tells what models are worth: it has them remember and summarize labelled cases in ten languages, by the code
// that does so in production, and counts what comes of it.
package judge

import (
	"embed"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/lang"
	"github.com/google/uuid"
)

//go:embed cases
var files embed.FS

// The kinds of cases that are summarized. All others are read for memories.
const (
	kindBrief   = "brief"
	kindRefusal = "refusal" // what some models decline to summarize
)

// Case is a conversation, and the memories or the brief that it is to give.
type Case struct {
	Language, Kind string
	// Known are the user's memories.
	Known []string
	Said  []memory.Message
	// Keeps are to be remembered, or to be in the brief; May may be remembered, Never is not. Closes are those of Known that
	// are no longer true.
	Keeps, May, Never, Closes []parts
}

// parts are parts of words that a text has or, with a ! before it, does not have.
type parts []string

func (p parts) in(text string) bool {
	text = lang.Fold(text)
	for _, part := range p {
		missing, negated := strings.CutPrefix(part, "!")
		if strings.Contains(text, lang.Fold(missing)) == negated {
			return false
		}
	}
	return true
}

// anyIn reports whether a text has one of several parts.
func anyIn(all []parts, text string) bool {
	return slices.ContainsFunc(all, func(p parts) bool { return p.in(text) })
}

// Cases returns the cases of the languages, of all without any.
func Cases(languages ...string) ([]Case, error) {
	entries, err := files.ReadDir("cases")
	if err != nil {
		return nil, err
	}
	var all []Case
	found := map[string]bool{}
	for _, entry := range entries {
		language := strings.TrimSuffix(entry.Name(), ".txt")
		content, err := files.ReadFile(path.Join("cases", entry.Name()))
		if err != nil {
			return nil, err
		}
		cases, err := parse(language, string(content))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
		found[language] = true
		if len(languages) == 0 || slices.Contains(languages, language) {
			all = append(all, cases...)
		}
	}
	for _, language := range languages {
		if !found[language] {
			return nil, fmt.Errorf("there are no cases in %q", language)
		}
	}
	return all, nil
}

var errLine = errors.New("a line is no part of a case")

var said = time.Date(2026, 3, 14, 10, 0, 0, 0, time.UTC)

func parse(language, content string) (cases []Case, err error) {
	open := false
	for line := range strings.Lines(content) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "#"):
		case line == "":
			open = false
		case !open:
			cases, open = append(cases, Case{Language: language, Kind: line}), true
		default:
			if err := cases[len(cases)-1].read(line); err != nil {
				return nil, err
			}
		}
	}
	return cases, nil
}

// read reads a line of a case after the first.
func (c *Case) read(line string) error {
	sign, rest, _ := strings.Cut(line, " ")
	switch sign {
	case "M:":
		c.Known = append(c.Known, rest)
	case "U:":
		c.say(memory.RoleUser, rest)
	case "A:":
		c.say(memory.RoleAssistant, rest)
	case "=":
		c.Keeps = append(c.Keeps, c.partsOf(rest))
	case "?":
		c.May = append(c.May, c.partsOf(rest))
	case "-":
		c.Never = append(c.Never, c.partsOf(rest))
	case "x":
		c.Closes = append(c.Closes, c.partsOf(rest))
	default:
		return fmt.Errorf("%w: %s", errLine, line)
	}
	return nil
}

// partsOf takes what a brief is to have as one part, which may have spaces.
func (c *Case) partsOf(text string) parts {
	if c.summarized() {
		return parts{text}
	}
	return strings.Fields(text)
}

func (c *Case) summarized() bool { return c.Kind == kindBrief || c.Kind == kindRefusal }

func (c *Case) say(role memory.Role, content string) {
	seq := int64(len(c.Said) + 1)
	c.Said = append(c.Said, memory.Message{
		ID: uuid.New(), Seq: seq, Role: role, Status: memory.StatusComplete, Content: content,
		Tokens: len(content), CreatedAt: said.Add(time.Duration(seq) * time.Minute),
	})
}
