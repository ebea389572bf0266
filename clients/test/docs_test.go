package clients_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// docsPages show how the package is used.
var docsPages = []string{"../docs/clients.md"}

// codeBlock finds a page's code with the line before it, which names the file that it is from.
var codeBlock = regexp.MustCompile("(?m)^(.*)\n```[jt]sx?\n((?s:.*?)\n)```$")

var source = regexp.MustCompile(`^<!-- clients/([a-z./-]+\.[jt]sx?) -->$`)

// TestDocumentedCode holds that what people copy from the pages is what these tests run.
func TestDocumentedCode(t *testing.T) {
	t.Parallel()
	for _, page := range docsPages {
		checkCode(t, page)
	}
	hook, err := os.ReadFile("testdata/docs/chat.tsx")
	require.NoError(t, err)
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	require.Contains(t, string(readme), "```tsx\n"+string(hook)+"```", "the hook of the README")
}

func checkCode(t *testing.T, page string) {
	t.Helper()
	raw, err := os.ReadFile(page)
	require.NoError(t, err)
	blocks := codeBlock.FindAllStringSubmatch(string(raw), -1)
	fences := strings.Count(string(raw), "```js") + strings.Count(string(raw), "```ts")
	require.Truef(t, len(blocks) != 0 && len(blocks) == fences,
		"%s: %d of %d blocks of code can be read", page, len(blocks), fences)
	for _, block := range blocks {
		file := source.FindStringSubmatch(block[1])
		if file == nil {
			t.Errorf("%s: a block of code does not name its file in the line before it, as <!-- clients/src/turn.ts --> does:\n%.200s", page, block[2])
			continue
		}
		code, err := os.ReadFile(filepath.FromSlash(file[1]))
		if err != nil {
			t.Error(err)
			continue
		}
		if !strings.Contains("\n"+string(code), "\n"+block[2]) {
			t.Errorf("%s: this code is not in clients/%s, word for word:\n%s", page, file[1], block[2])
		}
	}
}
