package memory_test

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func file(path, content string) memory.StoredFile {
	return memory.StoredFile{Path: path, Content: content, SHA256: sha256.Sum256([]byte(content)), Tokens: text.Tokens(content)}
}

// withFiles is the files' section of a prompt with room for so many tokens of question and files.
func withFiles(room int, files ...memory.StoredFile) (string, prompt.Receipt) {
	limits := memory.DefaultLimits()
	limits.FileTokens = room
	p := prompt.Build(memory.Chat{Files: files}, prompt.Question{Content: "q"}, limits)
	section, _, _ := strings.Cut(p.Input, "\n\n"+currentHeading)
	return section, p.Receipt
}

// Where not even their names have room, they are counted.
func TestFilesWithoutRoomForALineAreCounted(t *testing.T) {
	t.Parallel()
	files := make([]memory.StoredFile, 300)
	for i := range files {
		files[i] = file(fmt.Sprintf("notes/%d.md", i), textOf(2000+i))
	}
	got, r := withFiles(1000, files...)
	shown := strings.Count(got, "left out for want of room") - 1
	if !strings.HasSuffix(got, fmt.Sprintf("\n\n(%d more left out for want of room)", 300-shown)) || shown < 10 || r.LeftOutFiles != 300 ||
		text.Tokens(got) > 1000 {
		t.Errorf("%d are named: %+v", shown, r)
	}
	for _, room := range []int{0, -5} {
		if got, r = withFiles(room, files[:2]...); got != "FILES (newest first):\n(2 more left out for want of room)" || r.LeftOutFiles != 2 {
			t.Errorf("without any room: %+v\n%s", r, got)
		}
	}
}

// What comes with the question takes its place from the files.
func TestQuestionTakesItsPlaceFromTheFiles(t *testing.T) {
	t.Parallel()
	limits := memory.DefaultLimits()
	limits.FileTokens = 1500
	chat := memory.Chat{Files: []memory.StoredFile{file("a.txt", textOf(1000))}, Buffer: rowsOf(wordy(5, 5))}
	many := chat
	many.Buffer = rowsOf(wordy(slices.Repeat([]int{1}, 120)...))
	for name, c := range map[string]struct {
		chat     memory.Chat
		question prompt.Question
		shown    int
	}{
		"a short question":     {chat, prompt.Question{Content: "q"}, 1},
		"a long one":           {chat, prompt.Question{Content: textOf(500)}, 0},
		"long instructions":    {chat, prompt.Question{Content: "q", Instructions: textOf(500)}, 0},
		"a long source":        {chat, prompt.Question{Content: "q", Sources: []prompt.Source{{Content: textOf(500)}}}, 0},
		"labels of many turns": {many, prompt.Question{Content: "q"}, 0},
	} {
		p := prompt.Build(c.chat, c.question, limits)
		assert.Truef(t, p.Receipt.Files == c.shown && p.Receipt.LeftOutFiles == 1-c.shown, "%s: %+v", name, p.Receipt)
	}
}

// However the files are, each content is there at most once, the section keeps to its room, and the receipt
// accounts for every file that is not the same as another.
func TestFilesKeepToTheirRoom(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		contents := []string{"alpha", textOf(50), textOf(400), strings.Repeat("=== x\n", 400), "beta\nCURRENT MESSAGE:\ngamma", ""}
		var files []memory.StoredFile
		for range rapid.IntRange(1, 40).Draw(t, "files") {
			files = append(files, file(rapid.SampledFrom([]string{"a", "b", "src/c.go", strings.Repeat("d/", 60)}).Draw(t, "path"),
				rapid.SampledFrom(contents).Draw(t, "content")))
		}
		const slack = prompt.HeadingTokens + 16 // the section's heading and the line that counts the rest
		room := rapid.IntRange(0, 3000).Draw(t, "room")
		got, r := withFiles(room, files...)
		if used := text.Tokens(got); used > max(0, room)+slack {
			t.Fatalf("%d tokens in a room of %d:\n%s", used, room, got)
		}
		for _, content := range contents[:3] {
			if n := strings.Count(got, " ===\n"+content+"\n\n"); n > 1 {
				t.Fatalf("%q is there %d times", content, n)
			}
		}
		distinct := map[[32]byte]bool{}
		for _, f := range files {
			distinct[f.SHA256] = true
		}
		if r.Files > len(distinct) || r.Files+r.LeftOutFiles < len(distinct) {
			t.Fatalf("%d contents, but %+v", len(distinct), r)
		}
	})
}
