package memory

import (
	"fmt"
	"strings"
)

// File is a text file that came with a message.
type File struct {
	Path, Content string
}

// StoredFile is one sending of a file.
type StoredFile struct {
	Path string
	// SHA256 of the content tells which sendings are of the same.
	SHA256 [32]byte
	// Content may be empty for files that are too far back to have room.
	Content string
	Tokens  int // of the content, as stored
}

// shownFile is a file's entry in a prompt.
type shownFile struct {
	StoredFile
	sameAs  string // the path under which the content is shown already
	newer   bool   // another content of the same path is shown already
	leftOut bool
}

// pickFiles decides what a prompt shows of the chat's files, which are in order, newest first: each content
// once, while there is room. The same content under another path is named beside the first one; under the
// same path it is the same file.
func pickFiles(files []StoredFile, room int) (shown []shownFile, tokens int) {
	first := make(map[[32]byte]string, len(files))
	told := make(map[string]bool, len(files)) // paths and hashes that have their entry
	paths := make(map[string]bool, len(files))
	for _, f := range files {
		key := f.Path + "\x00" + string(f.SHA256[:])
		if told[key] {
			continue
		}
		told[key] = true
		entry := shownFile{StoredFile: f, newer: paths[f.Path]}
		path, seen := first[f.SHA256]
		switch {
		case seen:
			entry.sameAs = path
		case tokens+f.Tokens > room || f.Content == "" && f.Tokens > 0:
			entry.leftOut = true
		default:
			tokens += f.Tokens
			first[f.SHA256] = f.Path
		}
		paths[f.Path] = true
		shown = append(shown, entry)
	}
	return shown, tokens
}

// writeFiles writes the section of the files. A line of a file that reads as a heading of ours, or as the
// head of a file, is quoted; all else is word for word.
func writeFiles(b *strings.Builder, files []shownFile) {
	if len(files) == 0 {
		return
	}
	section(b, filesHeading)
	for i, f := range files {
		if i > 0 {
			b.WriteString("\n\n")
		}
		f.write(b)
	}
}

func (f *shownFile) write(b *strings.Builder) {
	fmt.Fprintf(b, "=== %s ===", f.label())
	switch {
	case f.sameAs != "":
		b.WriteString(" the same as " + oneLine(f.sameAs))
	case f.leftOut:
		fmt.Fprintf(b, " %d tokens, left out for want of room", f.Tokens)
	default:
		b.WriteByte('\n')
		b.WriteString(quoteLines(f.Content, readsAsFilePart))
	}
}

func (f *shownFile) label() string {
	if f.newer {
		return oneLine(f.Path) + " (an earlier version)"
	}
	return oneLine(f.Path)
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

func readsAsFilePart(line string) bool {
	return readsAsHeading(line) || strings.HasPrefix(asSeen(line), "=== ")
}
