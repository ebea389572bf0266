package bundle

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The formats of a file of memories. FormatOwn is ours.
const (
	FormatOwn        Format = "throughline"
	FormatMem0       Format = "mem0"    // what mem0's get_all or an export job answers
	FormatZep        Format = "zep"     // facts of Zep: edges of its graph, or the facts of sessions
	FormatChatGPTBio Format = "chatgpt" // ChatGPT's memories as JSON
	FormatList       Format = "list"    // one memory per line of text, as it is copied out of ChatGPT's settings
)

// MemoryFile is what a file of memories holds.
type MemoryFile struct {
	// Format is that of its first memory.
	Format  Format
	Records []Memory
	// Refused are memories of other programs that cannot be kept.
	Refused []RefusedMemory
}

// RefusedMemory is a memory of another program that cannot be kept: bad_length.
type RefusedMemory struct {
	_      struct{} `description:"A memory of another program that cannot be kept."`
	Line   int      `json:"line" description:"Where it begins in the file, from 1."`
	Reason string   `json:"reason" enum:"bad_length" description:"bad_length: it has no characters, or more than 500."`
}

// ReadMemories reads a file of memories, of our format or another program's, which its content shows. It returns all of
// them or, with the problem and its line, none; of other programs' memories, memories that are too long are left out and
// named. now tells past truths from present ones.
func ReadMemories(file io.ReaderAt, size int64, now time.Time) (MemoryFile, error) {
	content, err := withoutMark(file, size)
	if err != nil {
		return MemoryFile{}, err
	}
	r := &memoryReader{content: content, lines: newLines(content), now: now, seen: idSet{}, users: map[string]struct{}{}}
	where, err := r.read()
	if err == nil && len(r.found.Records)+len(r.found.Refused) == 0 {
		err = wrong("empty", "the file holds no memories")
	}
	if err != nil {
		return MemoryFile{}, at(where.position(), err)
	}
	return r.found, nil
}

type memoryReader struct {
	content *io.SectionReader
	lines   *lines
	now     time.Time
	seen    idSet
	users   map[string]struct{}
	found   MemoryFile
}

// read reads the file by how it begins: as an array, as an object that holds a list, as one of many objects, or as text. It
// returns what knows the position of the latest memory.
func (r *memoryReader) read() (interface{ position() position }, error) {
	begin, _ := newWindow(r.content).token() // what is no JSON is text, and what cannot be read cannot be read below either
	switch {
	case begin == json.Delim('[') || begin == json.Delim('{') && r.isWrapped():
		w := newWindow(r.content)
		return w, r.value(w, begin == json.Delim('['))
	case begin == json.Delim('{'):
		return r.lines, r.lines.each(func(line []byte) error {
			return r.object(bytes.TrimPrefix(line, []byte("\xef\xbb\xbf")), r.lines.number, true)
		})
	}
	return r.lines, r.lines.each(r.item)
}

// isWrapped reports whether the file is an object that holds lists of memories. A problem of a line is found when that
// line is read.
func (r *memoryReader) isWrapped() (wrapped bool) {
	w := newWindow(r.content)
	_ = w.members('{', "", func(name string) error { // see above
		if wrapped = slices.Contains(memoryMembers, name); wrapped {
			return errStopped
		}
		_, err := w.value()
		return err
	})
	return wrapped
}

// memoryMembers are the members of an object that hold lists of memories.
var memoryMembers = []string{"results", "memories", "edges", "facts", "relevant_facts"}

// item reads one memory per line of text.
func (r *memoryReader) item(line []byte) error {
	if r.lines.number == 1 && line[0] == '<' || slices.ContainsFunc([]rune(string(line)), isControl) {
		return wrong("unknown_format", "this is neither JSON nor a list of memories, one a line")
	}
	content := withoutBullet(string(line))
	if content == "" || strings.HasPrefix(content, "#") {
		return nil // a heading
	}
	return r.add(Memory{Content: content}, FormatList, r.lines.number)
}

func isControl(r rune) bool { return unicode.IsControl(r) && r != '\t' }

// bullet begins an item of a list.
var bullet = regexp.MustCompile(`^(?:[-*•–]|[0-9]{1,3}[.)]) `)

