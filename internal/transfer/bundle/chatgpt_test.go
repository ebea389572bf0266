package bundle

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// twoConversations is an export as ChatGPT writes it, with a reply that was left, hidden nodes and an image.
//
//go:embed testdata/chatgpt_branches.json
var twoConversations string

func TestChatGPTsConversations(t *testing.T) {
	t.Parallel()
	format, records := mustRead(t, twoConversations)
	chats := chatsOf(records)
	if format != FormatChatGPT || len(chats) != 2 || chats[0].ID != "6f5f" || chats[0].Title != "Scales" || chats[1].ID != "second" || chats[1].Title != "" {
		t.Errorf("%s %+v", format, chats)
	}
	assert.Equal(t, "2024-02-03T04:05:06.25", chats[0].CreatedAt.Format("2006-01-02T15:04:05.999999"), "begun at")
	var said []string
	for _, m := range messagesOf(records) {
		at := "-"
		if !m.CreatedAt.IsZero() {
			at = m.CreatedAt.Format("05.999999")
		}
		said = append(said, strings.Join([]string{m.ID, m.Role, deref(m.Name), deref(m.ReplyTo), at, m.Content, string(m.Metadata)}, "|"))
	}
	want := []string{
		"ask|user|||07|[image]\nHow do I practise?|{\"imported_from\":\"chatgpt\"}",
		"left|assistant||ask|-|Never.|{\"imported_from\":\"chatgpt\"}",
		"late|assistant||ask|10.123456|Slowly.|{\"imported_from\":\"chatgpt\",\"model\":\"gpt-4o\"}",
		"again|assistant||ask|-|print(1)|{\"imported_from\":\"chatgpt\"}",
		"tool|tool|python||-|1|{\"imported_from\":\"chatgpt\"}",
		"heard|user|||-|Thank you\n[video]\n[audio]\n[attachment]\n[attachment]|{\"imported_from\":\"chatgpt\"}",
	}
	assert.Equal(t, want, said)
}

// spoken is a node of a conversation: its second, its id and its parent's, and its message.
type spoken struct {
	at                      int
	id, parent, role, words string
}

// conversationOf is a file of one conversation, its nodes in this order.
func conversationOf(current string, nodes ...spoken) string {
	mapping := []string{`"root": {"message": null, "parent": null}`}
	for _, n := range nodes {
		to := "all"
		if n.words == "scales()" {
			to = "web"
		}
		mapping = append(mapping, fmt.Sprintf(`%q: {"parent": %q, "message": {"author": {"role": %q}, "recipient": %q, "create_time": %d, "content": {"parts": [%q]},
			"metadata": {"is_visually_hidden_from_conversation": %v}}}`, n.id, n.parent, n.role, to, n.at, n.words, n.words == ""))
	}
	return fmt.Sprintf(`[{"id": "c", "current_node": %q, "mapping": {%s}}]`, current, strings.Join(mapping, ","))
}

// treeOf is each message's id, parent and superseded_by, and what it replies to or the call that it answers.
func treeOf(t *testing.T, text string) []string {
	_, records := mustRead(t, text)
	var tree []string
	for _, m := range messagesOf(records) {
		tree = append(tree, strings.Join([]string{m.ID, deref(m.ParentID), deref(m.SupersededBy), cmp.Or(deref(m.ReplyTo), deref(m.ToolCallID))}, " "))
	}
	return tree
}

