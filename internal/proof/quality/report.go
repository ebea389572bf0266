package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// figure is a result beside its target.
type figure struct {
	what, text string
	target     string // "" for what only informs
	known      string // what others were found to do
	missed     bool
	// detail are examples of what went wrong, without which a miss cannot be understood.
	detail []string
}

// note keeps an example for the figure with that name.
func (s *scene) note(what, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.notes == nil {
		s.notes = map[string][]string{}
	}
	s.notes[what] = append(s.notes[what], fmt.Sprintf(format, args...))
}

// noted returns the examples of a figure, and forgets them.
func (s *scene) noted(what string) []string {
	defer delete(s.notes, what)
	return s.notes[what]
}

// all counts things of which none may be missing: those that are were noted.
func (s *scene) all(what string, of int, known string) figure {
	missing := s.noted(what)
	return figure{what, fmt.Sprintf("%d of %d", of-len(missing), of), fmt.Sprint(of), known, len(missing) > 0, missing}
}

// none counts what was noted and must not be.
func (s *scene) none(what, known string) figure {
	found := s.noted(what)
	return figure{what, kit.Number(float64(len(found))), "0", known, len(found) > 0, found}
}

// share is that of what was noted among a number of things, with an upper bound in percent; by "<" it may not be reached.
func (s *scene) share(what string, of int, sign string, most float64, known string) figure {
	found := s.noted(what)
	part := 100 * float64(len(found)) / float64(max(1, of))
	return figure{what, kit.Number(part) + " %", fmt.Sprintf("%s %v %%", sign, most), known, part > most || part == most && sign == "<", found}
}

// atMost is a figure with an upper bound.
func atMost(what string, value, most float64, known string) figure {
	return figure{what, kit.Number(value), "≤ " + kit.Number(most), known, value > most, nil}
}

// informs is a figure without a target.
func informs(what string, value float64) figure { return figure{what: what, text: kit.Number(value)} }

const heads = "| suite | figure | result | target | best known |\n|---|---|---|---|---|\n"

// report is the table of a run, and an error for each target that was missed.
type report struct {
	rows   string
	missed error
}

func (r *report) add(suite string, found []figure) {
	for _, f := range found {
		if f.missed {
			const most = 20
			examples := strings.Join(f.detail[:min(most, len(f.detail))], "\n  ")
			r.missed = errors.Join(r.missed, fmt.Errorf("%s: %s is %s, not %s\n  %s", suite, f.what, f.text, f.target, examples))
			f.text += " **missed**"
		}
		r.rows += fmt.Sprintf("| %s | %s | %s | %s | %s |\n", suite, f.what, f.text, f.target, f.known)
	}
}
