package supabase_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Nothing is released, so a change of what a migration makes is made there: no later one changes or replaces it.
func TestMigrationsMakeEverythingOnce(t *testing.T) {
	t.Parallel()
	made := regexp.MustCompile(`(?im)^ *create (?:or replace )?(?:unique )?(function|table|view|(?:constraint )?trigger|index) ([\w.]+)`)
	changed := regexp.MustCompile(`(?im)^ *(?:drop|create or replace|alter table .*\badd column) .*|^ *add column .*`)
	functions, first := 0, map[string]string{}
	for file, text := range ourMigrations(t) {
		if strings.Contains(file, "_river_") {
			continue
		}
		for _, line := range changed.FindAllString(string(text), -1) {
			t.Errorf("%s: %s", file, line)
		}
		for _, found := range made.FindAllStringSubmatch(string(text), -1) {
			thing := strings.ToLower(found[1] + " " + found[2])
			if other, twice := first[thing]; twice {
				t.Errorf("%s is in %s and %s", thing, other, file)
			}
			first[thing] = file
			if found[1] == "function" {
				functions++
			}
		}
	}
	if functions < 50 {
		t.Errorf("%d functions were found in the migrations", functions)
	}
}

// What runs with its owner's rights passes by the policies, so the comment of each such function says why it has to.
func TestOwnersRightsHaveAReason(t *testing.T) {
	t.Parallel()
	function := regexp.MustCompile(`(?m)^((?:--.*\n)*)create function ([\w.]+)[^$]*security definer`)
	found := 0
	for file, text := range ourMigrations(t) {
		for _, match := range function.FindAllStringSubmatch(string(text), -1) {
			found++
			if !strings.Contains(match[1], "SECURITY DEFINER") && !strings.Contains(match[1], "SECURITY\n-- DEFINER") {
				t.Errorf("%s: %s does not say why", file, match[2])
			}
		}
	}
	if found < 10 {
		t.Errorf("%d functions with their owner's rights were found", found)
	}
}

// What an app's owner hands on about privacy names every table that there is.
func TestPrivacyPageNamesEveryTable(t *testing.T) {
	t.Parallel()
	named := strings.ReplaceAll(readText(t, "../docs/privacy.md"), "`…_", "`conversation_brief_")
	tables := 0
	for _, text := range ourMigrations(t) {
		for _, made := range regexp.MustCompile(`(?m)^create table public\.([a-z_]+)`).FindAllSubmatch(text, -1) {
			tables++
			if !strings.Contains(named, "`"+string(made[1])+"`") {
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
