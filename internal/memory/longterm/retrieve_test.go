package longterm

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/testkit/golden"
)

// drawer is a store of one memory with the words, and one with the meaning of every message, and the embedder and the
// scale of its vectors.
type drawer struct {
	words, meaning bool
	languages      string
	failure        error
	trips          int
}

func (d *drawer) Candidates(_ context.Context, _ auth.Principal, ask Ask) ([]Found, error) {
	d.trips++
	var found []Found
	if d.words {
		found = append(found, foundOf("by words", func(c *Found) { c.Words, c.Rarest = 5, 1 }))
	}
	if d.meaning && ask.Vector.Values != nil {
		found = append(found, foundOf("by meaning", func(c *Found) { c.Cosine, c.HasCosine = .8, true }),
			foundOf("far", func(c *Found) { c.Cosine, c.HasCosine = .4, true }))
	}
	return found, nil
}

func (d *drawer) Model() string { return "m" }

func (d *drawer) ReadScale(context.Context, string) (recall.Scale, bool, error) {
	return recall.Scale{P50: .2, P99: .6, Languages: d.languages, List: recall.SentenceList}, true, nil
}

func (d *drawer) SaveScale(context.Context, string, recall.Scale) error { return nil }

// vectors makes a vector of every text.
type vectors struct{ *drawer }

func (v vectors) Embed(context.Context, recall.For, []string) ([][]float32, error) {
	if v.failure != nil {
		return nil, v.failure
	}
	return [][]float32{{1}}, nil
}

func questions(store *drawer) *recall.Questions {
	return &recall.Questions{Embedder: vectors{store}, Scales: recall.NewScales(store, vectors{store})}
}

// many are too many memories to be shown without a search.
var many = memory.Memories{On: true, Active: 300}

func TestRetrieve(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		store drawer
		text  string
		want  string
		trips int
		fails bool
	}{
		"no word but function words asks nothing": {drawer{words: true, meaning: true}, "What is it that you are?", "", 0, false},
		"words of any chat are words of memories": {drawer{words: true}, "What is my name?", "by words", 1, false},
		"meaning, where words find nothing":       {drawer{meaning: true}, "Which bow?", "by meaning", 2, false},
		"nothing":                                 {drawer{}, "Which bow?", "", 2, false},
		"a language that the model does not read": {drawer{meaning: true, languages: "en"}, "Welcher Bogen ist das?", "", 1, false},
		"one that it reads":                       {drawer{meaning: true, languages: "en"}, "Which bow is that?", "by meaning", 2, false},
		"the embedder fails":                      {drawer{meaning: true, failure: errors.New("away")}, "Which bow?", "", 1, true},
	} {
		store := &c.store
		r := &Retriever{Store: store, Questions: questions(store), Tokens: SectionTokens}
		found, err := r.Retrieve(t.Context(), auth.Principal{}, Query{Text: c.text, Known: many, Now: now})
		got := contents(found)
		assert.Truef(t, got == c.want && store.trips == c.trips && (err != nil) == c.fails, "%s: %q in %d trips, %v", name, got, store.trips, err)
	}
}

// The vector is not waited for where words have found something: its failure does no harm.
func TestRetrieveByWordsNeedsNoVector(t *testing.T) {
	t.Parallel()
	store := &drawer{words: true, failure: errors.New("away")}
	for name, config := range map[string]*Retriever{
		"without an embedder": {Store: store, Tokens: SectionTokens},
		"with one that fails": {Store: store, Questions: questions(store), Tokens: SectionTokens},
	} {
		found, err := config.Retrieve(t.Context(), auth.Principal{}, Query{Text: "Which bow?", Known: many, Now: now})
		assert.Truef(t, err == nil && contents(found) == "by words", "%s: %v, %v", name, found, err)
	}
}

// Nor is it made where another search has answered the message.
func TestRetrieveMakesNoVectorForWhatIsAnswered(t *testing.T) {
	t.Parallel()
	for answered, want := range map[bool]string{true: "", false: "by meaning"} {
		store := &drawer{meaning: true}
		r := &Retriever{Store: store, Questions: questions(store), Tokens: SectionTokens}
		query := Query{Text: "Which bow?", Known: many, Now: now, Answered: func(context.Context) bool { return answered }}
		found, err := r.Retrieve(t.Context(), auth.Principal{}, query)
		assert.Truef(t, err == nil && contents(found) == want, "answered %v: %v, %v", answered, found, err)
	}
}

// All memories are shown without a search as long as they fit, for any message.
func TestAFewMemoriesAreAllShown(t *testing.T) {
	t.Parallel()
	few := memory.Memories{On: true, Active: 2, First: []memory.Remembered{{Content: "Is called Ada."}, {Content: "Has a dog named Bruno."}}}
	store := &drawer{words: true, meaning: true, failure: errors.New("away")}
	r := &Retriever{Store: store, Questions: questions(store), Tokens: SectionTokens}
	for _, message := range []string{"What is my name?", "What is my pet called?", "Wie heiße ich?", "ok, thanks", "", "?!"} {
		found, err := r.Retrieve(t.Context(), auth.Principal{}, Query{Text: message, Known: few, Now: now})
		assert.Truef(t, err == nil && contents(found) == "Is called Ada. Has a dog named Bruno." && store.trips <= 0,
			"%q: %v, %v in %d trips", message, found, err, store.trips)
	}
	tight := &Retriever{Store: store, Tokens: 10}
	found, err := tight.Retrieve(t.Context(), auth.Principal{}, Query{Text: "Which bow?", Known: few, Now: now})
	assert.Truef(t, err == nil && contents(found) == "by words", "where they do not fit: %v, %v", found, err)
}

// A search that fails leaves the memories that are shown for any message, and those with its words that came with the turn.
func TestASearchThatFailsHidesNothing(t *testing.T) {
	t.Parallel()
	known := memory.Memories{On: true, Active: 300, First: []memory.Remembered{{ID: uuid.New(), Content: "Is called Ada.", Durable: true},
		{ID: uuid.New(), Content: "Rents a flat."}, {ID: uuid.New(), Content: "Owns two bows."}}}
	store := &drawer{failure: errors.New("away")}
	r := &Retriever{Store: store, Questions: questions(store), Tokens: SectionTokens}
	found, err := r.Retrieve(t.Context(), auth.Principal{}, Query{Text: "Which bow?", Known: known, Now: now})
	assert.Truef(t, err != nil && contents(found) == "Is called Ada. Owns two bows.", "%v, %v", found, err)
}

func contents(found []memory.Remembered) string {
	var all []string
	for i := range found {
		all = append(all, found[i].Content)
	}
	return strings.Join(all, " ")
}

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
		assert.Equalf(t, fields[3] == "yes", Used(fields[0], fields[1], fields[2]), "want %s", line)
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
	assert.Equal(t, 1.05, scored(found[8:9], now)[0], "a single candidate has")
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
