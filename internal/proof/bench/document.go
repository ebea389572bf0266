package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// writeDocument puts the table into a document, in the place of what a run found before. All else in it is left
// as it is.
func writeDocument(path string, chosen []benchmark, host []string, groups []group) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	name := "bench"
	if slices.ContainsFunc(chosen, func(b benchmark) bool { return b.byHand }) {
		name = "peers"
	}
	begin, end := "<!-- "+name+":begin -->\n", "<!-- "+name+":end -->"
	before, rest, found := strings.Cut(string(text), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		return fmt.Errorf("%s has no lines %q and %q", path, strings.TrimSpace(begin), end)
	}
	var table strings.Builder
	if err := writeTable(&table, host, groups); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(before+begin+"```\n"+table.String()+"```\n"+end+after), 0o644) //nolint:gosec // a document is for everybody
}