// The first message was written again, its reply regenerated twice, and the second message edited after a chat in the first
// of these: every branch comes, by time, and what was left is superseded by the message that stands in its place.
func TestChatGPTsBranches(t *testing.T) {
	t.Parallel()
	nodes := []spoken{
		{1, "system", "root", "system", ""}, {10, "who", "system", "user", "Who are you?"}, {11, "model", "who", "assistant", "A model."},
		{20, "ask", "system", "user", "How do I practise?"}, {21, "slowly", "ask", "assistant", "Slowly."},
		{30, "often", "ask", "assistant", "Often."}, {31, "more", "often", "user", "How often?"}, {31, "daily", "more", "assistant", "Daily."},
		{40, "well", "ask", "assistant", "Well."}, {50, "long", "well", "user", "How long?"}, {51, "thought", "long", "assistant", ""},
		{52, "hour", "thought", "assistant", "An hour."}, {60, "long, too", "well", "user", "How long, as a beginner?"},
		{61, "search", "long, too", "assistant", "scales()"}, {62, "hidden", "search", "tool", ""}, {3, "found", "hidden", "tool", "A page."},
		{64, "minutes", "found", "assistant", "Ten minutes."},
	}
	want := []string{
		"who  ask ", "model who ask who", "ask   ", "slowly ask well ask", "often ask well ask", "more often well ", "daily more well more", "well ask  ask",
		"long well long, too ", "hour long long, too long", "long, too well  ", "search long, too  ", "found search  search", "minutes found  long, too",
	}
	assert.Equal(t, want, treeOf(t, conversationOf("minutes", nodes...)))
	slices.Reverse(nodes)
	assert.Equal(t, want, treeOf(t, conversationOf("minutes", nodes...)), "in another order")
}

// What follows the current node is superseded by it, and everything where that is the root.
func TestChatGPTsPathMayEndAnywhere(t *testing.T) {
	t.Parallel()
	nodes := []spoken{{1, "ask", "root", "user", "How?"}, {2, "slowly", "ask", "assistant", "Slowly."}, {3, "thanks", "slowly", "user", "Thanks."}}
	assert.Equal(t, []string{"ask   ", "slowly ask ask ask", "thanks slowly ask "}, treeOf(t, conversationOf("ask", nodes...)))
	assert.Equal(t, []string{"ask  root ", "slowly ask root ask", "thanks slowly root "}, treeOf(t, conversationOf("root", nodes...)))
}

// withTools is a branch in which the assistant searches the web and runs a program before it replies.
//
//go:embed testdata/chatgpt_tools.json
var withTools string

func TestChatGPTsCallsOfToolsAreNoReplies(t *testing.T) {
	t.Parallel()
	_, records := mustRead(t, withTools)
	var said []string
	for _, m := range messagesOf(records) {
		said = append(said, strings.Join([]string{m.ID, m.Role, deref(m.Name), deref(m.ReplyTo), deref(m.ToolCallID), m.Content, string(m.ToolCalls)}, "|"))
	}
	want := []string{
		"ask|user||||citeturn0search0 is what I saw. What is it?\n[attachment: the score.pdf]\n[attachment: attachment]|",
		`search|assistant|||||[{"function":{"arguments":"{\"q\":\"scales\"}","name":"web"},"id":"search","type":"function"}]`,
		"found|tool|web||search|A page about scales.|",
		"found too|tool|web||search|Another one.|",
		`run|assistant|||||[{"function":{"arguments":"print(1)","name":"python"},"id":"run","type":"function"}]`,
		"ran|tool|python||run|1|",
		"reply|assistant||ask||A mark.|",
	}
	assert.Equal(t, want, said)
	asked := messagesOf(records)[0]
	assert.Truef(t, string(asked.Metadata) == `{"attachments":["the score.pdf","attachment"],"imported_from":"chatgpt"}` && asked.Attachments == 2,
		"the attachments: %s, %d", asked.Metadata, asked.Attachments)
}

// An attachment is told once, whether the export has it as a part of the content or only by name.
func TestChatGPTsAttachments(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		parts, attachments, content string
		count                       int
	}{
		"an image":           {`[{"content_type": "image_asset_pointer"}, "Look."]`, `[{"name": "a.png", "mime_type": "image/png"}]`, "[image]\nLook.", 1},
		"an image of theirs": {`[{"content_type": "image_asset_pointer"}]`, `[]`, "[image]", 1},
		"a file alone":       {`[""]`, `[{"name": "a.pdf"}]`, "[attachment: a.pdf]", 1},
		"an image by name":   {`["Look."]`, `[{"name": "a.png", "mime_type": "image/png"}]`, "Look.\n[attachment: a.png]", 1},
		"both": {`[{"content_type": "image_asset_pointer"}, "Look."]`, `[{"name": "a.png", "mimeType": "image/png"}, {"name": "b.pdf"}]`,
			"[image]\nLook.\n[attachment: b.pdf]", 2},
		"none": {`["Look."]`, `null`, "Look.", 0},
	} {
		_, records := mustRead(t, `[{"id": "c", "current_node": "n", "mapping": {"n": {"message": {"author": {"role": "user"}, "content": {"parts": `+
			``+c.parts+`}, "metadata": {"attachments": `+c.attachments+`}}}}}]`)
		said := messagesOf(records)
		assert.Truef(t, len(said) == 1 && said[0].Content == c.content && said[0].Attachments == c.count, "%s: %+v", name, said)
	}
}

