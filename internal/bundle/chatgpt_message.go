package bundle

import (
	"cmp"
	"encoding/json"
	"regexp"
	"strings"

	"github.com/arcoscribe/throughline/internal/memory"
)

// chatGPTNode is what is read of a node.
type chatGPTNode struct {
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

// chatGPTMessage returns the message of a node; nil for a node that shows nothing.
func chatGPTMessage(id string, raw []byte) (*Message, error) {
	var found chatGPTNode
	if err := decode(raw, &found); err != nil {
		return nil, err
	}
	message := found.Message
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
	metadata, err := marshal(struct {
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
	type function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	type call struct {
		ID       string   `json:"id"`
		Type     string   `json:"type"`
		Function function `json:"function"`
	}
	var err error
	m.ToolCalls, err = marshal([]call{{m.ID, "function", function{tool, m.Content}}})
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

// label is the attachment's name on one line.
func (a chatGPTAttachment) label() string {
	return cmp.Or(cut(strings.Join(strings.Fields(a.Name), " "), maxName), "attachment")
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

// text is the content as text: what is no text becomes a word in brackets, and is counted as left out.
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

// partOf returns a part as text, or a word for what is none.
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
