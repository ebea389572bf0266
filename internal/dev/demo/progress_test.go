package demo

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestPlainProgressIsALineNowAndThen(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	p := newProgress(&out, false, 120)
	for range 120 {
		p.showText("text that only a terminal shows")
		p.turnDone("brief v2")
	}
	p.note("Once.")
	p.note("Once.")
	p.status("waiting for folds")
	p.end()
	if n := strings.Count(out.String(), "\n"); n != plainLines+1 {
		t.Errorf("%d lines", n)
	}
	if want := "  120 of 120: brief v2\n  Once.\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("got\n%s", out.String())
	}
}

func TestInteractiveProgressRedrawsItsTwoLines(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	p := newProgress(&out, true, 4)
	p.showText("words\nof a \x1b[31mreply " + strings.Repeat("long ", 40))
	p.turnDone("2026-04-12, " + strings.Repeat("far ", 40))
	p.note("A note.")
	p.status("asking: What\nwas it?")
	p.end()
	drawn := out.String()
	for _, said := range []string{"1/4", "2026-04-12", "  A note.\n", "asking: What was it?", "…", "long"} {
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

func TestReportReturnsTheErrorOfItsWriter(t *testing.T) {
	t.Parallel()
	full := errors.New("full")
	if err := (&Summary{}).report(t.Context(), Options{Out: failing{full}}); !errors.Is(err, full) {
		t.Errorf("the report's error is %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