func TestCitationsOfChatGPTAreRemoved(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Slowly. \ue200cite\ue202turn0search0\ue201 Then faster.\ue200cite\ue202turn0search1\ue202turn1view0\ue201": "Slowly. Then faster.",
		"\ue203Slowly\ue204 \ue200filecite\ue202turn0file0\ue202L10-L20\ue201.":                                     "Slowly.",
		"By \ue200entity\ue202[\"person\",\"Ilse Müller\",\"teacher\"]\ue201, of course.":                           "By Ilse Müller, of course.",
		"See \ue200url\ue202Scales for all\ue202turn0search3\ue201.":                                                "See Scales for all.",
		"Stopped \ue200cite\ue202turn0sea":                                                                          "Stopped",
		"Read on:\n\ue200navlist\ue202More\ue202turn0news1,turn0news2\ue201\nBye":                                   "Read on:\n\nBye",
		"Slowly. citeturn0search0turn0search1 Then.":                                                                "Slowly. Then.",
		"Slowly.citeturn0search0":                          "Slowly.",
		"Slowly cite turn0search0 turn0news1.":             "Slowly.",
		"Slowly filecite turn0file0 now":                   "Slowly now",
		"Slowly【4†source】, then【12:3†score.pdf】 faster":    "Slowly, then faster",
		"\ue200\ue201\ue202":                               "",
		"I cite turning points, 【Note】 and \U0001f3bb.":    "I cite turning points, 【Note】 and \U0001f3bb.",
		"A line \ue200 with a sign\nand more \ue201 of it": "A line  with a sign\nand more  of it",
	} {
		assert.Equalf(t, want, withoutCitations(text), "%q", text)
	}
}

func TestChatGPTRefusals(t *testing.T) {
	t.Parallel()
	change := func(from, to string) string { return replaced(t, twoConversations, from, to) }
	refusals{
		"no conversation":   {`[7]`, "wrong_type@1#0"},
		"no mapping":        {change(`"mapping": {}`, `"map": {}`), "no_mapping@20#1"},
		"mapping":           {change(`"mapping": {}`, `"mapping": []`), "wrong_type@20#1"},
		"no branch":         {change(`"current_node": "heard"`, `"current_node": "gone"`), "broken_branch@19#0"},
		"circle":            {change(`"parent": null`, `"parent": "heard"`), "broken_branch@19#0"},
		"lost parent":       {change(`"parent": "late", "message"`, `"parent": "gone", "message"`), "broken_branch@19#0"},
		"lost branch":       {change(`"left", "parent": "ask"`, `"left", "parent": "gone"`), "broken_branch@19#0"},
		"circle apart":      {change(`"left", "parent": "ask"`, `"left", "parent": "left"`), "broken_branch@19#0"},
		"role":              {change(`"role": "tool"`, `"role": "robot"`), "unknown_role@14#0"},
		"node twice":        {change(`"left": {`, `"late": {`), "duplicate_id@12#0"},
		"conversations":     {change(`"id": "second"`, `"id": "6f5f"`), "duplicate_id@20#1"},
		"time of the chat":  {change(`"create_time": 1706933106.25`, `"create_time": 1e30`), "bad_date@2#0"},
		"time of a message": {change(`"create_time": 1706933107`, `"create_time": "noon"`), "bad_date@9#0"},
		"title":             {change(`"title": "Scales"`, `"title": 7`), "wrong_type@2#0"},
		"a node":            {change(`"message": null`, `"message": 7`), "wrong_type@6#0"},
		"no end":            {twoConversations[:len(twoConversations)-1], "bad_json@21"},
	}.check(t)
}

