package bundle

import (
	"cmp"
	"encoding/json"
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
	window       *window
	conversation int   // the index of the one that is read, or -1
	node         int64 // offset of the node whose message is read, or -1
}

// node is a message's offsets in the file and its position in the tree.
type node struct {
	id, parent string
	from, to   int64
}

// conversation is one element of the array, without its texts.
type conversation struct {
	id, otherID, title, current string
	created                     time.Time
	nodes                       map[string]node
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
	branch, err := found.branch()
	if err != nil {
		return err
	}
	err = emit(Record{Chat: &Chat{
		ID: cmp.Or(found.id, found.otherID, "node "+found.current), Title: cut(found.title, memory.MaxTitle), CreatedAt: found.created,
		Metadata: json.RawMessage(`{"imported_from":"chatgpt"}`),
	}})
	if err != nil {
		return err
	}
	said := replies{emit: emit}
	var call *string // the latest one, as long as only tools have answered since
	for _, at := range branch {
		c.node = at.from
		raw := make([]byte, at.to-at.from)
		if _, err := c.window.content.ReadAt(raw, at.from); err != nil {
			return err
		}
		message, err := chatGPTMessage(at.id, raw)
		if err != nil {
			return err
		}
		if message == nil {
			continue
		}
		switch {
		case message.ToolCalls != nil:
			call = &message.ID
		case message.Role == string(memory.RoleTool):
			message.ToolCallID = call
		default:
			call = nil
		}
		if err := said.message(message); err != nil {
			return err
		}
	}
	c.node = -1
	return said.end()
}

// tree reads one element of the array, but of its nodes only the offsets.
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
	if err == nil && found.nodes == nil {
		err = wrong("no_mapping", "the conversation has no mapping")
	}
	return found, err
}

func (c *chatGPT) mapping(found *conversation) error {
	found.nodes = map[string]node{}
	return c.window.members('{', "mapping is not an object", func(id string) error {
		raw, err := c.window.value()
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
		to := c.window.decoder.InputOffset()
		found.nodes[id] = node{id: id, parent: tree.Parent, from: to - int64(len(raw)), to: to}
		return nil
	})
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
