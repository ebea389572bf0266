package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/figures"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

const mutationsFolder = "internal/proof/crash/mutations" // from the module's

// mutation is a patch that breaks the program, and its expected effect. The patch begins with lines of text:
// "Says: …", and "Caught by: check, check" or "Survives: reason".
type mutation struct {
	name, file string
	says       string
	caughtBy   []string // any of these checks
	survives   string   // why nothing notices
	crashEvery int      // in rounds
	noticed    []string
	rounds     int
	took       string
}

var headLine = regexp.MustCompile(`(?m)^(Says|Caught by|Survives|Postgres crashes every): (.+)$`)

func readMutations(folder string) (all []mutation, err error) {
	defer kit.Catch(&err)
	for _, file := range kit.Must(filepath.Glob(filepath.Join(folder, "*.patch"))) {
		text := kit.Must(os.ReadFile(file))
		head := map[string]string{}
		for _, line := range headLine.FindAllStringSubmatch(string(text), -1) {
			head[line[1]] = line[2]
		}
		m := mutation{name: strings.TrimSuffix(filepath.Base(file), ".patch"), file: file, says: head["Says"], survives: head["Survives"], crashEvery: crashEvery}
		if every := head["Postgres crashes every"]; every != "" {
			m.crashEvery = kit.Must(strconv.Atoi(strings.TrimSuffix(every, " rounds")))
		}
		if named := head["Caught by"]; named != "" {
			m.caughtBy = strings.Split(named, ", ")
		}
		if m.says == "" || (m.survives == "") == (m.caughtBy == nil) {
			return nil, fmt.Errorf("%s does not say what it breaks, and which check notices it or why none does", file)
		}
		all = append(all, m)
	}
	return all, nil
}

// mutate runs the harness against each mutation, and fails when one is not noticed as expected.
func mutate(ctx context.Context, o options, out, progress io.Writer) (err error) {
	defer kit.Catch(&err)
	all := kit.Must(readMutations(filepath.Join(o.source, mutationsFolder)))
	var failed []string
	var noticed, surviving strings.Builder
	caught := 0
	for _, m := range all {
		if !strings.Contains(m.name, o.only) {
			continue
		}
		fmt.Fprintf(progress, "%s\n", m.name)
		m.try(ctx, o.source)
		if !m.asExpected() {
			failed = append(failed, m.name)
		}
		fmt.Fprintln(out, m.row())
		table := &surviving
		if m.survives == "" {
			table = &noticed
			caught++
		}
		fmt.Fprintln(table, m.row())
	}
	if len(failed) > 0 {
		return fmt.Errorf("not as expected: %s", strings.Join(failed, ", "))
	}
	if !o.doc {
		return nil
	}
	counts := fmt.Sprintf("Of %s mutations %s are noticed:\n\n", figures.Mark("mutations_all", strconv.Itoa(len(all))),
		figures.Mark("mutations_noticed", strconv.Itoa(caught)))
	return errors.Join(
		figures.Publish(o.source, page, "mutations", counts+"| mutation | | noticed in, by |\n|---|---|---|\n"+noticed.String()),
		figures.Publish(o.source, page, "survivors", "| mutation | | |\n|---|---|---|\n"+surviving.String()))
}

// asExpected reports whether one of the checks noticed the mutation that are to, or none where none can.
func (m *mutation) asExpected() bool {
	if m.survives != "" {
		return len(m.noticed) == 0
	}
	return slices.ContainsFunc(m.noticed, func(name string) bool { return slices.Contains(m.caughtBy, name) })
}

// row is the mutation's line of the table in docs/results/crash.md.
func (m *mutation) row() string {
	verdict := fmt.Sprintf("round %d, %s: %s", m.rounds, m.took, strings.Join(m.noticed, ", "))
	switch expected := m.asExpected(); {
	case expected && m.survives != "":
		verdict = fmt.Sprintf("survives %d rounds: %s", m.rounds, m.survives)
	case !expected:
		verdict = "**unexpected** " + verdict
	}
	return fmt.Sprintf("| %s | %s | %s |", m.name, m.says, verdict)
}

// try has the harness build the program with patched files in place of the source's, and keeps what it finds.
func (m *mutation) try(ctx context.Context, source string) {
	defer kit.In("%s", m.name)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	folder := kit.Must(os.MkdirTemp("", "throughline-mutation-"))
	defer func() { _ = os.RemoveAll(folder) }() // what cannot be removed stays in the temporary folder
	began, rounds := time.Now(), 24             // to be noticed in
	if m.survives != "" {
		rounds = 12
	}
	h := kit.Must(newHarness(ctx, options{
		rounds: rounds, crashEvery: m.crashEvery, quietEvery: 4, within: time.Minute, seed: 7, source: source, // most of what a crash loses shows in quiet
		build: []string{kit.Must(m.overlay(ctx, source, folder))},
	}, io.Discard))
	err := h.run(ctx)
	kit.Check(h.system.Close(false))
	m.took, m.rounds = fmt.Sprintf("%.0f s", time.Since(began).Seconds()), h.played
	for _, v := range h.violations {
		m.noticed = append(m.noticed, v.Name)
	}
	if len(m.noticed) == 0 {
		kit.Check(err)
	}
}

var patchedFile = regexp.MustCompile(`(?m)^\+\+\+ b/(\S+)`)

// overlay writes the patched files into a folder and returns the setting with which go builds them instead.
func (m *mutation) overlay(ctx context.Context, source, folder string) (setting string, err error) {
	defer kit.Catch(&err)
	source = kit.Must(filepath.Abs(source))
	replace := map[string]string{}
	for _, found := range patchedFile.FindAllStringSubmatch(string(kit.Must(os.ReadFile(m.file))), -1) {
		original, copied := filepath.Join(source, found[1]), filepath.Join(folder, found[1])
		content := kit.Must(os.ReadFile(original))
		kit.Check(errors.Join(os.MkdirAll(filepath.Dir(copied), 0o700), os.WriteFile(copied, content, 0o600)))
		replace[original] = copied
	}
	kit.Check(apply(ctx, folder, m.file))
	file := filepath.Join(folder, "overlay.json")
	return "GOFLAGS=-overlay=" + file, os.WriteFile(file, kit.Must(json.Marshal(map[string]any{"Replace": replace})), 0o600)
}

// apply patches the files below a folder; with the flag --check it only reports whether it could.
func apply(ctx context.Context, folder, patch string, flags ...string) error {
	patch, err := filepath.Abs(patch)
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, "git", append(append([]string{"apply"}, flags...), patch)...) //nolint:gosec // our own patches
	command.Dir = folder
	// Within another repository git would look for the files elsewhere, and skip them.
	command.Env = append(command.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(folder))
	return kit.Run(command)
}
