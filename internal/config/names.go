package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ourPrefixes begin names that belong to us alone: an unknown one is reported whatever it resembles.
var ourPrefixes = []string{"MEMORY_", "THROUGHLINE_", "RIVER_UI_", "SUMMARY_PROMPT_"}

// readElsewhere are variables of ours that are no configuration of a server: where to find Postgres' binaries, and what
// the tests need.
func readElsewhere(name string) bool {
	return name == "THROUGHLINE_PG_BIN" || strings.HasPrefix(name, "THROUGHLINE_TEST_")
}

// misspelt reports the variables of an environment that are not known but nearly, or that begin like ours.
func misspelt(environ []string, known map[string]bool) []string {
	var found []string
	for _, variable := range slices.Sorted(slices.Values(environ)) {
		name, value, _ := strings.Cut(variable, "=")
		if strings.TrimSpace(value) == "" || known[name] || readElsewhere(name) {
			continue
		}
		nearest, near := nearestName(name, known)
		ours := slices.ContainsFunc(ourPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
		switch {
		case near:
			found = append(found, fmt.Sprintf("%s is set, which is no setting: is %s meant?", name, nearest))
		case ours:
			found = append(found, fmt.Sprintf("%s is set, which is no setting: .env.example lists them", name))
		}
	}
	return found
}

// nearestName returns the known name that is most like an unknown one, and whether it is so much alike that it must be
// meant: but for its case, a few letters, or words that are missing.
func nearestName(name string, known map[string]bool) (nearest string, near bool) {
	upper, least := strings.ToUpper(name), len(name)
	for _, other := range slices.Sorted(maps.Keys(known)) {
		distance := editDistance(upper, other)
		if lacksWords(upper, other) {
			distance = 1
		}
		if distance < least {
			nearest, least = other, distance
		}
	}
	return nearest, least <= min(2, len(name)/5)
}

// lacksWords reports whether name is other without some of its words but the first, as OPENAI_KEY is OPENAI_API_KEY.
func lacksWords(name, other string) bool {
	words, all := strings.Split(name, "_"), strings.Split(other, "_")
	if len(words) < 2 || words[0] != all[0] {
		return false
	}
	for _, word := range all {
		if len(words) > 0 && words[0] == word {
			words = words[1:]
		}
	}
	return len(words) == 0
}

// editDistance counts the letters to insert, delete, replace or swap with the next (Damerau and Levenshtein's, in its
// form that edits no part twice).
func editDistance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replaced := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, replaced)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
