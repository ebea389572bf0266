package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/arcoscribe/throughline/internal/fault"
)

func TestBothBundlesReadBackAsWritten(t *testing.T) {
	t.Parallel()
	chat, file, messages, revision := sample()
	for format, encoder := range map[Format]func(io.Writer) *Bundle{FormatLines: NewLines, FormatObject: NewObject} {
		text := sampleOf(t, encoder)
		found, records := mustRead(t, text)
		want := []Record{{Header: &Header{Format: Name, Version: 1, ExportedAt: exportedAt}}, {Chat: &chat}, {File: &file}, {Message: &messages[0]},
			{Message: &messages[1]}, {Message: &messages[2]}, {Revision: &revision}, {End: &End{Files: 1, Messages: 3, Revisions: 1}}}
		assert.Equalf(t, format, found, "%s taken for", format)
		assert.Equalf(t, want, records, "%s", format)
		assert.True(t, json.Valid([]byte(strings.SplitN(text, "\n", 2)[0])) || format != FormatLines, "the first line is not JSON")
		assert.True(t, format != FormatObject || json.Valid([]byte(text)), "the object is not JSON")
	}
}

func TestEmptyChatReadsBack(t *testing.T) {
	t.Parallel()
	for _, encoder := range []func(io.Writer) *Bundle{NewLines, NewObject} {
		_, records := mustRead(t, written(t, encoder, Chat{ID: idChat}))
		assert.Truef(t, len(records) == 3 && records[1].Chat.MemoryStrategy == "summary" && string(records[1].Chat.Metadata) == "{}", "%+v", records)
	}
}

// Bundles put one after another are one bundle, whether or not their first lines are kept.
func TestSeveralChatsInOneFile(t *testing.T) {
	t.Parallel()
	first := sampleOf(t, NewLines)
	second := strings.ReplaceAll(written(t, NewLines, Chat{ID: idOther}), "\n", "\r\n\r\n")
	_, records := mustRead(t, "\ufeff"+first+second)
	chats := chatsOf(records)
	assert.Truef(t, len(chats) == 2 && chats[1].ID == idOther, "%+v", chats)
	_, second, _ = strings.Cut(second, "\n")
	_, records = mustRead(t, first+second)
	chats = chatsOf(records)
	assert.Equalf(t, 2, len(chats), "%+v", chats)
}

// A part that a bundle may leave out, and one that this version does not know, changes nothing.
func TestBundleMayBeShort(t *testing.T) {
	t.Parallel()
	_, records := mustRead(t, `{"exported_at":"2026-11-21T15:04:05Z","format":"throughline","version":1,"type":"bundle","more":{"x":[1]}}
{"type":"chat","id":"`+strings.ToUpper(idChat)+`"}
{"type":"message","id":"`+idAsk+`","role":"user","content":"half \ud800 a pair","metadata":{"n":1e300},"later":true}
{"type":"end","messages":1}`)
	message := messagesOf(records)[0]
	if message.Status != "complete" || message.Content != "half \uFFFD a pair" || string(message.Metadata) != `{"n":1e300}` || !message.CreatedAt.IsZero() {
		t.Errorf("%+v", message)
	}
	assert.Equal(t, idChat, chatsOf(records)[0].ID, "ids are not in lower case")
}

// In a file from before there was a tree, a superseded reply stands after the message that it answers.
func TestFilesWithoutParents(t *testing.T) {
	t.Parallel()
	text := replaced(t, sampleOf(t, NewLines), `"parent_id":"`+idAsk+`","superseded_by":"`+idOther, `"superseded_by":"`+idOther)
	_, records := mustRead(t, text)
	assert.Equal(t, idAsk, deref(messagesOf(records)[1].ParentID))
	_, records = mustRead(t, replaced(t, text, `"reply_to":"`+idAsk, `"reply_to":"`+idChat))
	assert.Nil(t, messagesOf(records)[1].ParentID, "what it answers is not in the file")
}

