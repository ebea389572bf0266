package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/proof/people"
)

// Every mutation applies to the source as it is, says what it breaks, and names checks that there are; and the
// page about them has them all. That each is noticed is for make mutations.
func TestMutations(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	all, err := readMutations(filepath.Join(root, mutationsFolder))
	require.NoError(t, err)
	checks := people.Checks()
	page, err := os.ReadFile(filepath.Join(root, "docs/results/crash.md"))
	require.NoError(t, err)
	caught := 0
	for _, m := range all {
		assert.NoErrorf(t, apply(t.Context(), root, m.file, "--check"), "%s", m.name)
		for _, name := range m.caughtBy {
			assert.Truef(t, people.Watched[name] != "" || slices.ContainsFunc(checks, func(c people.Check) bool { return c.Name == name }),
				"%s: there is no check %q", m.name, name)
		}
		if m.survives == "" {
			caught++
		}
		assert.Containsf(t, string(page),
			"| "+m.name+" | "+m.says+" |", "docs/results/crash.md has no row of %s, or says something else about it", m.name)
	}
	assert.Truef(t, caught >= 8, "%d mutations to be caught", caught)
	for name, sentence := range people.Watched {
		assert.Containsf(t, string(page),
			"| `"+name+"` | watched | "+sentence+" |", "docs/results/crash.md has no row of %s, or says something else about it", name)
	}
	for _, c := range checks {
		assert.Containsf(t, string(page),
			"| `"+c.Name+"` | "+c.When+" | "+c.Sentence+" |", "docs/results/crash.md has no row of the check %s, or says something else about it", c.Name)
	}
}

// A patch that does not fit is told, also below a folder that is another repository.
func TestPatchThatDoesNotApply(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	patch := filepath.Join(folder, "x.patch")
	write(t, patch, "Says: x\nSurvives: y\n\n--- a/file\n+++ b/file\n@@ -1 +1 @@\n-one\n+two\n")
	file := filepath.Join(folder, "file")
	write(t, file, "three\n")
	assert.Error(t, apply(t.Context(), folder, patch), "it applied")
	write(t, file, "one\n")
	assert.NoError(t, apply(t.Context(), folder, patch))
	changed, err := os.ReadFile(file)
	assert.Truef(t, err == nil && string(changed) == "two\n", "%q, %v", changed, err)
}

func TestMutationWithoutExpectation(t *testing.T) {
	t.Parallel()
	for _, head := range []string{"", "Says: x\n", "Survives: x\n", "Says: x\nCaught by: y\nSurvives: z\n"} {
		folder := t.TempDir()
		write(t, filepath.Join(folder, "x.patch"), head+"\n--- a/file\n")
		all, err := readMutations(folder)
		assert.Errorf(t, err, "%q: %+v", head, all)
	}
}

// The verdict on a mutation is what its patch expects, not that anything was noticed.
func TestExpectations(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		m    mutation
		want bool
	}{
		{mutation{caughtBy: []string{"a", "b"}, noticed: []string{"x", "b"}}, true},
		{mutation{caughtBy: []string{"a"}, noticed: []string{"x"}}, false},
		{mutation{caughtBy: []string{"a"}}, false},
		{mutation{survives: "why"}, true},
		{mutation{survives: "why", noticed: []string{"a"}}, false},
	} {
		assert.Equalf(t, c.want, c.m.asExpected(), "%+v", c.m)
	}
}

// The program is built with the patched files, and the source stays as it is.
func TestOverlay(t *testing.T) {
	t.Parallel()
	source, folder := t.TempDir(), t.TempDir()
	m := mutation{file: filepath.Join(source, "x.patch")}
	write(t, m.file, "Says: x\nSurvives: y\n\n--- a/main.go\n+++ b/main.go\n"+
		"@@ -1,2 +1,2 @@\n package main\n-func main() { println(1) }\n+func main() { panic(2) }\n")
	write(t, filepath.Join(source, "go.mod"), "module x\n")
	write(t, filepath.Join(source, "main.go"), "package main\nfunc main() { println(1) }\n")
	setting, err := m.overlay(t.Context(), source, folder)
	require.NoError(t, err)
	for _, c := range []struct {
		settings []string
		want     string
	}{{nil, "1\n"}, {[]string{setting}, "panic: 2"}} {
		command := exec.CommandContext(t.Context(), "go", "run", "-C", source, ".")
		command.Env = append(command.Environ(), c.settings...)
		output, _ := command.CombinedOutput()
		assert.Truef(t, strings.HasPrefix(string(output), c.want), "%q: %s, want %s", c.settings, output, c.want)
	}
}

func write(t *testing.T, file, content string) {
	require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
}
