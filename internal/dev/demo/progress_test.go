package demo

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/memory/prompt"
)

var someDay = time.Date(2026, 4, 12, 18, 40, 0, 0, time.UTC)

func TestPlainProgressIsALineNowAndThen(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	p := newProgress(&out, false, 80, 120)
	for range 120 {
		p.showText("text that only a terminal shows")
		p.turnDone(Turn{At: someDay, Receipt: prompt.Receipt{BriefVersion: 2, BriefTokens: 400, TailTokens: 900}}, 9876)
	}
	p.note("Once.")
	p.note("Once.")
	p.status("waiting for folds")
	p.end()
	if n := strings.Count(out.String(), "\n"); n != plainLines+1 {
		t.Errorf("%d lines", n)
	}
	if want := "  120 of 120: 2026-04-12, brief v2, memory 1,300 of 9,876 tokens\n  Once.\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("got\n%s", out.String())
	}
}

func TestInteractiveProgressRedrawsItsTwoLines(t *testing.T) {
	t.Parallel()
	const width = 60
	var out strings.Builder
	p := newProgress(&out, true, width, 4)
	p.showText("words\nof a \x1b[31mreply " + strings.Repeat("long ", 40))
	p.turnDone(Turn{At: someDay}, 10)
	p.note("A note.")
	p.status("asking: What\nwas it?")
	p.end()
	drawn := out.String()
	for _, said := range []string{"1/4", "2026-04-12", "  A note.\n", "asking: What was it?", "\x1b[2m  …", "long"} {
		if !strings.Contains(drawn, said) {
			t.Errorf("it does not show %q:\n%q", said, drawn)
		}
	}
	if strings.Contains(drawn, "\x1b[31m") || !strings.HasSuffix(drawn, "\r\x1b[J") {
		t.Errorf("drawn %q", drawn)
	}
	for part := range strings.SplitSeq(drawn, "\x1b[K") {
		line, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(part, "\r"), "\x1b[2m"), "\x1b")
		if line, _, _ = strings.Cut(line, "\n"); utf8.RuneCountInString(line) >= width {
			t.Errorf("a line of %d columns would wrap: %q", utf8.RuneCountInString(line), line)
		}
	}
}

func TestBar(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ done, total, full int }{{0, 10, 0}, {5, 10, barWidth / 2}, {10, 10, barWidth}, {12, 10, barWidth}, {0, 0, 0}} {
		got := bar(test.done, test.total)
		if strings.Count(got, "█") != test.full || utf8.RuneCountInString(got) != barWidth+2 {
			t.Errorf("%d of %d: %s", test.done, test.total, got)
		}
	}
}

func TestReportReturnsTheErrorOfItsWriter(t *testing.T) {
	t.Parallel()
	full := errors.New("full")
	if err := report(failing{full}, Summary{}, Options{}); !errors.Is(err, full) {
		t.Errorf("the report's error is %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
