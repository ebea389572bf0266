package bundle

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/arcoscribe/throughline/internal/memory"
)

// Bundle writes our own format: it counts the records, and writes each with its type. Records are written in their order, and
// files before the messages that name them. Its errors are those of the writer.
type Bundle struct {
	counted
	write func(kind string, encoded []byte) error
}

// NewLines returns an encoder that writes a bundle line by line.
func NewLines(w io.Writer) *Bundle {
	return &Bundle{write: func(kind string, encoded []byte) error {
		_, err := fmt.Fprintf(w, "{\"type\":%q,%s\n", kind, encoded[1:])
		return err
	}}
}

// NewObject returns an encoder that writes a bundle as one JSON object, on several lines.
func NewObject(w io.Writer) *Bundle {
	list := "" // the type of the records in the list that is open
	return &Bundle{write: func(kind string, encoded []byte) (err error) {
		closing := ""
		if list != "" && kind != list {
			closing = "]"
		}
		switch kind {
		case typeBundle:
			_, err = fmt.Fprintf(w, "%s,\"chats\":[{\n", encoded[:len(encoded)-1])
		case typeChat:
			_, err = fmt.Fprintf(w, "\"chat\":%s", encoded)
		case typeEnd:
			_, err = fmt.Fprintf(w, "%s,\n\"end\":%s}]}\n", closing, encoded)
		case list:
			_, err = fmt.Fprintf(w, ",\n%s", encoded)
		default:
			list = kind
			_, err = fmt.Fprintf(w, "%s,\n%q:[\n%s", closing, listOf(kind), encoded)
		}
		return err
	}}
}

// listOf is the name of the member that holds the records of a type.
func listOf(kind string) string {
	for name, of := range lists {
		if of == kind {
			return name
		}
	}
	return ""
}

// Begin writes the header and the chat.
func (b *Bundle) Begin(exportedAt time.Time, chat Chat) error {
	return b.begin(Header{ExportedAt: exportedAt.UTC()}, Record{Chat: &chat})
}

func (b *Bundle) begin(header Header, first Record) error {
	header.Format, header.Version = Name, Version
	if err := b.Write(Record{Header: &header}); err != nil {
		return err
	}
	return b.Write(first)
}

// Write writes a record of the chat or, outside of chats, of the account.
func (b *Bundle) Write(record Record) error {
	b.count(&record)
	for field, value := range reflect.ValueOf(record).Fields() {
		if value.IsNil() {
			continue
		}
		encoded, err := memory.EncodeJSON(value.Interface())
		if err != nil {
			return err
		}
		return b.write(field.Tag.Get("type"), encoded)
	}
	return nil
}

// End closes the chat.
func (b *Bundle) End() error { return b.Write(Record{End: new(b.inChat)}) }

// about is what a person reads who opens the file.
const about = "Everything that is stored about one user, one JSON object per line, each with its type. account: who it is, and their settings. " +
	"chat, then its files, messages, topics and the revisions of its summary, up to end. memory: what is remembered across chats, with where it was said " +
	"and its history. " +
	"entity and relationship: what the memories are about. account_end: the file is whole. " +
	"POST it to /v1/import to take it to another account. docs/bundle.md describes it."

// BeginAccount writes what stands before the chats of an account. After them come the records outside of chats.
func (b *Bundle) BeginAccount(exportedAt time.Time, account Account) error {
	return b.begin(Header{ExportedAt: exportedAt.UTC(), Holds: HoldsAccount, About: about}, Record{Account: &account})
}

// EndAccount says that the file is whole.
func (b *Bundle) EndAccount() error { return b.Write(Record{AccountEnd: new(b.outside)}) }

// Markdown writes a chat for people. Messages are block quotes, and files are in fences longer than any within, so that
// no content can look like the document's own structure.
type Markdown struct {
	w io.Writer
	// paths are those under which each content was first shown, by its hash.
	paths map[string]string
}

// NewMarkdown returns an encoder that writes to w.
func NewMarkdown(w io.Writer) *Markdown { return &Markdown{w: w, paths: map[string]string{}} }

