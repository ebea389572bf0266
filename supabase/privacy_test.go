package supabase_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var tableMade = regexp.MustCompile(`(?m)^create table public\.([a-z_]+)`)

// What an app's owner hands on about privacy names every table that there is.
func TestPrivacyPageNamesEveryTable(t *testing.T) {
	t.Parallel()
	named := strings.ReplaceAll(readText(t, "../docs/privacy.md"), "`…_", "`conversation_brief_")
	files, err := filepath.Glob("migrations/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d migrations: %v", len(files), err)
	}
	tables := 0
	for _, file := range files {
		for _, made := range tableMade.FindAllStringSubmatch(readText(t, file), -1) {
			tables++
			if !strings.Contains(named, "`"+made[1]+"`") {
				t.Errorf("docs/privacy.md does not name the table %s", made[1])
			}
		}
	}
	if tables < 18 {
		t.Errorf("%d tables were found in the migrations", tables)
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
