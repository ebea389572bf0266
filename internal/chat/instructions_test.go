package chat

import (
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/internal/memory/prompt"
)

// The instructions name each section that a prompt may have, as its heading begins.
func TestTheInstructionsNameEverySection(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"brief", "kept", "recent", "files", "memories", "topic", "recall", "sources", "question"} {
		heading, _, _ := strings.Cut(prompt.Heading(name), ":")
		heading, _, _ = strings.Cut(heading, " (")
		heading, _, _ = strings.Cut(heading, " –")
		if heading == "" || !strings.Contains(DefaultInstructions, heading) {
			t.Errorf("%s: %q is not in the instructions", name, heading)
		}
	}
}
