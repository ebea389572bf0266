package bundle

import (
	"cmp"
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// chatGPT reads conversations.json as ChatGPT exports it: an array of conversations, each a tree of messages
// ("mapping") with the node at which its active branch ends ("current_node"). It reads a conversation twice: first where the
// nodes stand, in the file and in the tree, then the messages one by one, so that its texts are never in memory together.
type chatGPT struct {
	window       *window
	conversation int   // the index of the one that is read, or -1
	node         int64 // offset of the node whose message is read, or -1
}

// node is where a node stands, in the file and in the tree.
type node struct {
	id, parent         string
	from, to           int64
	at                 time.Time // not before its parent's
	shown, onPath      bool      // whether it is a message, and whether the active branch leads through it
	up, children, next *node     // next has the same parent
	// above is the message before it. below is the one after it on the path, and by, for a message that is not, the one that stands
	// in its place or, behind such a message, in that one's.
	above, below, by *node
	user, call       *string // the latest message of the user, and the latest call as long as only tools have answered since
}

// conversation is one element of the array, without its texts.
type conversation struct {
	id, otherID, title, current string
	created                     time.Time
	nodes                       []*node // in the order of the file
	byID                        map[string]*node
}

func (c *chatGPT) position() position {
	offset := c.window.begun
	if c.node >= 0 {
		offset = c.node
	}
	return position{line: c.window.lineOf(offset), conversation: c.conversation}
}

func (c *chatGPT) read(emit func(Record) error) error {
	next := 0
	return c.window.whole('[', "an array of conversations is expected here", func(string) error {
		c.conversation = next
		if err := c.chat(emit); err != nil {
			return err
		}
		c.conversation = -1
		next++
		return nil
	})
}

func (c *chatGPT) chat(emit func(Record) error) error {
	found, err := c.tree()
	if err != nil {
		return err
	}
	ordered, err := found.ordered()
	if err != nil {
		return err
	}
	err = emit(Record{Chat: &Chat{
		ID: cmp.Or(found.id, found.otherID, "node "+found.current), Title: text.Shorten(found.title, memory.MaxTitle), CreatedAt: found.created,
		Metadata: json.RawMessage(`{"imported_from":"chatgpt"}`),
	}})
	if err != nil {
		return err
	}
	for _, at := range ordered {
		c.node = at.from
		message, err := c.message(at)
		if err != nil {
			return err
		}
		at.place(message)
		if err := emit(Record{Message: message}); err != nil {
			return err
		}
	}
	c.node = -1
	return emit(Record{End: &End{Messages: len(ordered)}})
}

// message reads the message of a node that has been read once.
func (c *chatGPT) message(at *node) (*Message, error) {
	raw := make([]byte, at.to-at.from)
	if _, err := c.window.content.ReadAt(raw, at.from); err != nil {
		return nil, err
	}
	var found chatGPTNode
	if err := decode(raw, &found); err != nil {
		return nil, err
	}
	return found.said(at.id)
}

// place says where a message stands in the tree, and what it replies to.
func (n *node) place(message *Message) {
	if n.above.up != nil {
		message.ParentID = &n.above.id
	}
	if !n.onPath {
		message.SupersededBy = &n.by.id
	}
	n.user = n.above.user
	switch {
	case message.ToolCalls != nil:
		n.call = &n.id
	case message.Role == string(memory.RoleTool):
		message.ToolCallID, n.call = n.above.call, n.above.call
	case message.Role == string(memory.RoleUser):
		n.user = &n.id
	case message.Role == string(memory.RoleAssistant):
		message.ReplyTo = n.user
	}
}

// tree reads one element of the array, but of its nodes only where they stand.
func (c *chatGPT) tree() (*conversation, error) {
	found := &conversation{}
	texts := map[string]*string{"title": &found.title, "conversation_id": &found.id, "id": &found.otherID, "current_node": &found.current}
	err := c.window.members('{', "a conversation is not an object", func(name string) error {
		if name == "mapping" {
			return c.mapping(found)
		}
		raw, err := c.window.value()
		if err != nil {
			return err
		}
		if text, known := texts[name]; known && json.Unmarshal(raw, text) != nil {
			return wrong("wrong_type", name+" is not a text")
		}
		if name == "create_time" {
			found.created, err = unixTime(raw)
		}
		return err
	})
	if err == nil && found.byID == nil {
		err = wrong("no_mapping", "the conversation has no mapping")
	}
	return found, err
}

func (c *chatGPT) mapping(found *conversation) error {
	found.byID = map[string]*node{}
	return c.window.members('{', "mapping is not an object", func(id string) error {
		raw, err := c.window.value()
		if err != nil {
			return err
		}
		var tree chatGPTNode
		if err := decode(raw, &tree); err != nil {
			return err
		}
		message, err := tree.said(id)
		if err != nil {
			return err
		}
		if found.byID[id] != nil {
			return wrong("duplicate_id", "there is a node with this id already")
		}
		to := c.window.decoder.InputOffset()
		read := &node{id: id, parent: tree.Parent, from: to - int64(len(raw)), to: to, shown: message != nil}
		if read.shown {
			read.at = message.CreatedAt
		}
		found.nodes, found.byID[id] = append(found.nodes, read), read
		return nil
	})
}

// ordered returns the messages by time, parents before their children: the root stands before the first.
func (f *conversation) ordered() ([]*node, error) {
	current := f.byID[f.current]
	if current == nil && len(f.nodes) > 0 {
		return nil, wrong("broken_branch", "the active branch leads to a node that is not in the mapping")
	}
	root := &node{id: f.current, shown: true, onPath: true}
	for _, n := range slices.Backward(f.nodes) {
		if n.up = root; n.parent != "" {
			n.up = f.byID[n.parent]
		}
		if n.up == nil {
			return nil, wrong("broken_branch", "a branch leads to a node that is not in the mapping")
		}
		n.next, n.up.children = n.up.children, n
	}
	all := append(make([]*node, 0, len(f.nodes)+1), root)
	for i := 0; i < len(all); i++ {
		for n := all[i].children; n != nil; n = n.next {
			if all = append(all, n); n.up.at.After(n.at) {
				n.at = n.up.at
			}
		}
	}
	if len(all) <= len(f.nodes) {
		return nil, wrong("broken_branch", "a branch goes in a circle")
	}
	for n := current; n != nil; n = n.up {
		n.onPath = true
	}
	related(all[1:])
	all = slices.DeleteFunc(all[1:], func(n *node) bool { return !n.shown })
	slices.SortStableFunc(all, func(a, b *node) int { return a.at.Compare(b.at) })
	return all, nil
}

// related finds the messages that nodes stand after and in place of. Parents come before their children.
func related(nodes []*node) {
	for _, n := range nodes {
		if n.above = n.up; !n.up.shown {
			n.above = n.up.above
		}
		if n.shown && n.onPath {
			n.above.below = n
		}
	}
	for _, n := range nodes {
		if n.by = n.above.by; n.above.onPath {
			n.by = cmp.Or(n.above.below, n.above)
		}
	}
}

// unixTime reads seconds since 1970, rounded to microseconds as Postgres stores them; null is the zero time.
func unixTime(raw json.RawMessage) (time.Time, error) {
	if absent(raw) {
		return time.Time{}, nil
	}
	seconds, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || !(seconds >= 0 && seconds < 253402300800) { // the year 10000
		return time.Time{}, wrong("bad_date", "a time is not a number of seconds since 1970")
	}
	return time.UnixMicro(int64(math.Round(seconds * 1e6))).UTC(), nil
}

type chatGPTNode struct {
	Parent  string `json:"parent"`
	Message *struct {
		Author struct {
			Role string  `json:"role"`
			Name *string `json:"name"`
		} `json:"author"`
		// Recipient is the tool that the message is addressed to; "all" or nothing for people.
		Recipient  *string         `json:"recipient"`
		CreateTime json.RawMessage `json:"create_time"`
		Content    chatGPTContent  `json:"content"`
		Metadata   struct {
			Hidden      bool                `json:"is_visually_hidden_from_conversation"`
			Model       string              `json:"model_slug"`
			Attachments []chatGPTAttachment `json:"attachments"`
		} `json:"metadata"`
	} `json:"message"`
}

// chatGPTAttachment is a file that was sent with a message. The export does not hold it.
type chatGPTAttachment struct {
	Name    string `json:"name"`
	Kind    string `json:"mime_type"`
	OldKind string `json:"mimeType"`
}

type chatGPTContent struct {
	Type  string            `json:"content_type"`
	Parts []json.RawMessage `json:"parts"`
	// Text and Result are strings in the known kinds of content.
	Text   json.RawMessage `json:"text"`
	Result json.RawMessage `json:"result"`
}

// hiddenContent are the kinds of content that are not part of the conversation.
var hiddenContent = map[string]bool{"user_editable_context": true, "model_editable_context": true, "thoughts": true, "reasoning_recap": true}

// said returns the message of a node; nil for a node that shows nothing.
func (n *chatGPTNode) said(id string) (*Message, error) {
	message := n.Message
	if message == nil || message.Metadata.Hidden || hiddenContent[message.Content.Type] {
		return nil, nil //nolint:nilnil // the tree's root and hidden nodes are no messages
	}
	if err := checkRole(message.Author.Role); err != nil {
		return nil, err
	}
	content, left := message.Content.text(message.Metadata.Attachments)
	if message.Author.Role == string(memory.RoleAssistant) {
		content = withoutCitations(content)
	}
	if strings.TrimSpace(content) == "" {
		return nil, nil //nolint:nilnil // as above
	}
	created, err := unixTime(message.CreateTime)
	if err != nil {
		return nil, err
	}
	metadata, err := memory.EncodeJSON(struct {
		From        string   `json:"imported_from"`
		Model       string   `json:"model,omitempty"`
		Attachments []string `json:"attachments,omitempty"`
	}{"chatgpt", message.Metadata.Model, namesOf(message.Metadata.Attachments)})
	if err != nil {
		return nil, err
	}
	said := &Message{
		ID: id, Role: message.Author.Role, Name: message.Author.Name, Content: content, CreatedAt: created, Metadata: metadata,
		Attachments: max(left, len(message.Metadata.Attachments)),
	}
	if to := deref(message.Recipient); said.Role == string(memory.RoleAssistant) && to != "" && to != "all" {
		err = said.becomeCall(to)
	}
	return said, err
}

// becomeCall makes a message that is addressed to a tool the call of that tool.
func (m *Message) becomeCall(tool string) error {
	called := map[string]string{"name": tool, "arguments": m.Content}
	var err error
	m.ToolCalls, err = memory.EncodeJSON([]map[string]any{{"id": m.ID, "type": "function", "function": called}})
	m.Content = ""
	return err
}

func namesOf(attachments []chatGPTAttachment) []string {
	names := make([]string, len(attachments))
	for i, attachment := range attachments {
		names[i] = attachment.label()
	}
	return names
}

func (a chatGPTAttachment) label() string {
	return cmp.Or(text.Shorten(text.OneLine(a.Name), maxName), "attachment")
}

// In ChatGPT's replies a mark stands between U+E200 and U+E201, its fields between U+E202: a citation (cite, filecite) or a
// part of its own page, of which only two kinds are words of the reply. A reply that was stopped may end within one. Where
// the signs themselves were lost, a citation is left as "citeturn0search0". Older citations are 【4†source】.
var (
	namedMark = regexp.MustCompile(`\x{E200}(?:entity\x{E202}\["[^"\x{E201}]*" *, ` +
		`*"([^"\\\x{E201}]*)"[^\x{E201}\n]*|url\x{E202}([^\x{E202}\x{E201}\n]*)\x{E202}[^\x{E201}\n]*)\x{E201}`)
	mark         = regexp.MustCompile(`[ \t]*\x{E200}[^\x{E200}\x{E201}\n]*(?:\x{E201}|\z)`)
	bareCitation = regexp.MustCompile(`[ \t]*(?:\b(?:file)?cite[ \t]+|(?:file)?cite)turn\d+[a-z]+\d+(?:[ \t]*turn\d+[a-z]+\d+)*(?:L\d+(?:-L?\d+)?)?`)
	oldCitation  = regexp.MustCompile(`[ \t]*【\d+(?::\d+)?†[^】\n]*】`)
	strayMark    = regexp.MustCompile(`[\x{E200}-\x{E20F}]`)
)

// withoutCitations removes what refers to pages and files that only ChatGPT has.
func withoutCitations(text string) string {
	text = namedMark.ReplaceAllString(text, "$1$2")
	for _, citation := range []*regexp.Regexp{mark, bareCitation, oldCitation, strayMark} {
		text = citation.ReplaceAllString(text, "")
	}
	return text
}

// text is the content as text: other content becomes a word in brackets, and is counted as left out.
func (c chatGPTContent) text(attachments []chatGPTAttachment) (text string, left int) {
	var pieces []string
	for _, part := range c.Parts {
		piece, isText := partOf(part)
		if piece != "" {
			pieces = append(pieces, piece)
		}
		if !isText {
			left++
		}
	}
	for _, attachment := range attachments {
		kind, _, _ := strings.Cut(cmp.Or(attachment.Kind, attachment.OldKind), "/")
		if left > 0 && (kind == "image" || kind == "audio" || kind == "video") {
			continue // it is one of the parts
		}
		pieces = append(pieces, "[attachment: "+attachment.label()+"]")
	}
	for _, raw := range []json.RawMessage{c.Text, c.Result} {
		var piece string
		if json.Unmarshal(raw, &piece) == nil && piece != "" {
			pieces = append(pieces, piece)
		}
	}
	return strings.Join(pieces, "\n"), left
}

// partOf returns a part as text, or a word for other content.
func partOf(raw json.RawMessage) (piece string, isText bool) {
	if json.Unmarshal(raw, &piece) == nil {
		return piece, true
	}
	var other struct {
		Type string `json:"content_type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &other) == nil && other.Text != "" {
		return other.Text, true
	}
	for _, word := range []string{"image", "video", "audio"} {
		if strings.Contains(other.Type, word) {
			return "[" + word + "]", false
		}
	}
	return "[attachment]", false
}
