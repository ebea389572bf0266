package offline

import (
	_ "embed" // what the model knows of tools
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

//go:embed tools.txt
var toolLines string

// asking is a way to ask for a tool, telling what is said of its result.
type (
	asking struct {
		tool, language string
		asked          *regexp.Regexp
	}
	telling struct{ tool, language, words string }
)

var asks, tells, numbers = parseTools(toolLines)

const numberOf = `\d{1,4}`

func parseTools(lines string) (asks []asking, tells []telling, numbers map[string]int) {
	numbers = map[string]int{}
	for line := range strings.Lines(lines) {
		head, rest, _ := strings.Cut(strings.TrimSpace(line), " | ")
		name := strings.Fields(head)
		switch {
		case len(name) != 3 || name[0] == "#":
		case name[2] == "words":
			for word := range strings.FieldsSeq(rest) {
				numbers[word], _ = strconv.Atoi(name[1])
			}
		case name[2] == "told":
			tells = append(tells, telling{name[0], name[1], rest})
		case name[2] == "ask":
			in := strings.NewReplacer(
				"{please}", `(?:(?:please|bitte|now|jetzt|(?:can|could|will|would) you|(?:kannst|könntest|würdest) du),? )*`,
				"{thanks}", `(?:,? (?:please|bitte|mal|for me|für mich|again|nochmal|noch einmal|einmal|now|jetzt))*`,
				"{count}", `(?P<count>`+strings.Join(slices.Sorted(maps.Keys(numbers)), "|")+`|`+numberOf+`)`,
				"{sides}", `(?P<sides>`+numberOf+`)`, "{to}", `(?P<to>[^\s:,]+)`, "{text}", `(?P<text>.+)`)
			asks = append(asks, asking{name[0], name[1], regexp.MustCompile(`(?is)^\s*` + in.Replace(rest) + `[\s.!?]*$`)})
		}
	}
	return asks, tells, numbers
}

// act is what the model does with tools: it calls those that the message asks for, and says how their calls ended. nil is neither.
func act(r *Request) []Item {
	current := strings.TrimSpace(withoutDirectives(r.Current))
	asked, language := requested(current)
	if r.Step > 0 {
		var said []string
		for _, call := range r.calls {
			said = append(said, tell(call, r.Outputs[call.callID], language))
		}
		return []Item{Text{Text: strings.Join(said, " ")}}
	}
	if r.Choice == "none" {
		return nil
	}
	var calls []Item
	for _, call := range slices.Concat(ordered(r.Current, current), asked) {
		if slices.Contains(r.Tools, call.Name) {
			calls = append(calls, call)
		}
	}
	if calls == nil && r.Choice == "required" {
		calls = []Item{Call{Name: r.Tools[0]}}
	}
	return calls
}

var slashCall = regexp.MustCompile(`(?s)^/([a-zA-Z0-9_-]{1,64})\s*(\{.*\})$`)

// ordered returns the calls that somebody who develops an app orders: [[offline:call=NAME]] or /NAME {json}.
func ordered(current, visible string) []Call {
	var calls []Call
	for _, found := range directive.FindAllStringSubmatch(current, -1) {
		if found[1] == "" && found[2] == "call" {
			calls = append(calls, Call{Name: found[3]})
		}
	}
	if found := slashCall.FindStringSubmatch(visible); found != nil {
		calls = append(calls, Call{Name: found[1], Arguments: found[2]})
	}
	return calls
}

// requested returns the calls that a message asks for, as a whole or sentence by sentence, and its language: English unless it asks in
// another.
func requested(text string) (calls []Call, language string) {
	if call, language, ok := match(text); ok {
		return []Call{call}, language
	}
	language = "en"
	for _, sentence := range sentences(text) {
		if call, spoken, ok := match(sentence); ok {
			calls, language = append(calls, call), spoken
		}
	}
	return calls, language
}

func match(text string) (call Call, language string, ok bool) {
	for _, way := range asks {
		found := way.asked.FindStringSubmatch(text)
		if found == nil {
			continue
		}
		arguments := object{}
		for n, name := range way.asked.SubexpNames() {
			if name != "" && found[n] != "" {
				arguments[name] = value(name, found[n])
			}
		}
		return Call{Name: way.tool, Arguments: arguments}, way.language, true
	}
	return Call{}, "", false
}

// value is an argument: how many is a number, all else is text.
func value(name, text string) any {
	if name != "count" && name != "sides" {
		return text
	}
	if number, ok := numbers[strings.ToLower(text)]; ok {
		return number
	}
	number, _ := strconv.Atoi(text) // of digits
	return number
}

var named = regexp.MustCompile(`\{(\w+)\}`)

// tell says how a call ended.
func tell(call said, output, language string) string {
	known := object{}
	_ = json.Unmarshal([]byte(call.text), &known) // arguments or an output that are no object name nothing
	_ = json.Unmarshal([]byte(output), &known)
	known["tool"], known["output"] = call.name, output
	for _, way := range tells {
		if way.language != language || way.tool != call.name && way.tool != "*" {
			continue
		}
		fits := true
		words := named.ReplaceAllStringFunc(way.words, func(name string) string {
			held, there := known[strings.Trim(name, "{}")]
			fits = fits && there
			return inWords(held)
		})
		if fits {
			return words
		}
	}
	return output
}

// inWords is a value in a sentence: the members of a list with commas.
func inWords(held any) string {
	list, ok := held.([]any)
	if !ok {
		return fmt.Sprint(held)
	}
	var all []string
	for _, one := range list {
		all = append(all, fmt.Sprint(one))
	}
	return strings.Join(all, ", ")
}
