package brief

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTheTitleInAnAnswer(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string][2]string{
		"Title: Rosin for old bows\n\nThe user plays.":         {"Rosin for old bows", "The user plays."},
		"**Title:** \"Rosin for old bows.\"\nThe user plays.":  {"Rosin for old bows", "The user plays."},
		"Title: \nThe user plays.":                             {"", "The user plays."},
		"Title: " + strings.Repeat("word ", 9) + "\nThe user.": {"", "The user."},
		"The title: none\nThe user plays.":                     {"", "The title: none\nThe user plays."},
		"The user plays.":                                      {"", "The user plays."},
		"":                                                     {"", ""},
	} {
		title, rest := cutTitle(answer)
		assert.Truef(t, title == want[0] && rest == want[1], "%q: %q, %q", answer, title, rest)
	}
}