func TestBundleRefusals(t *testing.T) {
	t.Parallel()
	whole := sampleOf(t, NewLines)
	lines := strings.SplitAfter(whole, "\n") // bundle, chat, file, 3 messages, revision, end
	change := func(from, to string) string { return replaced(t, whole, from, to) }
	deep := strings.Repeat(`{"a":`, 33) + "1" + strings.Repeat("}", 33)
	refusals{
		"empty":               {"", "empty@1"},
		"blank":               {" \n\n ", "empty@3"},
		"no JSON":             {"hello", "unknown_format@1"},
		"a number":            {"7", "unknown_format@1"},
		"an unknown object":   {`{"a":1}`, "unknown_format@1"},
		"a brace":             {"{", "bad_json@1"},
		"a bracket":           {"[", "bad_json@1"},
		"half an object":      {`{"a":`, "bad_json@1"},
		"no end":              {strings.Join(lines[:7], ""), "no_end@7"},
		"cut in a line":       {whole[:len(whole)-9], "bad_json@8"},
		"two chats, no end":   {strings.Join(lines[:7], "") + lines[1], "no_end@8"},
		"bundle in a chat":    {lines[0] + lines[1] + lines[0], "no_end@3"},
		"message first":       {lines[0] + lines[3], "no_chat@2"},
		"end first":           {lines[0] + lines[7], "no_chat@2"},
		"version":             {change(`"version":1`, `"version":2`), "unknown_version@1"},
		"another's format":    {change(`"format":"throughline"`, `"format":"other"`), "unknown_format@1"},
		"line type":           {change(`"type":"chat"`, `"type":"thing"`), "unknown_type@2"},
		"no type":             {change(`"type":"chat"`, `"typ":"chat"`), "unknown_type@2"},
		"an array":            {lines[0] + "[]\n", "wrong_type@2"},
		"chat id":             {change(`"id":"`+idChat, `"id":"x`), "bad_uuid@2"},
		"chat twice":          {whole + lines[1], "duplicate_id@9"},
		"chat twice in case":  {whole + strings.ToUpper(lines[1][:40]) + lines[1][40:], "unknown_type@9"},
		"title":               {change(`"title":"`, `"title":"`+strings.Repeat("x", 500)), "bad_length@2"},
		"title of null":       {change(`"title":"`, `"title":"\u0000`), "null_character@2"},
		"strategy":            {change(`"hybrid"`, `"best"`), "unknown_strategy@2"},
		"tags":                {change(`["cello","b"]`, `["`+strings.Repeat("x", 65)+`"]`), "bad_length@2"},
		"many tags":           {change(`["cello","b"]`, `["a"`+strings.Repeat(`,"a"`, 20)+`]`), "too_many_tags@2"},
		"ttl":                 {change(`"ttl_hours":3`, `"ttl_hours":0`), "out_of_range@2"},
		"ttl as text":         {change(`"ttl_hours":3`, `"ttl_hours":"3"`), "wrong_type@2"},
		"turns":               {change(`"max_turns":50`, `"max_turns":100001`), "out_of_range@2"},
		"metadata":            {change(`"metadata":{"app"`, `"metadata":[1],"x":{"app"`), "wrong_type@2"},
		"metadata's depth":    {change(`"metadata":{}`, `"metadata":`+deep), "too_deep@4"},
		"metadata's number":   {change(`"metadata":{}`, `"metadata":{"n":1e400}`), "out_of_range@4"},
		"metadata's smallest": {change(`"metadata":{}`, `"metadata":{"n":[1e-400]}`), "out_of_range@4"},
		"metadata's null":     {change(`"metadata":{}`, `"metadata":{"\u0000":1}`), "null_character@4"},
		"a bomb":              {lines[0] + strings.Repeat("[", 200_000) + "\n", "too_deep@2"},
		"date":                {change(`"2026-11-20T10:00:00.123456Z"`, `"yesterday"`), "bad_date@2"},
		"date as number":      {change(`"2026-11-20T10:00:00.123456Z"`, `12`), "bad_date@2"},
		"file's hash":         {change(`"content":"package main\n"`, `"content":"package mine\n"`), "wrong_sha256@3"},
		"file twice":          {lines[0] + lines[1] + lines[2] + lines[2], "duplicate_file@4"},
		"file missing":        {lines[0] + lines[1] + lines[3], "file_missing@3"},
		"file too large":      {change(`"content":"package main\n"`, `"content":"`+strings.Repeat("x", 262_145)+`"`), "file_too_large@3"},
		"path":                {change(`"path":"main.go"`, `"path":""`), "bad_length@4"},
		"role":                {change(`"role":"user"`, `"role":"human"`), "unknown_role@4"},
		"no role":             {change(`"role":"user"`, `"rule":"user"`), "unknown_role@4"},
		"status":              {change(`"status":"complete"`, `"status":"done"`), "unknown_status@4"},
		"streaming":           {change(`"status":"complete"`, `"status":"streaming"`), "streaming@4"},
		"importance":          {change(`"importance":0.9`, `"importance":1.1`), "out_of_range@4"},
		"tool calls":          {change(`"tool_calls":null`, `"tool_calls":{}`), "wrong_type@4"},
		"name":                {change(`"name":"ann"`, `"name":"`+strings.Repeat("n", 257)+`"`), "bad_length@4"},
		"reply_to":            {change(`"reply_to":"`+idAsk, `"reply_to":"x`), "bad_uuid@5"},
		"superseded_by":       {change(`"superseded_by":"`+idOther, `"superseded_by":"x`), "bad_uuid@5"},
		"parent_id":           {change(`"parent_id":"`+idAsk, `"parent_id":"x`), "bad_uuid@5"},
		"moved_from":          {change(`"moved_from":"`+idChat, `"moved_from":"x`), "bad_uuid@6"},
		"another's parent":    {change(`"parent_id":"`+idAsk, `"parent_id":"`+idChat), "message_missing@5"},
		"a later parent":      {change(`"parent_id":"`+idAsk, `"parent_id":"`+idOther), "message_missing@5"},
		"its own parent":      {change(`"parent_id":"`+idAsk, `"parent_id":"`+idReply), "message_missing@5"},
		"a gap in the path":   {change(`"parent_id":"`+idAsk+`","moved`, `"parent_id":"`+idReply+`","moved`), "wrong_parent@6"},
		"message twice":       {change(`"id":"`+idReply, `"id":"`+idAsk), "duplicate_id@5"},
		"content's length":    {change(`"content":"42"`, `"content":"`+strings.Repeat("ж", MaxContent+1)+`"`), "content_too_long@6"},
		"invalid UTF-8":       {change(`"content":"42"`, "\"content\":\"\xff\""), "invalid_utf8@6"},
		"counts":              {change(`"messages":3`, `"messages":4`), "wrong_counts@8"},
		"a long line":         {lines[0] + `{"type":"` + strings.Repeat("x", maxRecord) + "\"}\n", "record_too_long@2"},
		"UTF-16":              {"\xff\xfe{\x00", "unknown_format@1"},
		"a zip":               {"PK\x03\x04", "unknown_format@1"},
	}.check(t)
}

