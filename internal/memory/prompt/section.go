package prompt

import (
	"fmt"
	"strings"

	"github.com/arcoscribe/throughline/internal/memory/text"
)

// Section is one part of a prompt.
type Section struct {
	Account
	// Budget is the most tokens that the section may take.
	Budget int `json:"budget"`
	// Text is the section as it stands in the prompt, with its heading.
	Text string `json:"text"`
	// Turns, Messages or Files is Items under the name of what the section is made of.
	Turns    int `json:"turns,omitempty"`
	Messages int `json:"messages,omitempty"`
	Files    int `json:"files,omitempty"`
}

// Account says what a section takes and what it stands for. Its JSON is part of the HTTP contract.
type Account struct {
	// Name is brief, kept, recent, files or recall.
	Name string `json:"name"`
	// Tokens are those that the budgets count: of stored texts, without headings and labels.
	Tokens int `json:"tokens"`
	// Items counts what the section stands for: turns, messages or files.
	Items int `json:"items"`
	// LeftOut counts the items that had no room.
	LeftOut int `json:"left_out"`
	// Failure says why a section that had to be retrieved is missing: late or failed.
	Failure string `json:"failure,omitempty"`
}

// part describes a section.
type part struct {
	name    string
	heading string
	// items says what the section is made of; "" for one that is not memory: it is in the prompt, but neither
	// in the receipt nor among its Sections.
	items string
	// write returns the section without its name and its heading. One without text is left out of the prompt.
	write func(*selection) Section
	// remark is what the section adds to the sentence about coverage; nil for nothing.
	remark func(Account) string
}

// parts are the sections of a prompt in their order. Everything that depends on which sections there are follows from
// this table: the prompt, the lines that are quoted because they read as a heading, the receipt, the sections of
// GET /v1/chats/:chat_id/memory, and the remarks about coverage.
//
// Headings are to the letter: models, prompt caches and tests know them. The sections up to recent only grow at their
// end between two folds, so that the provider's prompt cache keeps hitting; what changes with each question follows.
var parts = []part{
	{name: "brief", heading: "BACKGROUND – PRIOR CONVERSATION SUMMARY (use only if relevant):", items: "turns", write: writeBrief},
	{name: "kept", heading: "KEPT MESSAGES (pinned or important, oldest first):", items: "messages", write: writeKept, remark: keptRemark},
	{name: "recent", heading: "RECENT CONVERSATION (oldest first):", items: "turns", write: writeRecent},
	{name: "files", heading: "FILES (newest first):", items: "files", write: writeFiles},
	{name: "recall", heading: "RELEVANT EARLIER TURNS (oldest first, quoted in part):", items: "turns", write: writeRetrieved("recall")},
	{name: "sources", heading: "RETRIEVED SOURCES:", write: writeSources},
	{name: "question", heading: "CURRENT MESSAGE:", write: writeQuestion},
}

// headings are the words of the parts' headings: see text.LabelOf.
var headings = map[string]bool{}

func init() {
	for _, p := range parts {
		_, words := text.LabelOf(p.heading)
		headings[words] = true
	}
}

// Heading returns the heading of a section, "" for a name that no section has.
func Heading(name string) string {
	for _, p := range parts {
		if p.name == name {
			return p.heading
		}
	}
	return ""
}

// writer writes a prompt, section by section.
type writer struct {
	strings.Builder

	sections []Section
	accounts []Account
}

// add writes a section. One of memory's is accounted for, also when it is empty because its items had no room or
// could not be retrieved.
func (w *writer) add(p *part, s *selection) {
	section := p.write(s)
	if section.Text != "" {
		section.Text = w.write(p.heading, section.Text)
	}
	if p.items == "" || section.Text == "" && section.LeftOut == 0 && section.Failure == "" {
		return
	}
	section.Name = p.name
	w.accounts = append(w.accounts, section.Account)
	if section.Text != "" {
		w.sections = append(w.sections, section.counted(p.items))
	}
}

// write appends a heading and what stands under it, and returns both as they stand in the prompt.
func (w *writer) write(heading, body string) string {
	if w.Len() > 0 {
		w.WriteString("\n\n")
	}
	begin := w.Len()
	w.WriteString(heading)
	w.WriteByte('\n')
	w.WriteString(body)
	return w.String()[begin:]
}

// counted returns the section with its items under their own name as well.
func (s Section) counted(items string) Section {
	switch items {
	case "turns":
		s.Turns = s.Items
	case "messages":
		s.Messages = s.Items
	case "files":
		s.Files = s.Items
	}
	return s
}

func keptRemark(a Account) string {
	if a.Items == 1 {
		return "1 pinned or important message is there from before, word for word as well."
	}
	return fmt.Sprintf("%d pinned or important messages are there from before, word for word as well.", a.Items)
}
