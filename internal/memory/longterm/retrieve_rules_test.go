package longterm

import (
	_ "embed"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/testkit/golden"
)

//go:embed testdata/section.txt
var sectionText string

//go:embed testdata/used.txt
var usedText string

var now = time.Date(2026, time.April, 2, 12, 0, 0, 0, time.UTC)

// readMemory reads "content | precision from to"; the precision "until" has only the second date.
func readMemory(t *testing.T, line string) memory.Remembered {
	t.Helper()
	content, times, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " | ")
	m := memory.Remembered{ID: uuid.New(), Content: content, Confidence: 1, LastUsed: now}
	fields := strings.Fields(times)
	dates := make([]time.Time, 2)
	for n := 1; n < len(fields); n++ {
		var err error
		if dates[n-1], err = time.Parse(time.DateOnly, fields[n]); err != nil {
			t.Fatal(err)
		}
	}
	m.ValidFrom, m.ValidTo = dates[0], dates[1]
	if len(fields) > 0 {
		m.Precision = memory.Precision(fields[0])
	}
	if m.Precision == "until" {
		m.ValidFrom, m.ValidTo, m.Precision = time.Time{}, m.ValidFrom, memory.Day
	}
	return m
}

func TestGoldenSection(t *testing.T) {
	t.Parallel()
	var found []memory.Remembered
	for line := range strings.Lines(sectionText) {
		found = append(found, readMemory(t, line))
	}
	written, shown, tokens := Section(found, 1000)
	golden.Check(t, "section.golden", written+"\n")
	assert.Truef(t, len(shown) == len(found) && strings.Count(written, "\n")+1 == len(found) && tokens >= text.Tokens(written),
		"%d of %d memories in %d tokens", len(shown), len(found), tokens)
	for line := range strings.Lines(written) {
		assert.Falsef(t, prompt.LooksLikePrompt(line), "forged: %q", line)
		for _, p := range []string{prompt.Heading("memories"), prompt.Heading("question")} {
			assert.Falsef(t, strings.HasPrefix(line, p), "a heading: %q", line)
		}
	}
}

func TestSectionKeepsItsBudget(t *testing.T) {
	t.Parallel()
	long := memory.Remembered{ID: uuid.New(), Content: strings.Repeat("word ", 100)}
	found := []memory.Remembered{{ID: uuid.New(), Content: "Plays the cello."}, long, {ID: uuid.New(), Content: "Eats no nuts."}}
	written, shown, tokens := Section(found, 20)
	assert.Truef(t, written == "- Plays the cello.\n- Eats no nuts." && len(shown) == 2 && shown[1].ID == found[2].ID && tokens <= 20,
		"%q, %d tokens", written, tokens)
	if written, shown, tokens := Section(found, 0); written != "" || shown != nil || tokens != 0 {
		t.Errorf("no room: %q", written)
	}
}

func TestUsed(t *testing.T) {
	t.Parallel()
	for line := range strings.Lines(usedText) {
		fields := strings.Split(strings.TrimSpace(line), " | ")
		if len(fields) != 4 || strings.HasPrefix(line, "#") {
			continue
		}
		got := Used(fields[0], fields[1], fields[2])
		assert.Truef(t, got == (fields[3] == "yes"), "%v, want %s", got, line)
	}
}

func foundOf(content string, change func(*Found)) Found {
	c := Found{
		Remembered: memory.Remembered{ID: uuid.NewSHA1(uuid.Nil, []byte(content)), Content: content, Confidence: 1, LastUsed: now}, All: 100,
	}
	if change != nil {
		change(&c)
	}
	return c
}

func TestGoldenScores(t *testing.T) {
	t.Parallel()
	found := []Found{
		foundOf("two words", func(c *Found) { c.Words, c.Rarest = 7, 1 }),
		foundOf("one word", func(c *Found) { c.Words, c.Rarest = 4, 3 }),
		foundOf("one word, long unused", func(c *Found) {
			c.Words, c.Rarest, c.LastUsed = 4, 3, now.AddDate(0, 0, -250)
		}),
		foundOf("one word, unsure", func(c *Found) { c.Words, c.Rarest, c.Confidence = 4, 3, .5 }),
		foundOf("one word and near", func(c *Found) { c.Words, c.Rarest, c.Cosine, c.HasCosine, c.Near = 4, 3, .8, true, true }),
		foundOf("near", func(c *Found) { c.Cosine, c.HasCosine, c.Near = .8, true, true }),
		foundOf("far", func(c *Found) { c.Cosine, c.HasCosine = .1, true }),
		foundOf("named", func(c *Found) { c.Named = 1 }),
		foundOf("a common word", func(c *Found) { c.Words, c.Rarest = .5, 60 }),
	}
	first := []memory.Remembered{
		{Content: "pinned", Pinned: true}, {Content: "durable", Durable: true}, {Content: "durable and too long " + strings.Repeat("x ", 100), Durable: true},
		found[0].Remembered,
	}
	var out strings.Builder
	scores := scored(found, now)
	for n := range found {
		fmt.Fprintf(&out, "%6.3f  %s\n", scores[n], found[n].Content)
	}
	fmt.Fprintln(&out, "\nshown:")
	for _, m := range choose(first, found, Query{Now: now}, 100) {
		fmt.Fprintln(&out, "  "+m.Content)
	}
	golden.Check(t, "scores.golden", out.String())
	alone := scored(found[8:9], now)
	assert.Equalf(t, 1.05, alone[0], "a single candidate has %v", alone)
	none := choose(nil, nil, Query{Now: now}, 100)
	assert.Truef(t, none == nil, "of none: %v", none)
}

func TestWhatThePromptSaysIsNotRepeated(t *testing.T) {
	t.Parallel()
	here, elsewhere := uuid.New(), uuid.New()
	q := Query{ChatID: here, Shown: []memory.Message{
		{Seq: 5, Content: "Am I allergic to walnuts?"}, {Seq: 6, Content: "You are allergic to walnuts, I guess."},
		{Seq: 7, Content: "By the way,\nI play the   cello on Sundays."}, {Seq: 8, Content: "How nice!"}, {Seq: 9, Content: "A long text with […] in it."},
	}}
	source := func(chat uuid.UUID, seq int64, quote string) memory.Said {
		return memory.Said{ChatID: chat, Seq: seq, Quote: quote}
	}
	cello := source(here, 7, "I play the cello")
	for name, c := range map[string]struct {
		memory memory.Remembered
		want   bool
	}{
		"its message is shown":              {memory.Remembered{Sources: []memory.Said{cello}}, true},
		"one of two is":                     {memory.Remembered{Sources: []memory.Said{cello, source(elsewhere, 7, "cello")}}, true},
		"another chat's":                    {memory.Remembered{Sources: []memory.Said{source(elsewhere, 7, "I play the cello")}}, false},
		"the message is shown without them": {memory.Remembered{Sources: []memory.Said{source(here, 9, "I play the cello")}}, false},
		"it left the prompt":                {memory.Remembered{Sources: []memory.Said{source(here, 3, "I play the cello")}}, false},
		"pinned":                            {memory.Remembered{Pinned: true, Sources: []memory.Said{cello}}, false},
		"corrected since":                   {memory.Remembered{Edited: true, Sources: []memory.Said{cello}}, false},
		"a question and a guess":            {memory.Remembered{Content: "Is allergic to walnuts."}, false},
		"the same words, said elsewhere": {memory.Remembered{
			Content: "I play the cello on Sundays.", Sources: []memory.Said{source(elsewhere, 1, "cello")}}, false},
	} {
		assert.Equalf(t, c.want, isSaid(&c.memory, q), "%s", name)
	}
}
