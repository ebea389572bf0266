package longterm

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/memory"
)

// gateCase is a case of testdata/gate; see README.txt there.
type gateCase struct {
	name  string
	in    Input
	facts []expectedFact
}

type expectedFact struct {
	line   string
	fact   Finding
	mark   string // + ? -
	reason Reason // "any" for any
	fields map[string]string
}

func readGateCases(t testing.TB, file string) []gateCase {
	t.Helper()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	var cases []gateCase
	day := time.Date(2026, time.March, 14, 9, 0, 0, 0, time.UTC)
	seq := int64(0)
	for line := range strings.SplitSeq(string(content), "\n") {
		if name, ok := strings.CutPrefix(line, "# "); ok {
			cases = append(cases, gateCase{name: name})
			day = time.Date(2026, time.March, 14, 9, 0, 0, 0, time.UTC)
			continue
		}
		if line == "" || len(cases) == 0 {
			continue
		}
		c := &cases[len(cases)-1]
		kind, rest, _ := strings.Cut(line, " ")
		seq++
		message := Message{ID: uuid.New(), Seq: seq, Role: memory.RoleUser, Content: strings.ReplaceAll(rest, `\n`, "\n"),
			SaidAt: day.Add(time.Duration(seq) * time.Second)}
		switch kind {
		case "U:":
			c.in.New = append(c.in.New, message)
		case "A:":
			message.Role = memory.RoleAssistant
			c.in.New = append(c.in.New, message)
		case "R:":
			c.in.Recent = append(c.in.Recent, message)
		case "S:":
			message.Role = memory.RoleAssistant
			c.in.Recent = append(c.in.Recent, message)
		case "M:":
			c.in.Shown = append(c.in.Shown, rest)
		case "X:":
			c.in.Excluded = append(c.in.Excluded, rest)
		case "D:":
			if day, err = time.Parse(time.DateOnly, rest); err != nil {
				t.Fatal(err)
			}
		case "+", "-", "?":
			c.facts = append(c.facts, readFact(t, c.in, line, kind, rest))
		default:
			t.Fatalf("%s: %q is nothing", file, line)
		}
	}
	return cases
}

// aliasOf returns the alias of the user's first new message with a text, else of the first.
func aliasOf(in Input, quote string) string {
	for _, m := range numbered(in.New) {
		if m.Role == memory.RoleUser && strings.Contains(m.Content, quote) {
			return m.alias
		}
	}
	return "U1"
}

var fieldsAtEnd = regexp.MustCompile(` \| (?:horizon|type|confidence|evidence|from|to|entity|durable|not-durable|lang|since)(?:[= ].*)?$`)

func readFact(t testing.TB, in Input, line, kind, rest string) expectedFact {
	t.Helper()
	e := expectedFact{line: line, mark: kind, fields: map[string]string{}}
	if kind == "-" {
		reason, after, _ := strings.Cut(rest, " ")
		e.reason, rest = Reason(reason), after
	}
	confidence := .9
	e.fact = Finding{Type: "fact", Confidence: &confidence, Horizon: "lasting", Evidence: []string{"U1"}}
	if fields := fieldsAtEnd.FindString(rest); fields != "" {
		rest = strings.TrimSuffix(rest, fields)
		readFields(t, &e, strings.TrimPrefix(fields, " | "))
	}
	text, quote, _ := strings.Cut(" "+rest, " | ")
	e.fact.Fact, e.fact.Quote = strings.TrimSpace(text), quote
	if _, given := e.fields["evidence"]; !given {
		e.fact.Evidence = []string{aliasOf(in, quote)}
	}
	return e
}

func readFields(t testing.TB, e *expectedFact, fields string) {
	t.Helper()
	for field := range strings.FieldsSeq(fields) {
		name, value, _ := strings.Cut(field, "=")
		e.fields[name] = value
		switch name {
		case "horizon":
			e.fact.Horizon = value
		case "type":
			e.fact.Type = value
		case "confidence":
			e.fact.Confidence = nil
			if number, err := strconv.ParseFloat(value, 64); err == nil {
				e.fact.Confidence = &number
			}
		case "evidence":
			e.fact.Evidence = strings.Split(value, ",")
			if value == "none" {
				e.fact.Evidence = nil
			}
		case "from":
			e.fact.ValidFrom = value
		case "to":
			e.fact.ValidTo = value
		case "entity":
			entity, kind, _ := strings.Cut(value, ":")
			e.fact.Entities = append(e.fact.Entities, Entity{entity, kind})
		case "durable", "not-durable", "lang", "since":
		default:
			t.Fatalf("%s: there is no field %q", e.line, name)
		}
	}
}

// Each fact of testdata/gate is judged as it says there.
func TestGateCases(t *testing.T) {
	t.Parallel()
	files, _ := filepath.Glob("testdata/gate/*.txt")
	judged := 0
	for _, file := range files {
		if strings.HasSuffix(file, "README.txt") {
			continue
		}
		for _, c := range readGateCases(t, file) {
			for _, e := range c.facts {
				judged++
				if problem := e.problem(c.in); problem != "" {
					t.Errorf("%s, %s: %s\n\t%s", filepath.Base(file), c.name, problem, e.line)
				}
			}
		}
	}
	assert.Truef(t, judged >= 300, "only %d facts were judged", judged)
}

func (e expectedFact) problem(in Input) string {
	v := Gate(in, []Finding{e.fact})
	if e.mark == "-" {
		switch {
		case len(v.Candidates) > 0:
			return "it is kept"
		case e.reason != "any" && v.Dropped[e.reason] != 1:
			return fmt.Sprintf("it is dropped as %v", v.Dropped)
		}
		return ""
	}
	if len(v.Candidates) == 0 {
		return fmt.Sprintf("it is dropped as %v", v.Dropped)
	}
	c := v.Candidates[0]
	_, durable := e.fields["durable"]
	_, notDurable := e.fields["not-durable"]
	since, sinceGiven := e.fields["since"]
	switch {
	case c.Inbox != (e.mark == "?"):
		return fmt.Sprintf("inbox is %v, confidence %.2f", c.Inbox, c.Confidence)
	case durable && !c.Durable, notDurable && c.Durable:
		return fmt.Sprintf("durable is %v", c.Durable)
	case e.fields["lang"] != "" && e.fields["lang"] != c.Lang:
		return fmt.Sprintf("its language is %q", c.Lang)
	case sinceGiven && since != sinceOf(c):
		return fmt.Sprintf("it is valid since %q", sinceOf(c))
	case len(c.Evidence) == 0 || !slices.ContainsFunc(c.Evidence, func(e Evidence) bool { return e.Quote != "" }):
		return "it has no evidence"
	}
	return ""
}

func sinceOf(c Candidate) string {
	if c.ValidFrom.IsZero() {
		return "none"
	}
	return c.ValidFrom.Format(map[memory.Precision]string{memory.Day: time.DateOnly, memory.Month: "2006-01", memory.Year: "2006"}[c.Precision])
}
