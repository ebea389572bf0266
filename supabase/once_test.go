package supabase_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Nothing is released, so a change of what a migration makes is made there: no later one changes or replaces it.
func TestMigrationsMakeEverythingOnce(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("migrations/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d migrations: %v", len(files), err)
	}
	made := regexp.MustCompile(`(?im)^ *create (?:or replace )?(?:unique )?(function|table|view|(?:constraint )?trigger|index) ([\w.]+)`)
	changed := regexp.MustCompile(`(?im)^ *(?:drop|create or replace|alter table .*\badd column) .*|^ *add column .*`)
	functions, first := 0, map[string]string{}
	for _, file := range files {
		if strings.Contains(file, "_river_") {
			continue
		}
		text := readText(t, file)
		for _, line := range changed.FindAllString(text, -1) {
			t.Errorf("%s: %s", file, line)
		}
		for _, found := range made.FindAllStringSubmatch(text, -1) {
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
	files, err := filepath.Glob("migrations/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d migrations: %v", len(files), err)
	}
	function := regexp.MustCompile(`(?m)^((?:--.*\n)*)create function ([\w.]+)[^$]*security definer`)
	found := 0
	for _, file := range files {
		for _, match := range function.FindAllStringSubmatch(readText(t, file), -1) {
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
