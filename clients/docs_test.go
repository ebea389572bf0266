package clients_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// docsPage is the page that shows how the package is used.
const docsPage = "../docs/clients.md"

// codeBlock finds the page's code with the line before it, which names the file that it is from.
var codeBlock = regexp.MustCompile("(?m)^(.*)\n```[jt]sx?\n((?s:.*?)\n)```$")

var source = regexp.MustCompile(`^<!-- clients/([a-z./-]+\.[jt]sx?) -->$`)

// TestDocumentedCode holds that what people copy from the page is what these tests run.
func TestDocumentedCode(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(docsPage)
	if err != nil {
		t.Fatal(err)
	}
	blocks := codeBlock.FindAllStringSubmatch(string(raw), -1)
	if fences := strings.Count(string(raw), "```js") + strings.Count(string(raw), "```ts"); len(blocks) == 0 || len(blocks) != fences {
		t.Fatalf("%d of %d blocks of code can be read", len(blocks), fences)
	}
	for _, block := range blocks {
		file := source.FindStringSubmatch(block[1])
		if file == nil {
			t.Errorf("a block of code does not name its file in the line before it, as <!-- clients/src/turn.ts --> does:\n%.200s", block[2])
			continue
		}
		code, err := os.ReadFile(filepath.FromSlash(file[1]))
		if err != nil {
			t.Error(err)
			continue
		}
		if !strings.Contains("\n"+string(code), "\n"+block[2]) {
			t.Errorf("this code is not in clients/%s, word for word:\n%s", file[1], block[2])
		}
	}
}
