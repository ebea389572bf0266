package kit_test

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

func TestReplaceInDocument(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "doc.md")
	const before, after = "# Figures\n\n<!-- x:begin -->\n", "<!-- x:end -->\n\nThe end.\n"
	if err := os.WriteFile(path, []byte(before+"old\n"+after), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(kit.CheckDocument(path, "x"), kit.ReplaceInDocument(path, "x", "new\n")); err != nil {
		t.Fatal(err)
	}
	if written, err := os.ReadFile(path); err != nil || string(written) != before+"new\n"+after {
		t.Errorf("%q, %v", written, err)
	}
	for _, err := range []error{kit.CheckDocument(path, "y"), kit.ReplaceInDocument(path, "y", "")} {
		if err == nil || !strings.Contains(err.Error(), "has no lines") || !strings.Contains(err.Error(), "y:begin") {
			t.Errorf("without the lines: %v", err)
		}
	}
	if err := kit.CheckDocument(path+"x", "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no document: %v", err)
	}
}

// A chart is well-formed, names everything, and places no point outside of it, whatever the values are.
func TestChart(t *testing.T) {
	t.Parallel()
	points := func(values ...float64) (all []kit.Point) {
		for i, y := range values {
			all = append(all, kit.Point{X: float64(i), Y: y})
		}
		return all
	}
	path := filepath.Join(t.TempDir(), "chart.svg")
	err := kit.WriteChart(path, []kit.Panel{
		{Title: "Wait <p99>", Unit: "ms", X: "minutes", Log: true, Lines: []kit.Line{{"ours", points(0, 12, 340)}, {"other", points(math.NaN(), math.Inf(1))}}},
		{Title: "Memory", Unit: "MB", X: "streams", Places: []string{"100", "1000"}, Lines: []kit.Line{{"ours", points(10, 20)}}},
		{Title: "Nothing", Lines: []kit.Line{{"none", nil}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for decoder := xml.NewDecoder(strings.NewReader(string(file))); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if data, ok := token.(xml.CharData); ok {
			text += string(data) + "|"
		}
	}
	for _, want := range []string{"Wait <p99>|", "|ms|", "|minutes|", "|ours|", "|other|", "|1000|", "|MB|", "|10|"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %q", want, text)
		}
	}
	if strings.Contains(string(file), "NaN") || strings.Contains(string(file), "Inf") {
		t.Errorf("a point that is no place: %s", file)
	}
}
