package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// mutationsFolder is where the patches are, from the module's folder.
const mutationsFolder = "internal/proof/crash/mutations"

// Each mutation is given so many rounds to be noticed, with quiet after every fourth: most of what is lost in a crash
// shows then.
const (
	mutationRounds = 24
	survivorRounds = 12 // of those that nothing is expected to notice
	mutationQuiet  = 4
	mutationSeed   = 7
	mutationWithin = 10 * time.Minute
)

// mutation is a patch that breaks the program, and what is expected of it. The patch begins with lines for people:
// "Says: …", and "Caught by: check, check" or "Survives: reason".
type mutation struct {
	name, file   string
	says         string
	caughtBy     []string // any of these checks
	survives     string   // why nothing notices
	noticed      []string
	rounds, took string
}

func readMutations(folder string) ([]mutation, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.patch"))
	if err != nil {
		return nil, err
	}
	var all []mutation
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		m := mutation{name: strings.TrimSuffix(filepath.Base(file), ".patch"), file: file}
		head, _, _ := strings.Cut(string(text), "\n--- ")
		for line := range strings.Lines(head) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			switch name {
			case "Says":
				m.says = value
			case "Caught by":
				m.caughtBy = strings.Split(value, ", ")
			case "Survives":
				m.survives = value
			}
		}
		if m.says == "" || (m.survives == "") == (m.caughtBy == nil) {
			return nil, fmt.Errorf("%s does not say what it breaks, and which check notices it or why none does", file)
		}
		all = append(all, m)
	}
	return all, nil
}

// mutate runs the harness against each mutation, and fails when one is not noticed that should be.
func mutate(ctx context.Context, o options, out, progress io.Writer) error {
	all, err := readMutations(filepath.Join(o.source, mutationsFolder))
	if err != nil {
		return err
	}
	var failed []string
	for _, m := range all {
		if !strings.Contains(m.name, o.only) {
			continue
		}
		fmt.Fprintf(progress, "%s\n", m.name)
		if err := m.try(ctx, o.source); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		if !m.asExpected() {
			failed = append(failed, m.name)
		}
		fmt.Fprintln(out, m.row())
	}
	if len(failed) > 0 {
		return fmt.Errorf("not as expected: %s", strings.Join(failed, ", "))
	}
	return nil
}

func (m *mutation) asExpected() bool {
	if m.survives != "" {
		return len(m.noticed) == 0
	}
	return slices.ContainsFunc(m.noticed, func(name string) bool { return slices.Contains(m.caughtBy, name) })
}

// row is the mutation's line of the table in docs/crash.md.
func (m *mutation) row() string {
	switch {
	case len(m.noticed) == 0 && m.survives != "":
		return fmt.Sprintf("| %s | %s | survives %s rounds: %s |", m.name, m.says, m.rounds, m.survives)
	case len(m.noticed) == 0:
		return fmt.Sprintf("| %s | %s | **not noticed** in %s rounds, %s |", m.name, m.says, m.rounds, m.took)
	}
	verdict := fmt.Sprintf("round %s, %s: %s", m.rounds, m.took, strings.Join(m.noticed, ", "))
	if !m.asExpected() {
		verdict = "**unexpected** " + verdict
	}
	return fmt.Sprintf("| %s | %s | %s |", m.name, m.says, verdict)
}

// try breaks a copy of the source and runs this harness there, against the program that the copy makes.
func (m *mutation) try(ctx context.Context, source string) error {
	ctx, cancel := context.WithTimeout(ctx, mutationWithin)
	defer cancel()
	broken, err := os.MkdirTemp("", "throughline-mutation-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(broken) }() // the temporary folder's own cleaning takes the rest
	if err := copySource(source, broken); err != nil {
		return err
	}
	patch, err := filepath.Abs(m.file)
	if err != nil {
		return err
	}
	if err := apply(ctx, broken, patch); err != nil {
		return err
	}
	program := filepath.Join(broken, "crash.test")
	if said, err := exec.CommandContext(ctx, "go", "build", "-C", broken, "-o", program, "./internal/proof/crash").CombinedOutput(); err != nil { //nolint:gosec // the copy
		return fmt.Errorf("%w: %s", err, said)
	}
	return m.run(ctx, broken, program)
}

// apply changes the files below a folder, or with flag --check only says whether it could.
func apply(ctx context.Context, folder, patch string, flags ...string) error {
	command := exec.CommandContext(ctx, "git", append(append([]string{"apply"}, flags...), patch)...) //nolint:gosec // our own patches
	command.Dir = folder
	// Within a repository that is not this one git would look for the files elsewhere, and pass over them.
	command.Env = append(command.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(folder))
	if said, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("the patch does not apply: %w: %s", err, bytes.TrimSpace(said))
	}
	return nil
}

var (
	noticedLine = regexp.MustCompile(`(?m)^violation: (\w+):`)
	roundsLine  = regexp.MustCompile(`(?m)^rounds +(\d+)`)
)

// run runs the harness of the copy to its end, and reads what it noticed.
func (m *mutation) run(ctx context.Context, folder, program string) error {
	began := time.Now()
	most := mutationRounds
	if m.survives != "" {
		most = survivorRounds
	}
	command := exec.CommandContext(ctx, program, "-rounds", strconv.Itoa(most), "-quiet-every", strconv.Itoa(mutationQuiet), "-seed", strconv.Itoa(mutationSeed), "-keep=false") //nolint:gosec // built a moment ago
	command.Dir = folder
	// A harness that is told to end takes its processes along.
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = time.Minute
	said, err := command.CombinedOutput()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		return err
	}
	m.took = fmt.Sprintf("%.0f s", time.Since(began).Seconds())
	rounds := roundsLine.FindSubmatch(said)
	if rounds == nil {
		return fmt.Errorf("the harness did not run: %s", said)
	}
	m.rounds = string(rounds[1])
	for _, line := range noticedLine.FindAllSubmatch(said, -1) {
		m.noticed = append(m.noticed, string(line[1]))
	}
	if err != nil && len(m.noticed) == 0 {
		return fmt.Errorf("the harness failed: %s", said)
	}
	return nil
}

// copySource copies a module without what was downloaded or made in it. The binaries of a Postgres that setup fetched
// are linked.
func copySource(from, to string) error {
	from, err := filepath.Abs(from)
	if err != nil {
		return err
	}
	names, err := sourceFiles(from)
	if err != nil {
		return err
	}
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil { //nolint:gosec // source code
			return err
		}
		if err := os.WriteFile(target, content, 0o644); err != nil { //nolint:gosec // source code
			return err
		}
	}
	local := filepath.Join(from, ".local")
	if _, err := os.Stat(local); err != nil {
		return nil //nolint:nilerr // there is none
	}
	return os.Symlink(local, filepath.Join(to, ".local"))
}

// sourceFiles gives the names of a module's files, from its folder.
func sourceFiles(folder string) (names []string, err error) {
	err = fs.WalkDir(os.DirFS(folder), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == ".local" || entry.Name() == "node_modules"):
			return fs.SkipDir
		case entry.Type().IsRegular():
			names = append(names, name)
		}
		return nil
	})
	return names, err
}
