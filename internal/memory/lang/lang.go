// Package lang holds the words of languages as data, one file for each language (data/de.txt), and what follows from them
// alone: how spellings are compared (fold.go), where words begin, and in which language a text is (detect.go). What the words
// mean for a text is decided in the packages that read them.
//
// A file has sections, each under a line with its name in brackets, below a comment that says what its words do. A line that
// begins with # is a comment; one that begins with two spaces goes on with the line before it. Words are written as people write
// them; where a rule compares without accents and capitals, it takes them away itself.
//
// The last lines of any.txt are regular expressions of what machines write, one a line.
//
// A section has either words with spaces between them, or phrases with ", " or a new line between them. In a phrase
//
//	(a/b)   is one of these, [a/b] one of these or nothing, [a/b]* any number of these
//	rule*   is "rule" with any ending, "_" any one word, {4} up to four words
//	#       is a number in digits, ~ anything up to forty characters, ~12 up to twelve
//	^ $     are the beginning and the end of the text; \ is before a sign that means itself
//	{name}  is what the comment of the section says
//
// A phrase matches whole words, but for languages that put no spaces between them.
package lang

import (
	"embed"
	"slices"
	"strings"
	"sync"
)

//go:embed data
var data embed.FS

// Section is one section of a language.
type Section struct {
	Language string // as ISO 639-1 has it, or Any
	Name     string
	lines    []string
}

// Any is the name of what belongs to no language.
const Any = "any"

// files are the sections of all files: English first, the others by their codes.
var files = sync.OnceValue(func() [][]Section {
	entries, err := data.ReadDir("data")
	if err != nil {
		panic(err) // the program's own data
	}
	var all [][]Section
	for _, entry := range entries {
		code, _ := strings.CutSuffix(entry.Name(), ".txt")
		content, err := data.ReadFile("data/" + entry.Name())
		if err != nil {
			panic(err)
		}
		sections := parse(code, string(content))
		if code == "en" {
			all = slices.Insert(all, 0, sections)
			continue
		}
		all = append(all, sections)
	}
	return all
})

func parse(code, content string) []Section {
	var sections []Section
	for line := range strings.Lines(content) {
		line = strings.TrimRight(line, "\r\n")
		last := len(sections) - 1
		name, opens := strings.CutPrefix(line, "[")
		name, closes := strings.CutSuffix(name, "]")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case opens && closes && !strings.ContainsAny(name, "[]"):
			sections = append(sections, Section{Language: code, Name: name})
		case last < 0:
		case strings.HasPrefix(line, "  "):
			sections[last].goOn(line[2:])
		default:
			sections[last].lines = append(sections[last].lines, line)
		}
	}
	return sections
}

// goOn adds what a line goes on with. A line is broken behind a "/" or at a space.
func (s *Section) goOn(rest string) {
	last := &s.lines[len(s.lines)-1]
	if !strings.HasSuffix(*last, "/") {
		*last += " "
	}
	*last += rest
}

// Each returns a section of all languages that have it. One that none has is a defect of the program, and panics.
func Each(name string) []Section {
	var found []Section
	for _, sections := range files() {
		for _, s := range sections {
			if s.Name == name {
				found = append(found, s)
			}
		}
	}
	if len(found) == 0 {
		panic("lang: no section " + name)
	}
	return found
}

// Get returns a section of a language, an empty one where the language has none.
func Get(language, name string) Section {
	for _, s := range Each(name) {
		if s.Language == language {
			return s
		}
	}
	return Section{Language: language, Name: name}
}

// Names returns the names of the sections that begin so, each once.
func Names(prefix string) []string {
	var names []string
	for _, sections := range files() {
		for _, s := range sections {
			if strings.HasPrefix(s.Name, prefix) && !slices.Contains(names, s.Name) {
				names = append(names, s.Name)
			}
		}
	}
	return names
}

// Words returns the words of a section, as they are written.
func (s Section) Words() []string { return strings.Fields(strings.Join(s.lines, " ")) }

// Rows returns the words of each line.
func (s Section) Rows() [][]string {
	rows := make([][]string, 0, len(s.lines))
	for _, line := range s.lines {
		rows = append(rows, strings.Fields(line))
	}
	return rows
}

// Set returns the words of sections, folded.
func Set(sections ...Section) map[string]bool {
	set := map[string]bool{}
	for _, s := range sections {
		for _, word := range s.Words() {
			for part := range strings.FieldsSeq(Fold(word)) {
				set[part] = true
			}
		}
	}
	return set
}

// Lines returns the lines of a section, for regular expressions.
func (s Section) Lines() []string { return s.lines }
