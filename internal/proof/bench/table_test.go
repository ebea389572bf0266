package main

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/proof/figures"
	"github.com/google/go-cmp/cmp"
)

func table() group {
	g := group{name: "x", title: "things", columns: []string{shipped, stripped, roleRelay}, notes: []string{"a note"}}
	g.add(row{what: "one", unit: "ms", values: []float64{3, 2.04, .5}, target: atMost(3), figure: "one_p50"},
		row{what: "two", values: []float64{7, 2, 1}})
	return g
}

func TestTableForATerminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	g := table()
	if err := g.print(&out); err != nil {
		t.Fatal(err)
	}
	const want = "\nx: things\n" +
		"       as shipped  stripped  bare line relay  target\n" +
		"  one  3 ms        2.04 ms   0.50 ms          ≤ 3 ms: reached\n" +
		"  two  7           2         1                \n" +
		"    a note\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestTableInDocuments(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "docs"), 0o700); err != nil {
		t.Fatal(err)
	}
	headline := figures.Mark("one_p50", "9") + " ms, stripped " + figures.Mark("one_p50_stripped", "8") + "\n"
	for path, text := range map[string]string{"README.md": headline, page: "# Figures\n<!-- x:begin -->\nold\n<!-- x:end -->\n"} {
		if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := writeDocuments(root, []string{"a machine"}, []group{table()}); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"README.md": "3 ms, stripped 2.04\n",
		page: "# Figures\n<!-- x:begin -->\n|  | as shipped | stripped | bare line relay | target |\n|---|--:|--:|--:|---|\n" +
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
	g := group{columns: []string{shipped, stripped}}
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
		if got := g.verdict(row{unit: "ms", values: c.values, target: c.target}); got != c.want {
			t.Errorf("%v: %q, want %q", c.values, got, c.want)
		}
	}
}

func TestMedianOfThreeRuns(t *testing.T) {
	t.Parallel()
	run := func(values ...float64) group { return group{name: "x", rows: []row{{what: "a", values: values}}} }
	got := mediansOf([][]group{{run(10, 5), run(30, 10), run(20, 40)}, nil})
	if diff := cmp.Diff([]float64{20, 10}, got[0].rows[0].values); diff != "" || len(got) != 1 {
		t.Errorf("%d groups, %s", len(got), diff)
	}
}

func TestGrowthComparesWholeCycles(t *testing.T) {
	t.Parallel()
	var talk []remembered
	for n, version := range []int64{0, 0, 1, 1, 2, 3, 3, 3, 4} {
		talk = append(talk, remembered{Receipt: prompt.Receipt{BriefVersion: version, TailTokens: 10 * (n + 1)}})
	}
	if got, want := growth(talk), 2.0; got != want { // turns 3 and 4 with 35 tokens, 6 to 8 with 70
		t.Errorf("%v, want %v", got, want)
	}
	if got := growth(talk[:4]); got != 0 {
		t.Errorf("%v without two folds", got)
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
	in, again := talk{number: 3, turns: 50}, talk{number: 3, turns: 50}
	if in.message(7) != again.message(7) || in.message(7) == in.message(8) {
		t.Error("a message is not the same whenever it is asked for")
	}
	random := rand.New(rand.NewPCG(1, 1))
	if asked := in.question(random, false); !strings.HasPrefix(asked, "What was it that I said about the ") || strings.Contains(asked, " "+synonym) {
		t.Errorf("%q", asked)
	}
	near := vectorOf("say " + synonym + lexeme(5))
	if diff := cmp.Diff(vectorOf(lexeme(5)), near); diff != "" || strings.HasPrefix(lexeme(5), synonym) {
		t.Errorf("a synonym means something else: %s", diff)
	}
}
