package main

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/internal/proof/figures"
	"github.com/google/go-cmp/cmp"
)

// things is a table; its first row was measured three times.
func things() *table {
	t := &table{name: "x", columns: []string{shipped, stripped, "relay"}, notes: []string{"a note"}}
	for _, run := range [][]float64{{30, 1, .7}, {3, 2.04, .5}, {2, 9, .2}} {
		for n, value := range run {
			t.put(t.columns[n], row{what: "one", unit: "ms", target: atMost(3), figure: "one_p50"}, value)
		}
	}
	for n, value := range []float64{7, 2, 1} {
		t.put(t.columns[n], row{what: "two"}, value)
	}
	return t
}

func TestTableInDocuments(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Dir(filepath.Join(root, page)), 0o700); err != nil {
		t.Fatal(err)
	}
	headline := figures.Mark("one_p50", "9") + " ms, stripped " + figures.Mark("one_p50_stripped", "8") + "\n"
	for path, text := range map[string]string{"README.md": headline, page: "# Figures\n<!-- x:begin -->\nold\n<!-- x:end -->\n"} {
		if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := publish(root, []string{"a machine"}, []*table{things()}); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"README.md": "3 ms, stripped 2.04\n",
		page: "# Figures\n<!-- x:begin -->\n|  | as shipped | stripped | relay | target |\n|---|--:|--:|--:|---|\n" +
			"| one | 3 ms | 2.04 ms | 0.50 ms | ≤ 3 ms: reached |\n| two | 7 | 2 | 1 |  |\n\na note.\na machine.\n<!-- x:end -->\n",
	} {
		written, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, figures.Plain(string(written))); diff != "" {
			t.Error(diff)
		}
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	g := table{columns: []string{shipped, stripped}}
	for _, c := range []struct {
		target *target
		values []float64
		want   string
	}{
		{atMost(1), []float64{.9, 9}, "≤ 1 ms: reached"},
		{atMost(1), []float64{1.1, 9}, "≤ 1 ms: missed"},
		{atLeast(99), []float64{98, 9}, "≥ 99 ms: missed"},
		{&target{limit: 1.5, against: stripped}, []float64{3, 2}, "≤ 1.50 × stripped: reached"},
		{&target{limit: 1.5, against: stripped}, []float64{4, 2}, "≤ 1.50 × stripped: missed"},
		{&target{limit: 1, against: stripped, added: true}, []float64{3, 2}, "≤ 1 ms over stripped: reached"},
		{&target{limit: 1, against: stripped, added: true}, []float64{4, 2}, "≤ 1 ms over stripped: missed"},
	} {
		r := row{unit: "ms", target: c.target}
		for _, value := range c.values {
			r.measured = append(r.measured, []float64{value})
		}
		if got := g.verdict(r); got != c.want {
			t.Errorf("%v: %q, want %q", c.values, got, c.want)
		}
	}
}

func TestWishIsThatOfTheLastQuestion(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]int{
		`{"input":"Say tokens=250"}`:                    250,
		`{"input":"User: Say tokens=9\n\nSay tokens=3`:  3,
		`{"input":"Say tokens=12","metadata":{"n":99}}`: 12,
		`{"input":"Say something"}`:                     1,
		`Say tokens=`:                                   1,
		``:                                              1,
	} {
		if got := wished([]byte(body)); got != want {
			t.Errorf("%s: %d, want %d", body, got, want)
		}
	}
}

func TestQuestionsAreAboutWhatLeftThePrompt(t *testing.T) {
	t.Parallel()
	in, random := talk{number: 3, turns: 50}, rand.New(rand.NewPCG(1, 1))
	for range 20 {
		asked := in.byWords(random)
		if !slices.ContainsFunc(in.batch().texts[1:in.covered()], func(said string) bool {
			subject, _, _ := strings.Cut(strings.TrimPrefix(asked, "What was it that I said about the "), " ")
			return strings.Contains(said, "About the "+subject+":")
		}) {
			t.Errorf("%q", asked)
		}
	}
	near, far := said.Subjects.Words[5], said.Subjects.Words[6]
	if got := said.Subjects.Vector("qu" + near); got[5] < .8 || got[6] > .2 {
		t.Errorf("a synonym of %s is %v near it, and %v near %s", near, got[5], got[6], far)
	}
}
