// Package injection holds texts that attack a prompt: they try to end a fold's input, to start a section of a prompt,
// to speak as another role, or to be obeyed. The tests of memory, of folds and of the whole app put each of them wherever
// a user's text can be, and check the requests to the model.
package injection

import (
	_ "embed" // the texts
	"strconv"
	"strings"
)

// Place is a kind of place for a text.
type Place byte

// The places. They differ in what must be quoted.
const (
	Letter   Place = 'L' // a message or the summary in a fold's input
	Prompt   Place = 'P' // a message or the brief in a prompt
	File     Place = 'F' // a file in a prompt
	Passage  Place = 'S' // a retrieved source in a prompt
	Recalled Place = 'R' // a message of an earlier turn that a prompt quotes: the dangers of Prompt, and more
)

// Payload is one attack.
type Payload struct {
	Name, Text string
	// quoted maps the beginning of each dangerous line to the places where it is dangerous.
	quoted map[string]string
}

// In returns the text as it must appear in a place: with "> " before each line that is dangerous there, and otherwise
// unchanged.
func (p Payload) In(place Place) string {
	text := p.Text
	for line, places := range p.quoted {
		if strings.ContainsRune(places, rune(place)) || place == Recalled && strings.ContainsRune(places, rune(Prompt)) {
			text = strings.Replace(text, line, "> "+line, 1)
		}
	}
	return text
}

// OneLine returns the text as one line, as in a path.
func (p Payload) OneLine() string { return strings.Join(strings.Fields(p.Text), " ") }

// All returns every payload.
func All() []Payload { return all }

//go:embed injection.txt
var file string

var all = read(file)

// read reads payloads. A line with a name begins one; below it stand its text, and its dangerous lines behind their places.
func read(file string) (all []Payload) {
	for line := range strings.Lines(file) {
		places, quoted, isQuoted := strings.Cut(strings.TrimSpace(line), `"`)
		value, err := strconv.Unquote(`"` + quoted)
		if isQuoted && err != nil {
			panic(line)
		}
		switch last := len(all) - 1; {
		case places == "" && !isQuoted, strings.HasPrefix(line, "#"):
		case !isQuoted:
			all = append(all, Payload{Name: places, quoted: map[string]string{}})
		case places == "":
			all[last].Text = value
		default:
			all[last].quoted[value] = strings.TrimSpace(places)
		}
	}
	return all
}
