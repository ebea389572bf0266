package offline

import (
	"strings"

	"github.com/arcoscribe/throughline/internal/memory/topics"
)

// title returns the first phrase of several words that the user has said.
func title(r *Request) string {
	for _, said := range parseUtterances(r.Text) {
		if phrase := topics.Title(withoutDirectives(said.text)); !said.assistant && strings.Contains(phrase, " ") {
			return phrase
		}
	}
	return ""
}
