package demo

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got)\n%s", path, diff)
	}
}

// sawtooth is a memory that is folded every 40 turns, and the history beside it.
func sawtooth(turns int) (memory, history []int) {
	for n := range turns {
		history = append(history, n*150)
		kept := n * 150
		if n >= 40 {
			kept = 500 + (3+n%40)*150
		}
		memory = append(memory, kept)
	}
	return memory, history
}

func TestChart(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ turns, width int }{
		"chart_sawtooth.txt": {130, 80},
		"chart_few.txt":      {5, 50},
		"chart_many.txt":     {400, 60},
	} {
		memory, history := sawtooth(test.turns)
		golden(t, name, chart(memory, history, test.width)+turnAxis(test.turns, test.width)+sparkline(memory, test.width)+"\n")
	}
}

func TestChartOfNothing(t *testing.T) {
	t.Parallel()
	if chart(nil, nil, 80) != "" || sparkline(nil, 80) != "" {
		t.Error("a chart without turns")
	}
	flat := chart([]int{0}, []int{0}, 80)
	if strings.ContainsAny(flat, "█░▁") {
		t.Errorf("a first turn without any past draws something:\n%s", flat)
	}
}

func TestChartStaysWithinItsWidth(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		memory := rapid.SliceOfN(rapid.IntRange(0, 5_000_000), 1, 500).Draw(t, "memory")
		history := rapid.SliceOfN(rapid.IntRange(0, 5_000_000), len(memory), len(memory)).Draw(t, "history")
		width := rapid.IntRange(1, 200).Draw(t, "width")
		drawn := chart(memory, history, width)
		if lines := strings.Count(drawn, "\n"); lines != chartRows {
			t.Fatalf("%d rows", lines)
		}
		for line := range strings.Lines(drawn) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > max(width, chartMargin+1) {
				t.Fatalf("a row of %d columns in a width of %d", n, width)
			}
		}
	})
}

func TestSpreadHidesNoPeak(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		values  []int
		columns int
		want    []int
	}{
		{[]int{1, 2}, 4, []int{1, 1, 2, 2}},
		{[]int{1, 9, 3, 4}, 2, []int{9, 4}},
		{[]int{1, 9, 3, 4, 7}, 2, []int{9, 7}},
		{[]int{5}, 3, []int{5, 5, 5}},
	} {
		if diff := cmp.Diff(test.want, spread(test.values, test.columns)); diff != "" {
			t.Errorf("%v on %d columns (-want +got)\n%s", test.values, test.columns, diff)
		}
	}
}
