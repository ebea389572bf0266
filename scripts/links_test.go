package scripts

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	links    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headings = regexp.MustCompile(`(?m)^#+ (.+)$`)
	noAnchor = regexp.MustCompile(`[^\p{L}\p{N}\- _]`)
)

// Every link of a page leads to a file and a heading that are there.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../docs/*.md")
	results, errResults := filepath.Glob("../docs/results/*.md")
	require.Truef(t, err == nil && errResults == nil && len(pages) != 0, "%v %v", err, errResults)
	pages = append(pages, results...)
	pages = append(pages, "../README.md", "../CONTRIBUTING.md", "../SECURITY.md", "../CHANGELOG.md")
	for _, page := range pages {
		for _, link := range links.FindAllStringSubmatch(read(t, page), -1) {
			target, anchor, _ := strings.Cut(link[1], "#")
			if strings.Contains(link[1], "://") || strings.HasPrefix(link[1], "mailto:") {
				continue
			}
			path := page
			if target != "" {
				path = filepath.Join(filepath.Dir(page), target)
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s: %s is not there", page, link[1])
			} else if anchor != "" && !strings.Contains(anchors(read(t, path)), "\n"+anchor+"\n") {
				t.Errorf("%s: no heading is %s", page, link[1])
			}
		}
	}
}

func read(t *testing.T, path string) string {
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(content)
}

// anchors returns those of a page's headings, a line each.
func anchors(page string) string {
	all := "\n"
	for _, heading := range headings.FindAllStringSubmatch(page, -1) {
		all += strings.ReplaceAll(noAnchor.ReplaceAllString(strings.ToLower(heading[1]), ""), " ", "-") + "\n"
	}
	return all
}
