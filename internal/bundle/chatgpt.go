package bundle

import (
	"encoding/json"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/arcoscribe/throughline/internal/memory"
)

// chatGPT reads conversations.json as ChatGPT exports it: an array of conversations, each a tree of messages
// ("mapping") with the node at which its active branch ends ("current_node"). It reads a conversation twice: first the
// offsets of the nodes, then the messages one by one, so that its texts are never in memory together.
type chatGPT struct {
	window  *window
	begun   bool
	at      int    // the conversation's index
	current int64  // offset of the node that is read, or -1
	branch  []node // nodes still to be read, in order
	inChat  bool
	count   int
	turn    answering
}

// node is a message's offsets in the file and its position in the tree.
type node struct {
	id, parent string
	from, to   int64
}

// conversation is one element of the array, without its texts.
type conversation struct {
	title       string
	created     time.Time
	id, current string
	nodes       map[string]node
}

func newChatGPT(content *io.SectionReader) *chatGPT {
	return &chatGPT{window: newWindow(content), at: -1, current: -1}
}

func (c *chatGPT) position() position {
	line := c.window.position().line
	if c.current >= 0 {
		line = c.window.lineOf(c.current)
	}
	return position{line: line, conversation: c.at}
}

func (c *chatGPT) next() (Record, error) {
	c.current = -1
	for c.inChat {
		record, err := c.nextOfBranch()
		if err != nil || record != (Record{}) {
			return record, err
		}
	}
	if !c.begun {
		c.begun = true
		if err := c.window.open('[', "an array of conversations is expected here"); err != nil {
			return Record{}, err
		}
	}
	if c.window.more() {
		return c.chat()
	}
	c.at = -1
	if err := c.window.close(']'); err != nil {
		return Record{}, err
	}
	return Record{}, c.window.over()
}

func (c *chatGPT) chat() (Record, error) {
	c.at++
	found, err := c.conversation()
	if err != nil {
		return Record{}, err
	}
	if c.branch, err = found.branch(); err != nil {
		return Record{}, err
	}
	if found.id == "" {
		found.id = "node " + found.current
	}
	c.inChat, c.count, c.turn = true, 0, answering{}
	return Record{Chat: &Chat{
		ID: found.id, Title: cut(found.title, memory.MaxTitle), CreatedAt: found.created, Metadata: json.RawMessage(`{"imported_from":"chatgpt"}`),
	}}, nil
}

// conversation reads one element of the array, but of its nodes only the offsets.
func (c *chatGPT) conversation() (conversation, error) {
	found := conversation{}
	w := c.window
	if err := w.open('{', "a conversation is not an object"); err != nil {
		return found, err
	}
	for w.more() {
		key, err := w.key()
		if err != nil {
			return found, err
		}
		if key == "mapping" {
			err = c.mapping(&found)
		} else {
			err = c.member(&found, key)
		}
		if err != nil {
			return found, err
		}
	}
	if err := w.close('}'); err != nil {
		return found, err
	}
	if found.nodes == nil {
		return found, wrong("no_mapping", "the conversation has no mapping")
	}
	return found, nil
}

func (c *chatGPT) member(found *conversation, key string) error {
	raw, err := c.window.value()
	if err != nil {
		return err
	}
	switch key {
	case "title":
		return unmarshalString(key, raw, &found.title)
	case "create_time":
		found.created, err = unixTime(raw)
		return err
	case "conversation_id":
		return unmarshalString(key, raw, &found.id)
	case "id":
		if found.id == "" {
			return unmarshalString(key, raw, &found.id)
		}
	case "current_node":
		return unmarshalString(key, raw, &found.current)
	}
	return nil
}

func unmarshalString(name string, raw json.RawMessage, into *string) error {
	if json.Unmarshal(raw, into) != nil {
		return wrong("wrong_type", name+" is not a text")
	}
	return nil
}

func (c *chatGPT) mapping(found *conversation) error {
	w := c.window
	if err := w.open('{', "mapping is not an object"); err != nil {
		return err
	}
	found.nodes = map[string]node{}
	for w.more() {
		id, err := w.key()
		if err != nil {
			return err
		}
		raw, err := w.value()
		if err != nil {
			return err
		}
		var tree struct {
			Parent string `json:"parent"`
		}
		if err := decode(raw, &tree); err != nil {
			return err
		}
		if _, twice := found.nodes[id]; twice {
			return wrong("duplicate_id", "there is a node with this id already")
		}
		to := w.decoder.InputOffset()
		found.nodes[id] = node{id: id, parent: tree.Parent, from: to - int64(len(raw)), to: to}
	}
	return w.close('}')
}

// branch returns the nodes from the root to the current node.
func (f *conversation) branch() ([]node, error) {
	var branch []node
	if len(f.nodes) == 0 {
		return nil, nil
	}
	for id := f.current; id != "" || len(branch) == 0; {
		found, ok := f.nodes[id]
		if !ok {
			return nil, wrong("broken_branch", "the active branch leads to a node that is not in the mapping")
		}
		if len(branch) == len(f.nodes) {
			return nil, wrong("broken_branch", "the active branch goes in a circle")
		}
		branch = append(branch, found)
		id = found.parent
	}
	slices.Reverse(branch)
	return branch, nil
}

// nextOfBranch returns the next message of the branch, no record for a node without one, or the chat's end.
func (c *chatGPT) nextOfBranch() (Record, error) {
	if len(c.branch) == 0 {
		c.inChat = false
		return Record{End: &End{Messages: c.count}}, nil
	}
	at := c.branch[0]
	c.branch = c.branch[1:]
	c.current = at.from
	raw := make([]byte, at.to-at.from)
	if _, err := c.window.content.ReadAt(raw, at.from); err != nil {
		return Record{}, err
	}
	message, err := chatGPTMessage(raw)
	if err != nil || message == nil {
		return Record{}, err
	}
	message.ID = at.id
	c.turn.answer(message)
	c.count++
	return Record{Message: message}, nil
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
