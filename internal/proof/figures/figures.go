// Package figures keeps the documents true to the measured figures. In README.md, docs/*.md and docs/results/*.md a figure stands between two
// comments that name it, which a reader does not see:
//
//	<!-- figure:stream_added_p50 -->1.90<!-- /figure -->
//
// The command that measures a figure writes it to every place that names it. The test of this package fails when two
// places differ, when a headline has no command, and when a command is gone.
package figures

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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

// Publish replaces what stands between the lines <!-- block:begin --> and <!-- block:end --> of a page, and writes the figures
// that the content names to all other places that name them in the documents of the repository in a folder.
func Publish(root, page, block, content string) (err error) {
	defer kit.Catch(&err)
	values := map[string]string{}
	for _, found := range marked.FindAllStringSubmatch(content, -1) {
		values[found[1]] = found[2]
	}
	kit.Must(os.Stat(filepath.Join(root, page)))
	pages := kit.Must(filepath.Glob(filepath.Join(root, "docs", "*.md")))
	pages = append(pages, kit.Must(filepath.Glob(filepath.Join(root, "docs", "results", "*.md")))...)
	for _, path := range append(pages, filepath.Join(root, "README.md")) {
		text := string(kit.Must(os.ReadFile(path)))
		written := text
		if path == filepath.Join(root, page) {
			written = kit.Must(replace(text, block, content))
		}
		written = marked.ReplaceAllStringFunc(written, func(place string) string {
			name := marked.FindStringSubmatch(place)[1]
			if value, measured := values[name]; measured {
				return Mark(name, value)
			}
			return place
		})
		if written != text {
			kit.Check(os.WriteFile(path, []byte(written), 0o644)) //nolint:gosec // a document of the repository
		}
	}
	return nil
}

func replace(text, block, content string) (string, error) {
	begin, end := "<!-- "+block+":begin -->\n", "<!-- "+block+":end -->"
	before, rest, begins := strings.Cut(text, begin)
	_, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		return "", fmt.Errorf("there are no lines %q and %q", strings.TrimSpace(begin), end)
	}
	return before + begin + content + end + after, nil
}
