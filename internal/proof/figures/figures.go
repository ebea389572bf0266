// Package figures keeps the documents true to what was measured. In README.md, docs/*.md and docs/results/*.md a figure stands between two
// comments that name it, which a reader does not see:
//
//	<!-- figure:stream_added_p50 -->1.90<!-- /figure -->
//
// The command that measures a figure writes it to every place that names it. The test of this package fails when two
// places differ, when a headline has no command, and when a command is gone.
package figures

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

var marked = regexp.MustCompile(`<!-- figure:([a-z0-9_]+) -->(.*?)<!-- /figure -->`)

// Mark returns a value with its name around it, for a document that a command writes.
func Mark(name, value string) string {
	if name == "" {
		return value
	}
	return "<!-- figure:" + name + " -->" + value + "<!-- /figure -->"
}

// Plain returns a text without names, for a terminal.
func Plain(text string) string { return marked.ReplaceAllString(text, "$2") }

// Write writes values to all places that name them in the documents of the repository in a folder. A figure without
// a place is an error, and then nothing is written.
func Write(root string, values map[string]string) (err error) {
	defer kit.Catch(&err)
	missing := maps.Clone(values)
	changed := map[string]string{}
	pages := kit.Must(filepath.Glob(filepath.Join(root, "docs", "*.md")))
	pages = append(pages, kit.Must(filepath.Glob(filepath.Join(root, "docs", "results", "*.md")))...)
	for _, path := range append(pages, filepath.Join(root, "README.md")) {
		text := string(kit.Must(os.ReadFile(path)))
		written := marked.ReplaceAllStringFunc(text, func(place string) string {
			name := marked.FindStringSubmatch(place)[1]
			value, measured := values[name]
			if !measured {
				return place
			}
			delete(missing, name)
			return Mark(name, value)
		})
		if written != text {
			changed[path] = written
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("no document names %s", strings.Join(slices.Sorted(maps.Keys(missing)), ", "))
	}
	for path, text := range changed {
		kit.Check(os.WriteFile(path, []byte(text), 0o644)) //nolint:gosec // a document of the repository
	}
	return nil
}

// Publish replaces the block of a page, and writes the figures that it names to all other places that name them.
func Publish(root, page, block, content string) error {
	if err := Replace(filepath.Join(root, page), block, content); err != nil {
		return err
	}
	named := map[string]string{}
	for _, found := range marked.FindAllStringSubmatch(content, -1) {
		named[found[1]] = found[2]
	}
	return Write(root, named)
}

// Replace replaces what stands between the lines <!-- name:begin --> and <!-- name:end --> of a document.
func Replace(path, name, content string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	begin, end := "<!-- "+name+":begin -->\n", "<!-- "+name+":end -->"
	before, rest, begins := strings.Cut(string(text), begin)
	_, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		return fmt.Errorf("%s has no lines %q and %q", path, strings.TrimSpace(begin), end)
	}
	return os.WriteFile(path, []byte(before+begin+content+end+after), 0o644) //nolint:gosec // a document of the repository
}
