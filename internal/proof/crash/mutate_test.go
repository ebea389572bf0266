package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/internal/proof/people"
)

// Every mutation applies to the source as it is, says what it breaks, and names checks that there are; and the
// page about them has them all. That each is noticed is for make mutations.
func TestMutations(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	all, err := readMutations(filepath.Join(root, mutationsFolder))
	if err != nil {
		t.Fatal(err)
	}
	checks := people.Checks()
	page, err := os.ReadFile(filepath.Join(root, "docs/results/crash.md"))
	if err != nil {
		t.Fatal(err)
	}
	caught := 0
	for _, m := range all {
		if err := apply(t.Context(), root, m.file, "--check"); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		for _, name := range m.caughtBy {
			if people.Watched[name] == "" && !slices.ContainsFunc(checks, func(c people.Check) bool { return c.Name == name }) {
				t.Errorf("%s: there is no check %q", m.name, name)
			}
		}
		if m.survives == "" {
			caught++
		}
		if !strings.Contains(string(page), "| "+m.name+" | "+m.says+" |") {
			t.Errorf("docs/results/crash.md has no row of %s, or says something else about it", m.name)
		}
	}
	if caught < 8 {
		t.Errorf("%d mutations to be caught", caught)
	}
	for name, sentence := range people.Watched {
		if !strings.Contains(string(page), "| `"+name+"` | watched | "+sentence+" |") {
			t.Errorf("docs/results/crash.md has no row of %s, or says something else about it", name)
		}
	}
	for _, c := range checks {
		if !strings.Contains(string(page), "| `"+c.Name+"` | "+c.When+" | "+c.Sentence+" |") {
			t.Errorf("docs/results/crash.md has no row of the check %s, or says something else about it", c.Name)
		}
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
	if err := apply(t.Context(), folder, patch); err == nil {
		t.Error("it applied")
	}
	write(t, file, "one\n")
	if err := apply(t.Context(), folder, patch); err != nil {
		t.Error(err)
	}
	if changed, err := os.ReadFile(file); err != nil || string(changed) != "two\n" {
		t.Errorf("%q, %v", changed, err)
	}
}

func TestMutationWithoutExpectation(t *testing.T) {
	t.Parallel()
	for _, head := range []string{"", "Says: x\n", "Survives: x\n", "Says: x\nCaught by: y\nSurvives: z\n"} {
		folder := t.TempDir()
		write(t, filepath.Join(folder, "x.patch"), head+"\n--- a/file\n")
		if all, err := readMutations(folder); err == nil {
			t.Errorf("%q: %+v", head, all)
		}
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
		if got := c.m.asExpected(); got != c.want {
			t.Errorf("%+v: %t", c.m, got)
		}
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
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		settings []string
		want     string
	}{{nil, "1\n"}, {[]string{setting}, "panic: 2"}} {
		command := exec.CommandContext(t.Context(), "go", "run", "-C", source, ".")
		command.Env = append(command.Environ(), c.settings...)
		if output, _ := command.CombinedOutput(); !strings.HasPrefix(string(output), c.want) {
			t.Errorf("%q: %s, want %s", c.settings, output, c.want)
		}
	}
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
