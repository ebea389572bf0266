package prompt

import (
	"fmt"
	"strings"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// shownFiles is what a prompt shows of a chat's files.
type shownFiles struct {
	entries []shownFile
	tokens  int // of the contents that are shown
	untold  int // sendings for which there is not even a line
	room    int // for all of them, in tokens
}

// shownFile is a file's entry in a prompt.
type shownFile struct {
	memory.StoredFile
	text    string // the content as shown
	sameAs  string // the path under which the content is shown already
	newer   bool   // another content of the same path is shown already
	leftOut bool
}

// fileLineTokens is what an entry takes beside its path and its content, from above.
const fileLineTokens = 24

// pickFiles decides what a prompt shows of the chat's files, which are in order, newest first: each content
// once, while there is room. The same content under another path is named beside the first one; under the
// same path it is the same file. One that has no room is a line, while there is room for lines.
func pickFiles(files []memory.StoredFile, room int) shownFiles {
	shown := shownFiles{room: room}
	first := make(map[[32]byte]string, len(files))
	told := make(map[string]bool, len(files)) // paths and hashes that have their entry
	paths := make(map[string]bool, len(files))
	for _, f := range files {
		key := f.Path + "\x00" + string(f.SHA256[:])
		if told[key] {
			continue
		}
		told[key] = true
		entry := shownFile{StoredFile: f, newer: paths[f.Path], sameAs: first[f.SHA256]}
		line := fileLineTokens + text.Tokens(f.Path) + text.Tokens(entry.sameAs)
		paths[f.Path] = true
		if line > room {
			shown.untold++
			continue
		}
		room -= line
		if entry.sameAs == "" && entry.show(room) {
			room -= entry.Tokens
			shown.tokens += f.Tokens
			first[f.SHA256] = f.Path
		}
		shown.entries = append(shown.entries, entry)
	}
	return shown
}

// show takes the content if it has room, and counts what its quoted lines take more.
func (f *shownFile) show(room int) bool {
	f.leftOut = true
	if f.Tokens > room || f.Content == "" && f.Tokens > 0 {
		return false
	}
	text := text.QuoteLines(f.Content, readsAsFilePart)
	quotes := len(text) - len(f.Content) // each is two bytes and at most as many tokens
	if f.Tokens+quotes > room {
		return false
	}
	f.text, f.Tokens, f.leftOut = text, f.Tokens+quotes, false
	return true
}

// writeFiles writes a chat's files. A line of a file that reads as a heading of ours, or as the head of a file, is
// quoted; all else is word for word.
func writeFiles(s *selection) Section {
	var b strings.Builder
	f := &s.files
	for i := range f.entries {
		if i > 0 {
			b.WriteString("\n\n")
		}
		f.entries[i].write(&b)
	}
	if f.untold > 0 && len(f.entries) > 0 {
		b.WriteString("\n\n")
	}
	if f.untold > 0 {
		fmt.Fprintf(&b, "(%d more left out for want of room)", f.untold)
	}
	return Section{Text: b.String(), Budget: f.room, Account: Account{Tokens: f.tokens, Items: len(f.entries), LeftOut: f.leftOut()}}
}

// shown counts the contents that are shown.
func (s *shownFiles) shown() int {
	n := 0
	for i := range s.entries {
		if !s.entries[i].leftOut && s.entries[i].sameAs == "" {
			n++
		}
	}
	return n
}

// leftOut counts the sendings without room.
func (s *shownFiles) leftOut() int {
	n := s.untold
	for i := range s.entries {
		if s.entries[i].leftOut {
			n++
		}
	}
	return n
}

func (s *shownFiles) size() int {
	const perEntry = 64
	size := 0
	for _, f := range s.entries {
		size += perEntry + len(f.Path) + len(f.sameAs) + len(f.text)
	}
	return size
}

func (f *shownFile) write(b *strings.Builder) {
	fmt.Fprintf(b, "=== %s ===", f.label())
	switch {
	case f.sameAs != "":
		b.WriteString(" the same as " + text.OneLine(f.sameAs))
	case f.leftOut:
		fmt.Fprintf(b, " %d tokens, left out for want of room", f.Tokens)
	default:
		b.WriteByte('\n')
		b.WriteString(f.text)
	}
}

func (f *shownFile) label() string {
	if f.newer {
		return text.OneLine(f.Path) + " (an earlier version)"
	}
	return text.OneLine(f.Path)
}

func readsAsFilePart(line string) bool {
	return ReadsAsHeading(line) || readsAsFileHead(line)
}

// readsAsFileHead tells whether a line begins as the head of a file does. Most lines hold no equals sign in
// any of its forms, and are spared the dear look.
func readsAsFileHead(line string) bool {
	if !text.HasEquals(line) {
		return false
	}
	rest, ok := strings.CutPrefix(text.AsSeen(line, text.SeenRunes), "===")
	return ok && (strings.HasPrefix(rest, " ") || strings.HasPrefix(rest, "\t"))
}
