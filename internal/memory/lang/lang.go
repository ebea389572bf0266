// Package lang holds the words of languages as data: which words say nothing, how people apologize, give orders or name a
// day. The rules that use them are in the packages beside it. It knows no text and decides nothing.
//
// A file in data has sections, each under a line with its name in brackets. A line that begins with # is a comment. In a
// section of words, lines are words with spaces between them. In a section of patterns (regular expressions), an empty
// line separates the patterns; a line is one alternative of its pattern, or several; a line that begins with two spaces
// goes on with the line before it.
package lang

import (
	"embed"
	"regexp"
	"strings"
	"sync"
)

//go:embed data
var data embed.FS

// Section is one section of a file.
type Section struct {
	Name  string
	lines []string
}

var sectionName = regexp.MustCompile(`^\[([\w .-]+)\]$`)

// Sections returns the sections of a file of data, by its name without ending. A file that is missing is a defect of the
// program, and panics.
func Sections(file string) []Section {
	load, _ := loaded.LoadOrStore(file, sync.OnceValue(func() []Section { return parse(file) }))
	return load.(func() []Section)()
}

var loaded sync.Map // of func() []Section, by the name of the file

func parse(file string) []Section {
	content, err := data.ReadFile("data/" + file + ".txt")
	if err != nil {
		panic(err)
	}
	var sections []Section
	for line := range strings.SplitSeq(string(content), "\n") {
		if name := sectionName.FindStringSubmatch(line); name != nil {
			sections = append(sections, Section{Name: name[1]})
		} else if last := len(sections) - 1; last >= 0 && !strings.HasPrefix(line, "#") {
			sections[last].lines = append(sections[last].lines, line)
		}
	}
	return sections
}

// Get returns one section of a file. One that is missing is a defect of the program, and panics.
func Get(file, name string) Section {
	for _, section := range Sections(file) {
		if section.Name == name {
			return section
		}
	}
	panic("lang: no section " + name + " in " + file)
}

// Words returns the words of a section.
func (s Section) Words() []string { return strings.Fields(strings.Join(s.lines, " ")) }

// Patterns returns the patterns of a section.
func (s Section) Patterns() []string {
	var patterns []string
	open := false
	for _, line := range s.lines {
		rest, goesOn := strings.CutPrefix(line, "  ")
		switch last := len(patterns) - 1; {
		case line == "":
			open = false
		case !open:
			patterns, open = append(patterns, line), true
		case goesOn:
			patterns[last] += rest
		default:
			patterns[last] += "|" + line
		}
	}
	return patterns
}

// Pattern returns the patterns of a section as one, of which any may match.
func (s Section) Pattern() string { return strings.Join(s.Patterns(), "|") }

// Words returns the words of a section of a file.
func Words(file, section string) []string { return Get(file, section).Words() }

// Pattern returns the patterns of a section of a file as one.
func Pattern(file, section string) string { return Get(file, section).Pattern() }
