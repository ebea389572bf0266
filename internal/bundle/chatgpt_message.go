package bundle

import (
	"encoding/json"
	"strings"
)

// chatGPTNode is what is read of a node.
type chatGPTNode struct {
	Message *struct {
		Author struct {
			Role string  `json:"role"`
			Name *string `json:"name"`
		} `json:"author"`
		CreateTime json.RawMessage `json:"create_time"`
		Content    chatGPTContent  `json:"content"`
		Metadata   struct {
			Hidden bool   `json:"is_visually_hidden_from_conversation"`
			Model  string `json:"model_slug"`
		} `json:"metadata"`
	} `json:"message"`
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

// chatGPTMessage returns nil for a node that shows nothing.
func chatGPTMessage(raw []byte) (*Message, error) {
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
	content := message.Content.text()
	if strings.TrimSpace(content) == "" {
		return nil, nil //nolint:nilnil // as above
	}
	created, err := unixTime(message.CreateTime)
	if err != nil {
		return nil, err
	}
	metadata, err := marshal(struct {
		From  string `json:"imported_from"`
		Model string `json:"model,omitempty"`
	}{"chatgpt", message.Metadata.Model})
	if err != nil {
		return nil, err
	}
	return &Message{Role: message.Author.Role, Name: message.Author.Name, Content: content, CreatedAt: created, Metadata: metadata}, nil
}

// text is the content as text: what is no text becomes a word in brackets.
func (c chatGPTContent) text() string {
	var pieces []string
	for _, part := range c.Parts {
		if piece := partOf(part); piece != "" {
			pieces = append(pieces, piece)
		}
	}
	for _, raw := range []json.RawMessage{c.Text, c.Result} {
		var piece string
		if json.Unmarshal(raw, &piece) == nil && piece != "" {
			pieces = append(pieces, piece)
		}
	}
	return strings.Join(pieces, "\n")
}

func partOf(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var other struct {
		Type string `json:"content_type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &other) == nil && other.Text != "" {
		return other.Text
	}
	for _, word := range []string{"image", "video", "audio"} {
		if strings.Contains(other.Type, word) {
			return "[" + word + "]"
		}
	}
	return "[attachment]"
}
