package page

import "testing"

// longTerm remembers across chats, and reads a chat when it is asked to.
var longTerm = env{"LONG_TERM_MEMORY": "true", "MEMORY_EXTRACT_DELAY": "10h"}

// What a user is remembered for can be seen, written, corrected, forgotten and taken along.
func TestMemories(t *testing.T) {
	t.Parallel()
	newRig(t, nil, longTerm).inBrowser("memories.mjs", nil)
}
