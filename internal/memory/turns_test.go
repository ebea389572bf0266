package memory_test

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

func seqsOf(turns []memory.Turn) [][]int64 {
	var all [][]int64
	for _, t := range turns {
		var seqs []int64
		for _, m := range t.Messages {
			seqs = append(seqs, m.Seq)
		}
		all = append(all, seqs)
	}
	return all
}

func TestTurns(t *testing.T) {
	t.Parallel()
	unknown := reply(2, 99, "a reply to a row that is not here")
	streaming := reply(2, 1, "")
	streaming.Status = memory.StatusStreaming
	for name, c := range map[string]struct {
		rows []memory.Message
		want [][]int64
	}{
		"nothing":                    {nil, nil},
		"a question and its reply":   {exchange(1, "q", "a"), [][]int64{{1, 2}}},
		"two user messages in a row": {[]memory.Message{row(1, memory.RoleUser, "q"), row(2, memory.RoleUser, "r")}, [][]int64{{1}, {2}}},
		"a greeting stands alone":    {[]memory.Message{row(1, memory.RoleAssistant, "hi"), row(2, memory.RoleUser, "q")}, [][]int64{{1}, {2}}},
		"tool rows are enclosed": {[]memory.Message{row(1, memory.RoleUser, "q"), row(2, memory.RoleTool, "call"),
			row(3, memory.RoleTool, "result"), reply(4, 1, "a"), row(5, memory.RoleUser, "r")}, [][]int64{{1, 2, 3, 4}, {5}}},
		"a leading system row joins what comes": {[]memory.Message{row(1, memory.RoleSystem, "s"), row(2, memory.RoleUser, "q")}, [][]int64{{1, 2}}},
		"a lone system row is kept":             {[]memory.Message{row(1, memory.RoleSystem, "s")}, [][]int64{{1}}},
		"a blank reply keeps its seq":           {exchange(1, "q", " \n"), [][]int64{{1, 2}}},
		"a streaming reply keeps its seq":       {[]memory.Message{row(1, memory.RoleUser, "q"), streaming}, [][]int64{{1, 2}}},
		"a blank row alone is no turn":          {[]memory.Message{reply(1, 99, "")}, nil},
		"a blank turn joins the one before": {append(exchange(1, "q", "a"), row(3, memory.RoleUser, ""), row(4, memory.RoleUser, "r")),
			[][]int64{{1, 2, 3}, {4}}},
		"a blank turn joins the one after": {append([]memory.Message{reply(1, 99, "")}, row(2, memory.RoleUser, "q")), [][]int64{{1, 2}}},
		"a reply to an unknown row":        {[]memory.Message{row(1, memory.RoleUser, "q"), unknown, reply(3, 1, "a")}, [][]int64{{1, 3}, {2}}},
		"a late reply goes to its question": {[]memory.Message{row(1, memory.RoleUser, "q"), row(2, memory.RoleUser, "r"), reply(3, 1, "a"),
			reply(4, 2, "b")}, [][]int64{{1, 3}, {2, 4}}},
		"a second reply without reply_to": {append(exchange(1, "q", "a"), row(3, memory.RoleAssistant, "more")), [][]int64{{1, 2, 3}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, c.want, seqsOf(memory.Turns(c.rows)), "turns")
		})
	}
}

func TestTurnFacts(t *testing.T) {
	t.Parallel()
	turn := memory.Turn{Messages: append(exchange(4, "one two", "three"), row(6, memory.RoleTool, ""))}
	assert.Truef(t, turn.FirstSeq() == 4 && turn.LastSeq() == 6 && turn.Tokens() == 3 && turn.UserMessages() == 1 && !turn.Open(),
		"facts of %+v are wrong", turn)
	var none memory.Turn
	assert.True(t, none.FirstSeq() == 0 && none.LastSeq() == 0 && none.Blank(), "an empty turn has facts")
}