func TestObjectRefusals(t *testing.T) {
	t.Parallel()
	whole := sampleOf(t, NewObject)
	before, _, _ := strings.Cut(whole, idReply)
	change := func(from, to string) string { return replaced(t, whole, from, to) }
	refusals{
		"cut":              {whole[:len(whole)-4], "bad_json@11"},
		"cut in a list":    {before, "bad_json@7"},
		"no format before": {`{"chats":[]}`, "unknown_format@1"},
		"chats":            {`{"format":"throughline","version":1,"chats":{}}`, "wrong_type@1"},
		"a chat":           {`{"format":"throughline","version":1,"chats":[7]}`, "wrong_type@1"},
		"messages":         {change(`"messages":[`, `"messages":7,"x":[`), "wrong_type@5"},
		"message":          {change(`"role":"user"`, `"role":7`), "wrong_type@6"},
		"end":              {change(`"end":`, `"fin":`), "no_end@12"},
		"something more":   {whole + "{}", "bad_json@12"},
		"null":             {change(`"content":"42"`, `"content":"\u0000"`), "null_character@8"},
		"a bomb":           {change(`"content":"42"`, `"content":`+strings.Repeat("[", 200_000)), "bad_json@8"},
		"a long value":     {change(`"content":"42"`, `"content":"`+strings.Repeat("x", maxRecord)+`"`), "record_too_long@8"},
	}.check(t)
}

// The longest content is taken, however it is escaped.
func TestLongestContentIsTaken(t *testing.T) {
	t.Parallel()
	text := written(t, NewLines, Chat{ID: idChat}, Record{Message: &Message{ID: idAsk, Role: "user", Content: "CONTENT"}})
	text = replaced(t, text, "CONTENT", strings.Repeat(`\ud83d\ude00`, MaxContent))
	_, records := mustRead(t, text)
	got := messagesOf(records)[0].Content
	assert.Equalf(t, strings.Repeat("😀", MaxContent), got, "%d bytes", len(got))
}

func TestTooManyChatsAreRefused(t *testing.T) {
	t.Parallel()
	r := newRules(FormatChatGPT)
	for i := range MaxChats {
		r.chats[keyOf(strconv.Itoa(i))] = struct{}{}
	}
	err := r.check(&Record{Chat: &Chat{ID: "one more"}})
	assert.Truef(t, err != nil && strings.Contains(err.Error(), "50000"), "%v", err)
}