func withoutBullet(line string) string {
	if strings.Trim(line, "-*•– ") == "" {
		return ""
	}
	return strings.TrimSpace(bullet.ReplaceAllString(line, ""))
}

// value reads one JSON value: an array of memories, or an object with lists of them.
func (r *memoryReader) value(w *window, isArray bool) error {
	counter := newLineCounter(r.content)
	element := func(string) error {
		raw, err := w.value()
		if err != nil {
			return err
		}
		return r.object(raw, counter.lineOf(w.begun), false)
	}
	if isArray {
		return w.whole('[', "an array is expected here", element)
	}
	return w.whole('{', "a JSON object is expected here", func(name string) error {
		if slices.Contains(memoryMembers, name) {
			return w.members('[', name+" is not an array", element)
		}
		_, err := w.value()
		return err
	})
}

// object reads a memory of whichever program. ours is whether one with a content is of our own format.
func (r *memoryReader) object(raw []byte, line int, ours bool) error {
	if len(raw) > maxMemoryRecord {
		return wrong("record_too_long", fmt.Sprintf("the record is longer than %d bytes", maxMemoryRecord))
	}
	var names struct {
		Memory  json.RawMessage `json:"memory"`
		Fact    json.RawMessage `json:"fact"`
		Content json.RawMessage `json:"content"`
		Sources json.RawMessage `json:"sources"`
	}
	if err := decode(raw, &names); err != nil {
		return err
	}
	switch {
	case names.Memory != nil:
		return r.foreign(raw, line, FormatMem0)
	case names.Fact != nil:
		return r.foreign(raw, line, FormatZep)
	case !ours && names.Content != nil && names.Sources == nil:
		return r.foreign(raw, line, FormatChatGPTBio)
	}
	memory, err := readMemory(raw)
	if err == nil && memory.ID != "" {
		err = uniform("id", &memory.ID)
	}
	if err != nil {
		return err
	}
	return r.keep(memory, FormatOwn)
}

// readMemory reads one of ours. Where the API writes memory_type it reads type, so that is known as well.
func readMemory(raw []byte) (Memory, error) {
	var memory struct {
		Memory
		Type string `json:"type"`
	}
	if err := decode(raw, &memory); err != nil {
		return Memory{}, err
	}
	if memory.MemoryType == "" && slices.Contains(memoryTypes, memory.Type) {
		memory.MemoryType = memory.Type
	}
	return memory.Memory, checkMemory(&memory.Memory)
}

func (r *memoryReader) foreign(raw []byte, line int, format Format) error {
	var item foreignMemory
	if err := decode(raw, &item); err != nil {
		return err
	}
	if user := item.user(); user != "" {
		r.users[user] = struct{}{}
	}
	if len(r.users) > 1 {
		return wrong("several_users", "the file holds memories of more than one user")
	}
	return r.add(item.memory(format, r.now), format, line)
}

// add keeps a memory of another program, unless it is too long.
func (r *memoryReader) add(memory Memory, format Format, line int) error {
	memory.Content = strings.TrimSpace(memory.Content)
	if n := utf8.RuneCountInString(memory.Content); n < 1 || n > maxMemory {
		r.found.Format = cmp.Or(r.found.Format, format)
		r.found.Refused = append(r.found.Refused, RefusedMemory{Line: line, Reason: "bad_length"})
		return r.bounded()
	}
	if err := checkMemory(&memory); err != nil {
		return err
	}
	return r.keep(memory, format)
}

func (r *memoryReader) keep(memory Memory, format Format) error {
	if memory.ID != "" {
		if err := r.seen.add(memory.ID, "duplicate_id", "there is a memory with this id already"); err != nil {
			return err
		}
	}
	r.found.Format = cmp.Or(r.found.Format, format)
	r.found.Records = append(r.found.Records, memory)
	return r.bounded()
}

func (r *memoryReader) bounded() error {
	if len(r.found.Records)+len(r.found.Refused) > MaxMemories {
		return wrong("too_many_memories", fmt.Sprintf("there are more than %d memories", MaxMemories))
	}
	return nil
}