// The branch is followed for any order of the nodes and any length.
func TestChatGPTsLongBranch(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString(`[{"current_node":"n0","mapping":{`)
	const nodes = 3000
	for n := range nodes {
		fmt.Fprintf(&text, `"n%d":{"parent":"n%d","message":{"author":{"role":"user"},"content":{"parts":["said %d"]}}},`, n, n+1, nodes-n)
	}
	fmt.Fprintf(&text, `"n%d":{"parent":null}}}]`, nodes)
	_, records := mustRead(t, text.String())
	messages := messagesOf(records)
	assert.Truef(t, len(messages) == nodes && messages[0].Content == "said 1" && messages[nodes-1].Content == fmt.Sprint("said ", nodes),
		"%d messages", len(messages))
	assert.Equal(t, "node n0", chatsOf(records)[0].ID, "a conversation without an id has none")
}

func TestPlainLines(t *testing.T) {
	t.Parallel()
	format, records := mustRead(t, `
{"role":"assistant","content":"Hello!","created_at":"2024-02-03T04:05:06Z"}

{"role":"user","content":"  How do I practise?  \nTell me.","name":"ann","later":1}
{"role":"assistant","content":null,"tool_calls":[{"id":"c"}]}`+"\r\n"+`{"role":"tool","content":"","tool_call_id":"c"}
{"role":"assistant","content":"Slowly."}`)
	chat := chatsOf(records)[0]
	if format != FormatPlain || chat.Title != "How do I practise?" || chat.ID != "" || chat.CreatedAt.IsZero() || records[len(records)-1].End.Messages != 5 {
		t.Errorf("%s %+v", format, chat)
	}
	messages := messagesOf(records)
	assert.Truef(t, messages[0].ReplyTo == nil && messages[2].ReplyTo == nil && messages[1].ID == "line 4" && messages[3].ReplyTo == nil &&
		deref(messages[4].ReplyTo) == messages[1].ID,
		"%+v", messages)
}

func TestPlainTitles(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"": "", "one\ntwo": "one", strings.Repeat("ж", 80): strings.Repeat("ж", 80), strings.Repeat("ж", 81): strings.Repeat("ж", 79) + "…",
	} {
		encoded, err := json.Marshal(content)
		require.NoError(t, err)
		_, records := mustRead(t, `{"role":"user","content":`+string(encoded)+`}`)
		assert.Equalf(t, want, chatsOf(records)[0].Title, "%q", content)
	}
}

func TestPlainRefusals(t *testing.T) {
	t.Parallel()
	good := `{"role":"user","content":"x"}` + "\n"
	for line, want := range map[string]string{
		`{"role":"user"}`: "no_content@2", `{"role":"user","content":null,"tool_calls":null}`: "no_content@2", `{"role":"user","content":7}`: "wrong_type@2",
		`{"role":"user","content":["x"]}`: "wrong_type@2", `{"role":"human","content":"x"}`: "unknown_role@2", `{"content":"x"}`: "unknown_role@2",
		`{"role":"user","content":"x","created_at":"noon"}`: "bad_date@2", `{"role":"user","content":"x","created_at":12}`: "bad_date@2",
		`{"role":"user","content":"x","tool_calls":{}}`: "wrong_type@2", `[]`: "wrong_type@2", `x`: "bad_json@2", good[:20]: "bad_json@2",
	} {
		if got, want := refused(t, good+line), want; got != want {
			t.Errorf("%.60s: %s, want %s", line, got, want)
		}
	}
}

// An escaped backslash before u0000 is no null character.
func TestNullCharacterIsToldFromItsName(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{`\u0000`: true, `\\u0000`: false, `\\\u0000`: true, `\\u0000 \u0000`: true, `u0000`: false, `\u00001`: true} {
		assert.Equalf(t, want, holdsNUL([]byte(`"`+text+`"`)), "%s", text)
	}
}
