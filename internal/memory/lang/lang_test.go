package lang_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/internal/memory/lang"
)

func TestEveryFileIsRead(t *testing.T) {
	t.Parallel()
	files, err := os.ReadDir("data")
	if err != nil || len(files) == 0 {
		t.Fatal("no data:", err)
	}
	for _, file := range files {
		name, ok := strings.CutSuffix(file.Name(), ".txt")
		if !ok {
			t.Errorf("%s is not read: it does not end in .txt", file.Name())
			continue
		}
		seen := map[string]bool{}
		for _, section := range lang.Sections(name) {
			if seen[section.Name] {
				t.Errorf("%s has two sections %q", name, section.Name)
			}
			seen[section.Name] = true
			if len(section.Words()) == 0 {
				t.Errorf("section %q of %s is empty", section.Name, name)
			}
		}
	}
}

func TestPatternsAreParagraphsOfAlternatives(t *testing.T) {
	t.Parallel()
	got := lang.Get("names", "afterName").Pattern()
	if !regexp.MustCompile(got).MatchString(" is a place") {
		t.Errorf("afterName does not match what stands behind a name: %s", got)
	}
	if got := len(lang.Get("orders", "meta").Patterns()); got < 2 {
		t.Errorf("%d patterns of meta, want one for each paragraph", got)
	}
}

func TestMissingDataPanics(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(){
		"file":    func() { lang.Sections("none") },
		"section": func() { lang.Get("names", "none") },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a missing %s is not noticed", name)
				}
			}()
			read()
		}()
	}
}