// What a file has under our keys in a reply's metadata, and is of another kind, keeps its place beside them.
func TestForeignMetadataIsSetAside(t *testing.T) {
	t.Parallel()
	const ids = `"id":"0198a1f2-7c12-7b60-8f0d-2a7c9e4b1f52","content":"Hi."`
	for given, want := range map[string]string{
		`{"memory":7,"usage":[1],"model_variant":null,"failure":"no","mood":"calm"}`: `{"foreign":{"failure":"no","memory":7,"usage":[1]},` +
			`"model_variant":null,"mood":"calm"}`,
		`{"model":{"name":"x"},"foreign":1}`:                             `{"foreign":{"foreign":1,"model":{"name":"x"}}}`,
		`{"model_variant":"arco","memory":{"tail_turns":1},"foreign":1}`: `{"foreign":1,"memory":{"tail_turns":1},"model_variant":"arco"}`,
	} {
		for role, want := range map[string]string{"assistant": want, "user": ""} {
			file := `{"type":"bundle","format":"throughline","version":1}` + "\n" + `{"type":"chat","id":"0198a1f2-7c11-7d3e-9a44-5b0e6f1c2d31"}` + "\n" +
				`{"type":"message","role":"` + role + `",` + ids + `,"metadata":` + given + "}\n" + `{"type":"end","messages":1}`
			_, records := mustRead(t, file)
			got := string(messagesOf(records)[0].Metadata)
			assert.Truef(t, (want == "" || got == want) && (want != "" || !strings.Contains(got, `"foreign":{`)),
				"%s of the %s became %s", given, role, got)
		}
	}
}

func TestDatesBeyondJSONAreRefused(t *testing.T) {
	t.Parallel()
	for _, date := range []string{"9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+14:00", "0000-06-01T00:00:00Z"} {
		for _, file := range []string{
			`{"role":"user","content":"Hi.","created_at":"` + date + `"}`,
			`{"type":"bundle","format":"throughline","version":1}` + "\n" + `{"type":"chat","id":"0198a1f2-7c11-7d3e-9a44-5b0e6f1c2d31","created_at":"` + date + `"}`,
		} {
			_, _, err := read(file)
			assert.Truef(t, err != nil && strings.HasPrefix(refusal(t, err), "bad_date@"), "%s: %v", file, err)
		}
	}
}

// What a reader keeps of a message is a hash of its id. Not parallel: the memory of other tests would be counted.
func TestTinyMessagesTakeLittleMemory(t *testing.T) { //nolint:paralleltest // see above
	const messages = 200_000
	var file strings.Builder
	file.WriteString(`{"type":"bundle","format":"throughline","version":1}` + "\n" + `{"type":"chat","id":"` + uuid.NewString() + `"}` + "\n")
	for range messages {
		fmt.Fprintf(&file, `{"type":"message","id":"%s","role":"user"}`+"\n", uuid.New())
	}
	fmt.Fprintf(&file, `{"type":"end","files":0,"messages":%d,"revisions":0}`+"\n", messages)
	_, all, err := Open(strings.NewReader(file.String()), int64(file.Len()))
	require.NoError(t, err)
	before, after := heap(), uint64(0)
	for record, err := range all {
		require.NoError(t, err)
		if record.End != nil {
			after = heap()
		}
	}
	if perMessage := float64(after-min(before, after)) / messages; perMessage > 48 || after == 0 {
		t.Errorf("%.0f bytes for each message", perMessage)
	} else {
		t.Logf("%.0f bytes for each message", perMessage)
	}
	runtime.KeepAlive(file)
}

func heap() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func TestMarkdownOfAChat(t *testing.T) {
	t.Parallel()
	chat, _, messages, _ := sample()
	var out strings.Builder
	m := NewMarkdown(&out)
	require.NoError(t, errors.Join(m.Begin(exportedAt, chat), m.Message(messages[0]), m.Message(messages[1]), m.Message(messages[2])))
	want := "# Scales \\<\\&\\> “arpeggios”\n\n- Begun: 2026-11-20 10:00 UTC\n- Last message: 2026-11-20 10:00 UTC\n- Exported: 2026-11-21 15:04 UTC\n" +
		"- Tags: cello, b\n\n**Instructions**\n\n> Be kind.\n" +
		"\n---\n\n**User** (ann), 2026-11-20 10:00 UTC, pinned\n\n> line\n> \"two\"\u2028 👩\u200d👧\n" +
		"\n---\n\n**Assistant** (arco), 2026-11-20 10:00 UTC, interrupted\n" +
		"\n```json\n[{\"function\":{\"arguments\":\"{}\",\"name\":\"f\"},\"id\":\"call_1\"}]\n```\n" +
		"\n---\n\n**Tool**, 2026-11-20 10:00 UTC\n\n> 42\n"
	assert.Equal(t, want, out.String())
}