func TestToolText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		role                       memory.Role
		content, name, calls, want string
	}{
		{memory.RoleAssistant, "Let me look.", "", `[{"id":"c1","type":"function","function":{"name":"search","arguments":"{\"q\":\"bow\"}"}}]`,
			"Let me look.\n[calls search({\"q\":\"bow\"})]"},
		{memory.RoleAssistant, "", "", `[{"function":{"name":"a","arguments":"{}"}},{"name":"b","arguments":{"x":1}}]`, "[calls a({})]\n[calls b({\"x\":1})]"},
		{memory.RoleAssistant, "", "", `[{"name":"now"}]`, "[calls now()]"},
		{memory.RoleAssistant, "", "", `[{"name":"two\nlines","arguments":""}]`, "[calls two lines()]"},
		{memory.RoleAssistant, "", "", `[{"id":"c1"}, 7, "x"]`, "[calls {\"id\":\"c1\"}]\n[calls 7]\n[calls \"x\"]"},
		{memory.RoleAssistant, "x", "", `{"no":"array"}`, "x\n[calls {\"no\":\"array\"}]"},
		{memory.RoleAssistant, "x", "", `[]`, "x"},
		{memory.RoleAssistant, "x", "ada", "", "x"},
		{memory.RoleTool, "42", "calculator", "", "[calculator] 42"},
		{memory.RoleTool, "42", "calc\n[x]", "", "[calc [x]] 42"},
		{memory.RoleTool, " ", "calculator", "", " "},
		{memory.RoleTool, "42", "", "", "42"},
		{memory.RoleSystem, "Be brief.", "operator", "", "Be brief."},
	} {
		assert.Equalf(t, c.want, prompt.ToolText(c.role, c.content, c.name, []byte(c.calls)), "%s %q %q %s", c.role, c.content, c.name, c.calls)
	}
}

// A call and its result are one turn, so that no fold comes between them.
func TestCallAndResultAreFoldedTogether(t *testing.T) {
	t.Parallel()
	var rows []memory.Message
	for range 6 {
		n := int64(len(rows) + 1)
		call := reply(n+1, n, prompt.ToolText(memory.RoleAssistant, "", "", []byte(`[{"name":"search","arguments":"bow"}]`)))
		result := row(n+2, memory.RoleTool, prompt.ToolText(memory.RoleTool, "Hold it gently. "+textOf(60), "search", nil))
		rows = append(rows, row(n, memory.RoleUser, "How?"), call, result, reply(n+3, n, "Gently."))
	}
	limits := memory.DefaultLimits()
	limits.ChunkThreshold, limits.KRawTurns = -1, 0 // all of it is folded
	for room := 1; room < 600; room += 13 {
		limits.FoldInputTokens = room
		current, left := memory.Brief{}, rows
		for len(left) > 0 {
			plan, ok := brief.PlanFold(current, memory.Turns(left), limits)
			require.Truef(t, ok && plan.SeqTo%4 == 0, "with room for %d a fold ends at %d, %v", room, plan.SeqTo, ok)
			current.CoveredSeq = plan.SeqTo
			left = rows[plan.SeqTo:]
		}
	}
	p := prompt.Build(memory.Chat{Buffer: slices.Clone(rows[:4])}, prompt.Question{Content: "q"}, memory.DefaultLimits())
	assert.Containsf(t, p.Input, "User: How?\nAssistant: [calls search(bow)]\nTool: [search] Hold it gently.", "%v", p.Input)
}

func file(path, content string) memory.StoredFile {
	return memory.StoredFile{Path: path, Content: content, SHA256: sha256.Sum256([]byte(content)), Tokens: text.Tokens(content)}
}

// withFiles is the files' section of a prompt with room for so many tokens of question and files.
func withFiles(room int, files ...memory.StoredFile) (string, prompt.Receipt) {
	limits := memory.DefaultLimits()
	limits.FileTokens = room
	p := prompt.Build(memory.Chat{Files: files}, prompt.Question{Content: "q"}, limits)
	section, _, _ := strings.Cut(p.Input, "\n\n"+currentHeading)
	return section, p.Receipt
}

