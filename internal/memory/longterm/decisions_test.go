package longterm

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/memory"
)

// decisionCase is a case of testdata/decisions.txt.
type decisionCase struct {
	name      string
	candidate Candidate
	known     Known
	answer    string // "" where the model is not to be asked
	want      string
}

var bracketed = regexp.MustCompile(`^\[([^\]]*)\] `)

func readDecisions(t *testing.T) []decisionCase {
	t.Helper()
	content, err := os.ReadFile("testdata/decisions.txt")
	require.NoError(t, err)
	var cases []decisionCase
	for line := range strings.SplitSeq(string(content), "\n") {
		if name, ok := strings.CutPrefix(line, "# "); ok {
			cases = append(cases, decisionCase{name: name})
			continue
		}
		if line == "" || len(cases) == 0 {
			continue
		}
		c := &cases[len(cases)-1]
		kind, rest, _ := strings.Cut(line, " ")
		fields := map[string]string{}
		if match := bracketed.FindStringSubmatch(rest); match != nil {
			for field := range strings.FieldsSeq(match[1]) {
				key, value, _ := strings.Cut(field, "=")
				fields[key] = value
			}
			rest = strings.TrimPrefix(rest, match[0])
		}
		switch kind {
		case "C:":
			c.candidate = candidateOf(t, rest, fields)
		case "M:":
			c.known = knownOf(t, rest, fields)
		case ">":
			c.answer = rest
		case "=":
			c.want = rest
		default:
			t.Fatalf("%q is nothing", line)
		}
	}
	return cases
}

func candidateOf(t *testing.T, fact string, fields map[string]string) Candidate {
	t.Helper()
	c := Candidate{Fact: fact, Type: Fact, Confidence: number(t, fields, "conf", .9), ValidFrom: day(t, fields, "from"),
		Precision: memory.Month}
	c.Inbox = c.Confidence < .5
	said := day(t, fields, "said")
	if said.IsZero() {
		said = time.Date(2026, time.March, 14, 0, 0, 0, 0, time.UTC)
	}
	c.Evidence = []Evidence{{MessageID: uuid.New(), SaidAt: said, Alone: true}}
	return c
}

func knownOf(t *testing.T, content string, fields map[string]string) Known {
	t.Helper()
	k := Known{Memory: Memory{
		ID: uuid.New(), Content: content, Type: Fact, Status: Active, Confidence: number(t, fields, "conf", .9), ValidFrom: day(t, fields,
			"from"), Precision: memory.Month,
	}}
	has := func(field string) bool { _, ok := fields[field]; return ok }
	k.SameKey, k.Pinned, k.Edited = has("key"), has("pinned"), has("edited")
	if has("archived") {
		k.Status = Archived
	}
	if has("inbox") {
		k.Status = Inbox
	}
	k.WordsPlace = 1
	if has("sim") {
		k.Cosine, k.HasCosine, k.VectorPlace = number(t, fields, "sim", 0), true, 1
	}
	if said := day(t, fields, "said"); !said.IsZero() {
		k.SaidAt = said
	}
	return k
}

func number(t *testing.T, fields map[string]string, field string, otherwise float64) float64 {
	t.Helper()
	value, ok := fields[field]
	if !ok {
		return otherwise
	}
	n, err := strconv.ParseFloat(value, 64)
	require.NoError(t, err)
	return n
}

func day(t *testing.T, fields map[string]string, field string) time.Time {
	t.Helper()
	value, ok := fields[field]
	if !ok {
		return time.Time{}
	}
	layout := time.DateOnly[:len(value)]
	at, err := time.Parse(layout, value)
	require.NoError(t, err)
	return at
}

func same(cosine float64) float64 { return cosine }

// Each candidate of testdata/decisions.txt meets the decision that stands there.
func TestDecisions(t *testing.T) {
	t.Parallel()
	cases := readDecisions(t)
	assert.Truef(t, len(cases) >= 40, "there are only %d cases", len(cases))
	for _, c := range cases {
		assert.Equalf(t, "", c.problem(), "%s", c.name)
	}
}

func (c *decisionCase) problem() string {
	q, decisions := Settle([]Candidate{c.candidate}, [][]Known{{c.known}}, Rules{Similarity: same})
	asked := q.Open() == 1
	switch {
	case asked != (c.answer != "" || c.want == "ask"):
		return "asked is " + strconv.FormatBool(asked)
	case c.want == "ask":
		return ""
	case asked:
		decisions = Validate(q, c.answers())
	}
	if len(decisions) != 1 {
		return strconv.Itoa(len(decisions)) + " decisions"
	}
	action, more, _ := strings.Cut(c.want, " ")
	return compare(decisions[0], action, more, c)
}

func (c *decisionCase) answers() []Answer {
	action, merged, _ := strings.Cut(c.answer, " ")
	if action == "nothing" {
		return nil
	}
	a := Answer{Candidate: "C1", Action: action, Memory: "M1", Merged: merged}
	if action != "UPDATE" && merged != "" {
		a.Memory, a.Merged = strings.TrimPrefix(merged, "null"), ""
	}
	return []Answer{a}
}

func compare(d Decision, action, more string, c *decisionCase) string {
	status := map[string]Status{"inbox": Inbox, "superseded": Superseded, "active": Active}[more]
	changes := d.Action == Update || d.Action == Delete || d.Action == Noop || d.Action == Unarchive
	switch {
	case string(d.Action) != action:
		return "it is " + string(d.Action) + ": " + d.Reason
	case status != "" && d.Status != status:
		return "its status is " + string(d.Status)
	case status == "" && d.Action == Add && d.Status != Active:
		return "its status is " + string(d.Status)
	case status == "" && more != "" && d.Content != more:
		return "its content is " + d.Content
	case changes != (d.Memory == c.known.ID):
		return "it names the memory " + d.Memory.String()
	case (d.Action == Add || d.Action == Delete) && d.Content != c.candidate.Fact:
		return "the fact is lost: " + d.Content
	case d.Reason == "" || strings.Contains(d.Reason, "cello"):
		return "its reason is " + d.Reason
	case d.Status == Superseded && (d.SupersededBy != c.known.ID || d.ValidTo.IsZero()):
		return "nothing superseded it"
	case d.Action == Delete && d.ValidTo.IsZero():
		return "nobody knows until when the old was true"
	case (d.Action == Noop || d.Action == Unarchive) && d.Confidence <= c.known.Confidence:
		return "its confidence is not raised"
	}
	return ""
}