// Begin writes the title and the dates.
func (m *Markdown) Begin(exportedAt time.Time, chat Chat) error {
	title := chat.Title
	if strings.TrimSpace(title) == "" {
		title = "Untitled chat"
	}
	var out strings.Builder
	fmt.Fprintf(&out, "# %s\n\n- Begun: %s\n", plainText(title), moment(chat.CreatedAt))
	if chat.LastMessageAt != nil {
		fmt.Fprintf(&out, "- Last message: %s\n", moment(*chat.LastMessageAt))
	}
	fmt.Fprintf(&out, "- Exported: %s\n", moment(exportedAt))
	if len(chat.Tags) > 0 {
		fmt.Fprintf(&out, "- Tags: %s\n", plainText(strings.Join(chat.Tags, ", ")))
	}
	if deref(chat.SystemPrompt) != "" {
		fmt.Fprintf(&out, "\n**Instructions**\n\n%s", quote(*chat.SystemPrompt))
	}
	return m.write(out.String())
}

// Message writes the speaker, the time and the content.
func (m *Markdown) Message(message Message) error {
	var out strings.Builder
	fmt.Fprintf(&out, "\n---\n\n%s, %s%s\n", speaker(message), moment(message.CreatedAt), remark(message))
	if message.Content != "" {
		fmt.Fprintf(&out, "\n%s", quote(message.Content))
	}
	if !absent(message.ToolCalls) {
		fmt.Fprintf(&out, "\n%s", fenced("json", string(message.ToolCalls)))
	}
	if calls := callsAndResults(message.Parts); calls != "" {
		fmt.Fprintf(&out, "\n%s", fenced("json", calls))
	}
	return m.write(out.String())
}

// callsAndResults returns the calls of a reply, with what came of them, each part on its line.
func callsAndResults(stored json.RawMessage) string {
	var lines strings.Builder
	for _, part := range memory.ReadParts(stored) {
		if part.CallID == "" {
			continue
		}
		line, err := memory.EncodeJSON(part)
		if err != nil {
			continue // it was read from JSON
		}
		lines.Write(append(line, '\n'))
	}
	return lines.String()
}

// File writes a content the first time, and afterwards a reference to that.
func (m *Markdown) File(path string, file File) error {
	if before, shown := m.paths[file.SHA256]; shown {
		return m.write(fmt.Sprintf("\nFile %s: the same as %s above.\n", plainText(path), plainText(before)))
	}
	m.paths[file.SHA256] = path
	return m.write(fmt.Sprintf("\nFile %s:\n\n%s", plainText(path), fenced("", file.Content)))
}

func (m *Markdown) write(text string) error {
	_, err := io.WriteString(m.w, text)
	return err
}

func moment(at time.Time) string { return at.UTC().Format("2006-01-02 15:04 UTC") }

// speaker is the role, with the message's name or the model variant of a reply in parentheses.
func speaker(message Message) string {
	role := map[memory.Role]string{
		memory.RoleUser: "User", memory.RoleAssistant: "Assistant", memory.RoleSystem: "System", memory.RoleTool: "Tool",
	}[memory.Role(message.Role)]
	var known struct {
		Variant string `json:"model_variant"`
	}
	_ = json.Unmarshal(message.Metadata, &known) // an app's own metadata may hold anything
	beside := cmp.Or(deref(message.Name), known.Variant)
	if beside == "" {
		return "**" + role + "**"
	}
	return "**" + role + "** (" + plainText(beside) + ")"
}

func remark(message Message) string {
	text := ""
	if message.Status != string(memory.StatusComplete) {
		text = ", " + message.Status
	}
	if message.Pinned {
		text += ", pinned"
	}
	return text
}

// lineEnds normalizes what Markdown takes for the end of a line.
var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// quote makes a block quote, so that Markdown which begins in the text ends with it.
func quote(text string) string {
	var out strings.Builder
	for line := range strings.SplitSeq(strings.TrimRight(lineEnds.Replace(text), "\n"), "\n") {
		out.WriteString(strings.TrimRight("> "+line, " ") + "\n")
	}
	return out.String()
}

// fenced puts the text between fences of more backticks than it has in a row.
func fenced(language, text string) string {
	longest := 2
	for run := range strings.FieldsFuncSeq(text, func(r rune) bool { return r != '`' }) {
		longest = max(longest, len(run))
	}
	fence := strings.Repeat("`", longest+1)
	text = lineEnds.Replace(text)
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return fence + language + "\n" + text + fence + "\n"
}

var special = regexp.MustCompile("[\\\\`*_{}\\[\\]<>()#!|&~]")

// plainText puts a text on one line and escapes special characters.
func plainText(text string) string {
	return special.ReplaceAllString(oneLine(text), `\$0`)
}

// oneLine makes one space of white space and control characters.
func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
}