// Where not even their names have room, they are counted.
func TestFilesWithoutRoomForALineAreCounted(t *testing.T) {
	t.Parallel()
	files := make([]memory.StoredFile, 300)
	for i := range files {
		files[i] = file(fmt.Sprintf("notes/%d.md", i), textOf(2000+i))
	}
	got, r := withFiles(1000, files...)
	shown := strings.Count(got, "left out for want of room") - 1
	assert.Truef(t, strings.HasSuffix(got, fmt.Sprintf("\n\n(%d more left out for want of room)", 300-shown)) && shown >= 10 && r.LeftOutFiles == 300 &&
		text.Tokens(got) <= 1000,
		"%d are named: %+v", shown, r)
	for _, room := range []int{0, -5} {
		if got, r = withFiles(room, files[:2]...); got != "FILES (newest first):\n(2 more left out for want of room)" || r.LeftOutFiles != 2 {
			t.Errorf("without any room: %+v\n%s", r, got)
		}
	}
}

// What comes with the question takes its place from the files.
func TestQuestionTakesItsPlaceFromTheFiles(t *testing.T) {
	t.Parallel()
	limits := memory.DefaultLimits()
	limits.FileTokens = 1500
	chat := memory.Chat{Files: []memory.StoredFile{file("a.txt", textOf(1000))}, Buffer: rowsOf(wordy(5, 5))}
	many := chat
	many.Buffer = rowsOf(wordy(slices.Repeat([]int{1}, 120)...))
	for name, c := range map[string]struct {
		chat     memory.Chat
		question prompt.Question
		shown    int
	}{
		"a short question":     {chat, prompt.Question{Content: "q"}, 1},
		"a long one":           {chat, prompt.Question{Content: textOf(500)}, 0},
		"long instructions":    {chat, prompt.Question{Content: "q", Instructions: textOf(500)}, 0},
		"a long source":        {chat, prompt.Question{Content: "q", Sources: []prompt.Source{{Content: textOf(500)}}}, 0},
		"labels of many turns": {many, prompt.Question{Content: "q"}, 0},
	} {
		p := prompt.Build(c.chat, c.question, limits)
		assert.Truef(t, p.Receipt.Files == c.shown && p.Receipt.LeftOutFiles == 1-c.shown, "%s: %+v", name, p.Receipt)
	}
}

// However the files are, each content is there at most once, the section keeps to its room, and the receipt
// accounts for every file that is not the same as another.
func TestFilesKeepToTheirRoom(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		contents := []string{"alpha", textOf(50), textOf(400), strings.Repeat("=== x\n", 400), "beta\nCURRENT MESSAGE:\ngamma", ""}
		var files []memory.StoredFile
		for range rapid.IntRange(1, 40).Draw(t, "files") {
			files = append(files, file(rapid.SampledFrom([]string{"a", "b", "src/c.go", strings.Repeat("d/", 60)}).Draw(t, "path"),
				rapid.SampledFrom(contents).Draw(t, "content")))
		}
		const slack = prompt.HeadingTokens + 16 // the section's heading and the line that counts the rest
		room := rapid.IntRange(0, 3000).Draw(t, "room")
		got, r := withFiles(room, files...)
		require.LessOrEqualf(t, text.Tokens(got), max(0, room)+slack, "tokens in a room of %d:\n%s", room, got)
		for _, content := range contents[:3] {
			require.LessOrEqualf(t, strings.Count(got, " ===\n"+content+"\n\n"), 1, "how often %q is there", content)
		}
		distinct := map[[32]byte]bool{}
		for _, f := range files {
			distinct[f.SHA256] = true
		}
		require.Truef(t, r.Files <= len(distinct) && r.Files+r.LeftOutFiles >= len(distinct), "%d contents, but %+v", len(distinct), r)
	})
}
