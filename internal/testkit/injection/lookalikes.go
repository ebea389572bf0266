package injection

import (
	"iter"
	"strings"
)

// Confusables reads a table as scripts/confusables writes it: for each ASCII character the others that look like it.
func Confusables(table string) map[rune][]string {
	of := map[rune][]string{'l': {"1", "|"}, 'O': {"0"}, 'm': {"rn"}}
	for line := range strings.Lines(table) {
		plain, all, isRow := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if plain == "rn" {
			plain = "m"
		}
		if !isRow || len(plain) != 1 {
			continue
		}
		for _, r := range all {
			of[rune(plain[0])] = append(of[rune(plain[0])], string(r))
		}
	}
	for same, as := range map[rune]rune{'I': 'l', '1': 'l', '|': 'l', '0': 'O'} {
		of[same] = append(of[as], string(as))
	}
	return of
}

// LookAlikes yields a line with each of its characters, one at a time, replaced by each that looks like it.
func LookAlikes(line string, confusables map[rune][]string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i, r := range line {
			for _, other := range confusables[r] {
				if !yield(line[:i] + other + line[i+len(string(r)):]) {
					return
				}
			}
		}
	}
}
