package offline

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTitles(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"User: My cello stands beside the heater, and a seam has opened.\nAssistant: The seam?": "cello stands beside the heater",
		"User: Ich plane eine Zugreise nach Lissabon im Mai. Welche Strecke?":                   "Zugreise nach Lissabon im Mai",
		"User: My cat is called Bea and my dog is old.":                                         "cat is called Bea",
		"User: How do buses work? [[offline-fold:503]]\nUser: And in winter?":                   "How do buses work",
		"User: Hi!\nAssistant: A good day to you.":                                              "",
	} {
		assert.Equal(t, want, title(&Request{Text: "RECENT MESSAGES:\n" + said}))
	}
}
