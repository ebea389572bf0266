package prompt

import (
	"fmt"
	"strings"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// fileSelection are the files of a chat that a prompt shows.
type fileSelection struct {
	entries  []fileEntry
	shown    int // contents that are shown
	tokens   int // of these contents
	leftOut  int // files without room for their content
	unlisted int // those of them without room even for an entry
	room     int // the most tokens of the section
}

// fileEntry is a file's entry in a prompt.
type fileEntry struct {
	memory.StoredFile
	text    string // the content as shown
	sameAs  string // the path under which the same content is shown already; "" for none
	earlier bool   // a newer content of the same path is listed
	leftOut bool   // the content has no room
}

// fileLineTokens is an upper bound of the tokens that an entry takes beside its path and its content.
const fileLineTokens = 24

// selectFiles selects the chat's files for a prompt. They are ordered newest first: each content is shown once,
// while there is room. The same content under another path is an entry that names the first path; under the same path
// it is the same file. A content without room is left out of its entry; when there is no room for an entry, the file
// is only counted.
func selectFiles(files []memory.StoredFile, room int) fileSelection {
	selected := fileSelection{room: room}
	type version struct {
		path string
		hash [32]byte
	}
	seen := make(map[version]bool, len(files))
	seenPath := make(map[string]bool, len(files))
	shownAt := make(map[[32]byte]string, len(files)) // the path under which a content is shown
	for _, f := range files {
		key := version{f.Path, f.SHA256}
		if seen[key] {
			continue
		}
		seen[key] = true
		entry := fileEntry{StoredFile: f, earlier: seenPath[f.Path], sameAs: shownAt[f.SHA256]}
		seenPath[f.Path] = true
		line := fileLineTokens + text.Tokens(f.Path) + text.Tokens(entry.sameAs)
		if line > room {
			selected.unlisted++
			selected.leftOut++
			continue
		}
		room -= line
		if entry.sameAs == "" && entry.show(room) {
			room -= entry.Tokens
			selected.shown++
			selected.tokens += f.Tokens
			shownAt[f.SHA256] = f.Path
		}
		if entry.leftOut {
			selected.leftOut++
		}
		selected.entries = append(selected.entries, entry)
	}
	return selected
}

// show sets the entry's content if it has room, and adds what its quotes take to Tokens.
func (f *fileEntry) show(room int) bool {
	f.leftOut = true
	if f.Tokens > room || f.Content == "" && f.Tokens > 0 {
		return false
	}
	quoted := text.QuoteLines(f.Content, looksLikeFilePart)
	added := len(quoted) - len(f.Content) // each quote is two bytes and at most as many tokens
	if f.Tokens+added > room {
		return false
	}
	f.text, f.Tokens, f.leftOut = quoted, f.Tokens+added, false
	return true
}

// writeFiles writes a chat's files. A line of a file that looks like a heading or like the beginning of an entry is
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
	if f.unlisted > 0 && len(f.entries) > 0 {
		b.WriteString("\n\n")
	}
	if f.unlisted > 0 {
		fmt.Fprintf(&b, "(%d more left out for want of room)", f.unlisted)
	}
	return Section{Text: b.String(), Budget: f.room, Account: Account{Tokens: f.tokens, Items: len(f.entries), LeftOut: f.leftOut}}
}

func (f *fileEntry) write(b *strings.Builder) {
	label := text.OneLine(f.Path)
	if f.earlier {
		label += " (an earlier version)"
	}
	fmt.Fprintf(b, "=== %s ===", label)
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

func looksLikeFilePart(line string) bool {
	return LooksLikePrompt(line) || looksLikeFileEntry(line)
}

// looksLikeFileEntry reports whether a line looks like the beginning of a file's entry.
func looksLikeFileEntry(line string) bool {
	if !text.HasEquals(line) {
		return false
	}
	rest, ok := strings.CutPrefix(text.Skeleton(line, text.PrefixRunes), "===")
	return ok && (strings.HasPrefix(rest, " ") || strings.HasPrefix(rest, "\t"))
}
