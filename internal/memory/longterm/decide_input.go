package longterm

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/memory"

	"github.com/arcoscribe/throughline/internal/memory/text"
)

// WriteQuestion writes the input of a consolidation: the candidates, and the memories that they may have to do with, each on a
// line of its own. What they hold cannot begin a line.
func WriteQuestion(q Question) string {
	var b strings.Builder
	b.WriteString("NEW FACTS:\n")
	for n, o := range q.open {
		fmt.Fprintf(
			&b,
			"C%d [%s]: %s\n",
			n+1,
			notes(o.candidate.Type, o.candidate.ValidFrom, o.candidate.Precision, replacing(&o.candidate)),
			text.OneLine(o.candidate.Fact),
		)
	}
	b.WriteString("\nMEMORIES:\n")
	for n, k := range q.known {
		fmt.Fprintf(&b, "M%d [%s]: %s\n", n+1, notes(k.Type, k.ValidFrom, k.Precision, ""), text.OneLine(k.Content))
	}
	return strings.TrimRight(b.String(), "\n")
}

// notes is what stands in brackets: "fact, since 2025-03".
func notes(kind Type, from time.Time, precision memory.Precision, more string) string {
	note := string(kind)
	if !from.IsZero() {
		note += ", since " + from.UTC().Format(layoutOf(precision))
	}
	return note + more
}

func layoutOf(precision memory.Precision) string {
	switch precision {
	case memory.Year:
		return "2006"
	case memory.Month:
		return "2006-01"
	}
	return time.DateOnly
}

func replacing(c *Candidate) string {
	if c.Replaces == "" {
		return ""
	}
	return ", a change"
}

// Answer is one decision as the model answers it.
type Answer struct {
	Candidate string `json:"candidate"`
	Action    string `json:"action"`
	Memory    string `json:"memory"`
	Merged    string `json:"merged"`
	Reason    string `json:"reason"` // not kept: it may hold words of a memory that is erased later
}

// mostAnswers is how many decisions are read. There are fewer candidates.
const mostAnswers = 200

// The errors of Parse. Their text goes back to the model: it holds nothing of the answer.
var (
	errNoAnswer    = errors.New(`The previous answer could not be read as JSON. Answer with one JSON object of the form {"decisions": [...]} and nothing else.`)
	errNoDecisions = errors.New(`The previous answer had no list "decisions". Answer with one JSON object of the form {"decisions": [...]}, one decision ` +
		`for each new fact.`)
)

// ParseAnswers reads an answer. One that is not of the form is an error whose text tells the model so. A decision with a field of
// the wrong kind is left out: Validate adds its candidate.
func ParseAnswers(answer string) ([]Answer, error) {
	items, err := Items(answer, "decisions", mostAnswers, errNoAnswer, errNoDecisions)
	if err != nil {
		return nil, err
	}
	answers := []Answer{}
	for _, item := range items {
		var a Answer
		if err := json.Unmarshal(item, &a); err == nil {
			answers = append(answers, a)
		}
	}
	return answers, nil
}

// placeOfAlias reads an alias such as "M3": its place from 0, or -1 if it is none of so many.
func placeOfAlias(alias, letter string, count int) int {
	digits, ok := strings.CutPrefix(strings.ToUpper(strings.Trim(alias, " []")), letter)
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 1 || n > count {
		return -1
	}
	return n - 1
}
