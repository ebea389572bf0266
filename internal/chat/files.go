package chat

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// checkFiles adds a sentence to wrong for each file that is refused, by its index.
func (m *Message) checkFiles(wrong map[string]any) {
	if len(m.Files) > MaxFiles {
		wrong["files"] = fmt.Sprintf("has %d entries, at most %d are accepted", len(m.Files), MaxFiles)
	}
	for i, file := range m.Files {
		if problem := fileProblem(file); problem != "" {
			wrong["files["+strconv.Itoa(i)+"]"] = problem
		}
	}
}

// fileProblem returns why a file is refused, "" when it is not.
func fileProblem(file memory.File) string {
	name := strconv.Quote(shortened(file.Path))
	switch {
	case strings.TrimSpace(file.Path) == "":
		return "has no path"
	case utf8.RuneCountInString(file.Path) > maxPath || strings.ContainsFunc(file.Path, unicode.IsControl):
		return fmt.Sprintf("%s: a path is at most %d printable characters", name, maxPath)
	case len(file.Content) > MaxFileBytes:
		return fmt.Sprintf("%s has %d bytes, at most %d are accepted", name, len(file.Content), MaxFileBytes)
	case isBinary(file.Content):
		return name + " is not a text file"
	}
	return ""
}

// shortened returns the beginning of a path that is too long for an error message.
func shortened(path string) string {
	const most = 200
	if runes := []rune(path); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return path
}

// binaryShare: more than one control or replacement character in so many characters means that a content is not text.
const binaryShare = 10

func isBinary(content string) bool {
	odd, all := 0, 0
	for _, r := range content {
		all++
		switch {
		case r == 0:
			return true
		case r == utf8.RuneError, unicode.IsControl(r) && !strings.ContainsRune("\t\n\v\f\r\b\x1b\u0085", r):
			odd++
		}
	}
	return odd*binaryShare > all
}

// newFiles adds hashes and token counts. A content that occurs twice is tokenized once.
func newFiles(files []memory.File) []NewFile {
	if len(files) == 0 {
		return nil
	}
	made := make([]NewFile, len(files))
	tokens := make(map[[sha256.Size]byte]int, len(files))
	for i, file := range files {
		hash := sha256.Sum256([]byte(file.Content))
		if _, counted := tokens[hash]; !counted {
			tokens[hash] = text.Tokens(file.Content)
		}
		made[i] = NewFile{File: file, SHA256: hash, Tokens: tokens[hash]}
	}
	return made
}
