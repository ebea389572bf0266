package figures_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/arcoscribe/throughline/internal/proof/figures"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const root = "../../.."

var (
	place   = regexp.MustCompile(`<!-- figure:([a-z0-9_]+) -->(.*?)<!-- /figure -->`)
	command = regexp.MustCompile("`(?:\\w+=\\w+ )*((?:make|go run|go test) [^`]+)`")
	link    = regexp.MustCompile(`\]\((?:docs/)?((?:results/)?[a-z-]+\.md)`)
)

func read(t *testing.T, path string) string {
	text, err := os.ReadFile(filepath.Join(root, path))
	require.NoError(t, err)
	return string(text)
}

// values returns the figures of a text. One that has two values there is a failure.
func values(t *testing.T, path, text string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, found := range place.FindAllStringSubmatch(text, -1) {
		if before, twice := all[found[1]]; twice && before != found[2] {
			t.Errorf("%s: %s is %q and %q", path, found[1], before, found[2])
		}
		all[found[1]] = found[2]
	}
	opened := strings.Count(text, "<!-- figure:")
	assert.Truef(t, opened == len(place.FindAllString(text, -1)),
		"%s: %d figures begin, and not all of them end in the same line", path, opened)
	return all
}

// pages are the figures of each document, by its path in docs.
func pages(t *testing.T) map[string]map[string]string {
	t.Helper()
	all := map[string]map[string]string{"README.md": values(t, "README.md", read(t, "README.md"))}
	for _, folder := range []string{"", "results/"} {
		found, err := filepath.Glob(filepath.Join(root, "docs", folder, "*.md"))
		require.Truef(t, err == nil && len(found) != 0, "%d pages in docs/%s: %v", len(found), folder, err)
		for _, path := range found {
			name := folder + filepath.Base(path)
			all[name] = values(t, name, read(t, "docs/"+name))
		}
	}
	return all
}

func TestAFigureIsTheSameEverywhere(t *testing.T) {
	t.Parallel()
	first := map[string][2]string{}
	for page, figures := range pages(t) {
		for name, value := range figures {
			before, known := first[name]
			if known && before[1] != value {
				t.Errorf("%s is %q in %s and %q in %s", name, before[1], before[0], value, page)
			}
			first[name] = [2]string{page, value}
		}
	}
	assert.True(t, len(first) != 0, "no document has a figure")
}

// A headline is a row of a table in README.md or reliability.md with figures: its command exists, and its page has them.
func TestHeadlinesHaveACommandAndAPage(t *testing.T) {
	t.Parallel()
	all := pages(t)
	for _, document := range []string{"README.md", "docs/reliability.md"} {
		for line := range strings.Lines(read(t, document)) {
			named := place.FindAllStringSubmatch(line, -1)
			if len(named) == 0 || !strings.HasPrefix(line, "|") {
				continue
			}
			assert.Truef(t, command.MatchString(line) || strings.Contains(line, "| the same"),
				"%s: no command in %s", document, line)
			for _, found := range link.FindAllStringSubmatch(line, 1) {
				checkPage(t, document, all[found[1]], found[1], named)
			}
		}
	}
	headlines, _, _ := strings.Cut(read(t, "README.md"), "## Run and test")
	for line := range strings.Lines(headlines) {
		assert.Truef(t, !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| figure") || place.MatchString(line),
			"a headline without a figure that a command writes: %s", line)
	}
}

func checkPage(t *testing.T, document string, has map[string]string, page string, named [][]string) {
	t.Helper()
	if page == "reliability.md" {
		return // it is checked itself
	}
	for _, figure := range named {
		if _, found := has[figure[1]]; !found {
			t.Errorf("%s names %s, which %s does not", document, figure[1], page)
		}
	}
}

func TestCommandsOfHeadlinesExist(t *testing.T) {
	t.Parallel()
	targets := read(t, "Makefile")
	for _, document := range []string{"README.md", "docs/reliability.md"} {
		for line := range strings.Lines(read(t, document)) {
			if !strings.HasPrefix(line, "|") {
				continue
			}
			for _, found := range command.FindAllStringSubmatch(line, -1) {
				if target, isTarget := strings.CutPrefix(found[1], "make "); isTarget {
					name, _, _ := strings.Cut(target, " ")
					assert.Containsf(t, targets, "\n"+name+": ## ", "%s: there is no target %q", document, name)
					continue
				}
				checkGo(t, document, found[1])
			}
		}
	}
}

// checkGo looks for the packages of a Go command, and for tests of each name that it runs.
func checkGo(t *testing.T, document, command string) {
	var tests strings.Builder
	for word := range strings.FieldsSeq(command) {
		if !strings.HasPrefix(word, "./") {
			continue
		}
		files, err := filepath.Glob(filepath.Join(root, word, "*.go"))
		assert.Truef(t, err == nil && len(files) != 0, "%s: there is no package %s (%v)", document, word, err)
		for _, file := range files {
			tests.WriteString(read(t, strings.TrimPrefix(file, root+"/")))
		}
	}
	_, names, run := strings.Cut(command, "-run ")
	if !run {
		return
	}
	names, _, _ = strings.Cut(strings.TrimLeft(names, "'"), "'")
	names, _, _ = strings.Cut(names, " ")
	for name := range strings.SplitSeq(names, `\|`) {
		assert.Truef(t, regexp.MustCompile(`func Test\w*`+strings.TrimPrefix(name, "Test")).MatchString(tests.String()),
			"%s: no test is called %q in %s", document, name, command)
	}
}

func TestEveryMutationIsCounted(t *testing.T) {
	t.Parallel()
	patches, err := filepath.Glob(filepath.Join(root, "internal/proof/crash/mutations/*.patch"))
	require.NoError(t, err)
	got := pages(t)["results/crash.md"]["mutations_all"]
	assert.Truef(t, got == strconv.Itoa(len(patches)), "crash.md counts %s mutations, and there are %d", got, len(patches))
}

func TestPublish(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, fstest.MapFS{
		"README.md":    {Data: []byte(figures.Mark("a", "1") + "\n")},
		"docs/page.md": {Data: []byte("# A\n<!-- x:begin -->\nold\n<!-- x:end -->\nB\n")},
	}); err != nil {
		t.Fatal(err)
	}
	require.NoError(t, figures.Publish(dir, "docs/page.md", "x", "new "+figures.Mark("a", "2")+"\n"))
	for path, want := range map[string]string{"README.md": "2\n", "docs/page.md": "# A\n<!-- x:begin -->\nnew 2\n<!-- x:end -->\nB\n"} {
		text, err := os.ReadFile(filepath.Join(dir, path))
		require.NoError(t, err)
		assert.Equal(t, "", cmp.Diff(want, figures.Plain(string(text))))
	}
	err := figures.Publish(dir, "docs/page.md", "y", "new\n")
	assert.Truef(t, err != nil && strings.Contains(err.Error(), "y:begin"), "a block that is not there: %v", err)
}
