package dialogs

import (
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var firstFive = regexp.MustCompile(`\*\*recall, words\*\* \| ([0-9.]+) `)

// Our own dialogs are asked about through the real store: nearly every fact is among the first five messages.
func TestFactsOfOwnDialogsAreFound(t *testing.T) {
	t.Parallel()
	result, err := Recall(t.Context(), Options{Quick: true}, root, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	text := result.Text
	for _, way := range []string{"ts_rank", "BM25", "recall, words"} {
		if !strings.Contains(text, way) {
			t.Errorf("no row of %s", way)
		}
	}
	t.Log(text)
	const least = 85 // %; without vectors nothing in the run is left to chance
	found := firstFive.FindStringSubmatch(text)
	if found == nil {
		t.Fatal("no figure")
	}
	if share, err := strconv.ParseFloat(found[1], 64); err != nil || share < least {
		t.Errorf("%s %% of the facts are among the first five messages", found[1])
	}
}

func TestOwnDialogsAreWellFormed(t *testing.T) {
	t.Parallel()
	s, err := readOwn()
	if err != nil || len(s.dialogs) < 12 {
		t.Fatalf("%v", err)
	}
	for _, d := range s.dialogs {
		for _, q := range d.questions {
			for _, id := range q.messages {
				if !slices.ContainsFunc(d.messages, func(m message) bool { return m.id == id && m.role == "user" }) {
					t.Errorf("%s: %q is answered by %q", d.name, q.text, id)
				}
			}
		}
	}
}

func TestARowCountsShares(t *testing.T) {
	t.Parallel()
	d := &dialog{}
	for n, session := range []string{"one", "one", "two", "three"} {
		d.messages = append(d.messages, message{id: string(rune('a' + n)), session: session})
	}
	var r row
	r.add(d, question{messages: []string{"c", "a"}}, []int64{2, 4, 3}, time.Second)
	if r.asked != 1 || !slices.Equal(r.messages, []float64{.5, .5, .5, .5}) || !slices.Equal(r.sessions, []float64{1, 1}) {
		t.Errorf("%+v", r)
	}
}
