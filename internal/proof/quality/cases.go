package main

import (
	"embed"
	"slices"
	"strings"

	"github.com/arcoscribe/throughline/internal/proof/people"
)

// The cases of suites are tables: a line is a case, with bars between its columns, and \n for line ends within them.
//
//	truths     a fact as a model writes it down, as the user says it, as a model writes it down when the user says it again
//	sessions   the kind of a step of a session with an agent, a role, what it says, and the reply
//	junk       a mark of messages, a fact that a bad model makes of them, and its quote; "" for the message's first line
//	changes    what a person says at one step of a chain, and the fact; an empty line ends a chain
//	payloads   "order", which nothing said in a conversation may turn into a memory, or "forge", which a memory may hold as
//	           long as it stays one line of its section; and the text
//	languages  a language, a fact as people say it, as it is to be remembered, and the same in English
//	events     days from the message to something with a day, as people say it, and as a model writes it down with the day
//	           and without
//	smalltalk  what says nothing that anything known could help with
//	advice     sentences of replies, with nothing to remember
//
//go:embed testdata
var testdata embed.FS

func cases(name string, columns int) (all [][]string) {
	content, _ := testdata.ReadFile("testdata/" + name + ".txt") // the test reads them all
	for line := range strings.Lines(string(content)) {
		row := strings.SplitN(strings.TrimRight(line, "\n"), "|", columns)
		for n := range row {
			row[n] = strings.ReplaceAll(row[n], `\n`, "\n")
		}
		all = append(all, row)
	}
	return all
}

// truth is something worth keeping: as a model writes it down, as the user says it, and as a model writes it down when
// the user says it again.
type truth struct{ fact, says, again string }

// truths are forty things of one person, each another facet.
var truths = func() (all []truth) {
	for _, row := range cases("truths", 3) {
		all = append(all, truth{row[0], row[1], row[2]})
	}
	return all
}()

// truthOf returns which of the known a memory says, -1 for none.
func truthOf(content string, known []truth) int {
	return slices.IndexFunc(known, func(t truth) bool { return strings.Contains(content, t.fact) || strings.Contains(content, t.again) })
}

// facts are what a good model makes of a message that says something known, sometimes in other words.
func facts(one people.Line, known []truth, inOthers func(n int) bool) (all []people.Fact) {
	for n, t := range known {
		if !strings.Contains(one.Text, t.says) {
			continue
		}
		text := t.fact
		if inOthers(n) {
			text = t.again
		}
		all = append(all, people.Keep(text, t.says, one.Alias))
	}
	return all
}

// sameAgain decides that the same in other words is nothing new.
func sameAgain(known []truth) func(people.Line, []people.Line) *people.Decision {
	return func(c people.Line, memories []people.Line) *people.Decision {
		for _, m := range memories {
			if t := truthOf(c.Text, known); t >= 0 && t == truthOf(m.Text, known) {
				return &people.Decision{Action: "NOOP", Memory: &m.Alias, Reason: "It is known."}
			}
		}
		return nil
	}
}

func lower(text string) string { return strings.ToLower(text[:1]) + text[1:] }