// In any text, a line of its own is a quoted one, and a file ends only at its own fence.
func TestNothingBreaksMarkdownsFrame(t *testing.T) {
	t.Parallel()
	tricks := rapid.SampledFrom([]string{"```", "````\n", "~~~", "\n---\n", "**User**", "# Title", "\r", "\r\n", "<!--", "</details>", "> ", "\n\n", "x"})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(tricks, 0, 12).Draw(t, "text"), "")
		for line := range strings.SplitSeq(strings.TrimSuffix(quote(text), "\n"), "\n") {
			assert.Truef(t, strings.HasPrefix(line, ">") && !strings.Contains(line, "\r"), "%q stands alone", line)
		}
		lines := strings.Split(strings.TrimSuffix(fenced("", text), "\n"), "\n")
		fence := lines[0]
		assert.Truef(t, strings.Trim(fence, "`") == "" && lines[len(lines)-1] == fence && !strings.Contains(text, fence),
			"%q is not fenced: %q", text, lines)
		title := plainText(text)
		assert.Truef(t, !strings.ContainsAny(title, "\r\n") && !strings.Contains(strings.ReplaceAll(title, "\\`", ""), "`"), "%q is not plain", title)
	})
}

func TestMarkdownShowsAFileOnce(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	m := NewMarkdown(&out)
	file := File{SHA256: sum("a ```` b"), Content: "a ```` b"}
	for _, path := range []string{"one.md", "two`.md"} {
		require.NoError(t, m.File(path, file))
	}
	assert.Equal(t, "\nFile one.md:\n\n`````\na ```` b\n`````\n\nFile two\\`.md: the same as one.md above.\n", out.String())
}

// checkRead reads anything: it ends in order or with a fault that names a line, and each record that it gives can be
// stored.
func checkRead(t *testing.T, text []byte) {
	_, records, err := Open(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		checkRefusal(t, text, err)
		return
	}
	open, messages := false, 0
	for record, err := range records {
		switch {
		case err != nil:
			checkRefusal(t, text, err)
			return
		case record.Chat != nil:
			open, messages = true, 0
			checkStorable(t, record.Chat.Title, record.Chat.Metadata)
		case record.Message != nil:
			messages++
			checkStorable(t, record.Message.Content, record.Message.Metadata)
			checkStorable(t, deref(record.Message.Name), record.Message.ToolCalls)
		case record.End != nil:
			assert.Truef(t, open && record.End.Messages == messages, "an end of %d messages after %d", record.End.Messages, messages)
			open = false
		}
	}
	assert.False(t, open, "the file ended within a chat")
}

func checkRefusal(t *testing.T, text []byte, err error) {
	known, ok := errors.AsType[*fault.Error](err)
	line, _ := known.Details["line"].(int)
	assert.Truef(t, ok && known.Code == fault.ImportInvalid && known.Details["reason"] != "" && line >= 1 && line <= bytes.Count(text, []byte("\n"))+1,
		"%v %v", err, known.Details)
}

func checkStorable(t *testing.T, text string, raw json.RawMessage) {
	assert.Truef(t, utf8.ValidString(text) && !strings.Contains(text, "\x00"), "%q cannot be stored", text)
	assert.Truef(t, raw == nil || (json.Valid(raw) && !holdsNUL(raw)), "%q cannot be stored", raw)
}

// For any file, of each format that its beginning may show.
func FuzzOpen(f *testing.F) {
	for _, text := range []string{
		sampleOf(f, NewLines), sampleOf(f, NewObject), sampleAccount(f), twoConversations, "[" + twoConversations,
		`{"role":"user","content":"x","created_at":"2024-02-03T04:05:06Z","tool_calls":[{"a":1e5}]}` + "\n{\"role\":\"user\",\"content\":\"\\ud800\"}",
		"", "\ufeff", "[", "{", "[{}]", `{"type":"bundle"}`, "\xff",
	} {
		f.Add([]byte(text))
		f.Add([]byte(text[:len(text)/2]))
		f.Add([]byte(strings.ReplaceAll(text, `"`, `\"`)))
	}
	f.Fuzz(checkRead)
}
