package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/transfer"
	"github.com/arcoscribe/throughline/internal/transfer/bundle"
)

const plainLines = `{"role":"system","content":"Be brief.","created_at":"2024-02-03T04:05:06Z"}
{"role":"user","content":"How do I practise scales?","created_at":"2024-02-03T04:05:07.5Z"}
{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function"}]}
{"role":"tool","content":"Slowly.","tool_call_id":"call_1","name":"adviser"}
{"role":"assistant","content":"Slowly.","created_at":"2024-02-03T04:05:09+01:00"}
`

// importedRow is what tests compare of an imported message.
type importedRow struct {
	Seq       int64
	Role      string
	Content   string
	CreatedAt string
	ReplyTo   int64 // the seq
	Tokens    int
}

func (p *port) rows(chatID uuid.UUID) []importedRow {
	return rowsOf[importedRow](p, `select m.seq, m.role, m.content, to_char(m.created_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS'),
		coalesce(r.seq, 0), m.token_count from messages m left join messages r on r.id = m.reply_to where m.chat_id = $1 order by m.seq`, chatID)
}

func TestPlainLinesBecomeAChat(t *testing.T) {
	t.Parallel()
	p := newPort(t)
	result := p.mustImport(p.user, plainLines)
	chatID := result.Chats[0].ChatID
	want := transfer.Result{Chats: []transfer.ImportedChat{{ChatID: chatID, Title: "How do I practise scales?", Messages: 4}}, Imported: 1, Messages: 4}
	is(t, result, want, "the result")
	wantRows := []importedRow{
		{1, "user", "How do I practise scales?", "2024-02-03 04:05:07.500", 0, text.Tokens("How do I practise scales?")},
		{2, "assistant", "", "2024-02-03 04:05:07.500", 0, text.Tokens(`[calls {"id":"call_1","type":"function"}]`)},
		{3, "tool", "Slowly.", "2024-02-03 04:05:07.500", 0, text.Tokens("[adviser] Slowly.")},
		{4, "assistant", "Slowly.", "2024-02-03 03:05:09.000", 1, text.Tokens("Slowly.")},
	}
	is(t, p.rows(chatID), wantRows, "the result")
	assert.Equal(t, "2024-02-03 04:05:06+00; 2024-02-03 04:05:07.5+00", ask[string](p, "select created_at || '; ' || last_message_at from chats where id = $1",
		chatID),
		"the chat's dates")
	is(t, ask[string](p, "select system_prompt from chats where id = $1", chatID), "Be brief.", "the chat's instructions")
	p.checkCounters()
}

// The first system message of another program's chat becomes the chat's instructions; later ones, and one that is too long for
// that, stay messages that no summary replaces.
func TestSystemMessagesOfOtherProgramsCount(t *testing.T) {
	t.Parallel()
	p := newPort(t)
	system := func(content string) string { return `{"role":"system","content":"` + content + `"}` + "\n" }
	long := strings.Repeat("x", memory.MaxSystemPrompt+1)
	chatID := p.mustImport(p.user, system(" ")+system(long)+plainLines+system("Be kind, too.")).Chats[0].ChatID
	is(t, ask[string](p, "select system_prompt from chats where id = $1", chatID), "Be brief.", "the chat's instructions")
	is(t, ask[string](p, "select string_agg(left(content, 8) || ' ' || pinned, ', ' order by seq) from messages where chat_id = $1 and role = 'system'", chatID),
		"  false, xxxxxxxx true, Be kind, true", "its system messages")
}

// path is what a chat says on its path.
func (p *port) path(chatID uuid.UUID) string {
	return ask[string](p, "select string_agg(content, ', ' order by seq) from messages where chat_id = $1 and superseded_by is null", chatID)
}

// selects chooses a version by its words, and returns what the path says then.
func (p *port) selects(chatID uuid.UUID, words string) string {
	p.exec("select throughline.select_version(id) from messages where chat_id = $1 and content = $2", chatID, words)
	return p.path(chatID)
}

// A chat with an edited message, two replies to it and a deletion is the same tree for another user, in which every version can be
// chosen. Nothing comes back of a summary that was undone, whatever the file says.
func TestVersionsTravelWithTheirChat(t *testing.T) {
	t.Parallel()
	p := newPort(t)
	chatID, edited, again := p.newChat(2), uuid.New(), uuid.New()
	p.mustCommit(p.claim(chatID))
	leave := "update messages set superseded_by = $2 where chat_id = $1 and seq >= $3 and superseded_by is null"
	store := "insert into messages (id, chat_id, role, content, reply_to) values ($2, $1, $3, $4, $5)"
	p.exec(leave, chatID, edited, 3)
	p.exec(store, chatID, edited, "user", "edited", nil)
	p.exec(store, chatID, uuid.New(), "assistant", "first", edited)
	p.exec(leave, chatID, again, 6)
	p.exec(store, chatID, again, "assistant", "second", edited)
	p.exec("delete from messages where chat_id = $1 and seq = 2", chatID)
	is(t, p.selects(chatID, "another answer"), "question number 1, another question, another answer", "the path")
	text, other := p.mustExport(p.user, chatID, transfer.FormatLines), p.newUser()
	for _, revision := range []string{`"kind":"fold","seq_from":1,"seq_to":4,"turns":2,"global_summary":null,"undone_by":2`, `"kind":"rollback"`} {
		assert.Contains(t, text, revision)
	}
	made := p.mustImport(other, strings.ReplaceAll(text, `"global_summary":null`, `"global_summary":"canary"`)).Chats[0].ChatID
	is(t, alike(t, p.mustExport(other, made, transfer.FormatLines)), alike(t, text), "the tree")
	is(t, ask[string](p, "select concat(brief, (select count(*) from conversation_brief_revisions r where r.chat_id = b.chat_id)) from conversation_briefs b "+
		"where chat_id = $1", made), `{"global_summary": "", "last_summarized_message_id": null}0`, "its brief and revisions")
	for _, words := range []string{"first", "another question", "second", "edited"} {
		is(t, p.selects(made, words), p.selects(chatID, words), "%s", words)
	}
	rememberingOf(p.bed).said("Said in a version that was left.", p.message(chatID, 3))
	p.mustImport(p.newUser(), p.mustAccount(p.user))
	is(t, p.count("memory_sources s join messages m on m.id = s.message_id where m.superseded_by is not null and m.user_id <> $1", p.user.UserID), 0,
		"sources that are on no path")
	p.checkCounters()
}

// The message that becomes the chat's instructions hands its children on, and the versions of the first message stay versions.
func TestChatGPTsBranchesComeIn(t *testing.T) {
	t.Parallel()
	p := newPort(t)
	node := func(at int, id, parent, role, words string) string {
		return fmt.Sprintf(`%q: {"parent": %q, "message": {"author": {"role": %q}, "create_time": %d, "content": {"parts": [%q]}}}`, id, parent, role, at, words)
	}
	chatID := p.mustImport(p.user, `[{"id": "c", "current_node": "reply", "mapping": {"root": {"parent": null}, `+strings.Join([]string{
		node(1, "system", "root", "system", "Be brief."), node(2, "left", "system", "user", "Left."), node(3, "heard", "left", "assistant", "Heard."),
		node(4, "ask", "system", "user", "How?"), node(5, "slowly", "ask", "assistant", "Slowly."), node(6, "reply", "ask", "assistant", "Well."),
	}, ", ")+`}}]`).Chats[0].ChatID
	is(t, ask[string](p, "select system_prompt || title from chats where id = $1", chatID), "Be brief.How?", "the chat's instructions and title")
	is(t, p.path(chatID), "How?, Well.", "the path")
	for _, c := range [][2]string{{"Left.", "Left., Heard."}, {"How?", "How?, Well."}, {"Slowly.", "How?, Slowly."}} {
		is(t, p.selects(chatID, c[0]), c[1], "%s", c[0])
	}
	p.checkCounters()
}

// Topics are noted for the job that assigns them: a title where a person gave it, and none without turns.
func TestTopicsAreNoted(t *testing.T) {
	t.Parallel()
	p := newPort(t)
	chatID := p.mustImport(p.user, `{"type":"bundle","format":"throughline","version":1}
{"type":"chat","id":"0198a1f2-7c11-7d3e-9a44-5b0e6f1c2d31"}
{"type":"message","id":"0198a1f2-7c11-7d3e-9a44-5b0e6f1c2d33","role":"user","content":"One."}
{"type":"message","id":"0198a1f2-7c11-7d3e-9a44-5b0e6f1c2d34","role":"user","content":"Two."}
{"type":"topic","id":"0198a1f2-7c11-7d3e-9a44-5b0e6f1c2d32"}
{"type":"topic","id":"0198a1f2-7c11-7d3e-9a44-5b0e6f1c2d35","title":"Bows","renamed":true,"turns":["0198a1f2-7c11-7d3e-9a44-5b0e6f1c2d34"]}
{"type":"topic","id":"0198a1f2-7c11-7d3e-9a44-5b0e6f1c2d36","title":"Made","tags":["a"],"importance":0.5,"importance_rated":true,`+
		`"turns":["0198a1f2-7c11-7d3e-9a44-5b0e6f1c2d33"]}
{"type":"end","messages":2,"topics":3}`).Chats[0].ChatID
	is(t, ask[string](p, "select string_agg(concat_ws(' ', n ->> 'title', n -> 'tags', n ->> 'importance', n ->> 'rated', n -> 'turns'), ', ') "+
		"from conversation_briefs, jsonb_array_elements(imported_topics) n where chat_id = $1", chatID), "Bows [] 0 false [2], [\"a\"] 0.5 true [1]", "noted")
}

// longFile returns a file of that many plain messages.
func longFile(messages int) string {
	var out strings.Builder
	for n := range messages {
		role := []string{"user", "assistant"}[n%2]
		fmt.Fprintf(&out, `{"role":%q,"content":"message number %d %s"}`+"\n", role, n, strings.Repeat("of some length ", 20))
	}
	return out.String()
}

// An error at the very end of a file prevents that anything is written.
func TestNothingIsWrittenOfABadFile(t *testing.T) {
	t.Parallel()
	p := newPort(t)
	chatID := p.newChat(3)
	text := p.mustExport(p.user, chatID, transfer.FormatLines)
	broken := strings.ReplaceAll(text, chatID.String(), uuid.NewString())
	broken = broken[:strings.LastIndex(broken, `{"type":"end"`)]
	before := p.count("chats")
	for _, file := range []string{text + broken, plainLines + `{"role":"robot","content":""}`, "", "{"} {
		if _, err := p.importAs(p.newUser(), file); fault.CodeOf(err) != fault.ImportInvalid {
			t.Errorf("%v", err)
		}
	}
	got := p.count("chats")
	is(t, got, before, "%d chats were written", got-before)
	left, err := filepath.Glob(filepath.Join(p.transfer.TempDir, "*"))
	entries, _ := os.ReadDir(p.transfer.TempDir)
	assert.Truef(t, err == nil && len(left)+len(entries) == 0, "left behind: %v", left)
}

// An import that is cut off leaves only complete chats. Importing again adds the others.
func TestImportCutOffLeavesNoHalfChat(t *testing.T) {
	t.Parallel()
	p := newPort(t)
	var file strings.Builder
	for range 3 {
		chatID := p.newChat(1)
		p.exec("insert into messages (chat_id, role, content) select $1, 'user', 'number ' || n from generate_series(1, 1198) n", chatID)
		file.WriteString(p.mustExport(p.user, chatID, transfer.FormatLines))
	}
	other := p.newUser()
	counts := func() string {
		return ask[string](p, "select count(distinct chat_id) || ' ' || count(*) from messages where user_id = $1", other.UserID)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err := p.transfer.Import(ctx, other, strings.NewReader(file.String()), func(progress transfer.Progress) {
		if progress.Phase == transfer.PhaseWriting && progress.Messages == 1200+700 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || counts() != "1 1200" || p.count("chats where user_id = $1", other.UserID) != 1 {
		t.Errorf("%v: %s", err, counts())
	}
	result := p.mustImport(other, file.String())
	is(t, tuple(result.Skipped, result.Imported, result.Messages, counts()), tuple(1, 2, 2400, "3 3600"), "%+v", result)
	p.checkCounters()
}

// generated produces a plain file while it is read, and measures the heap meanwhile.
type generated struct {
	messages, made int
	rest           bytes.Buffer
}

func (g *generated) Read(into []byte) (int, error) {
	for g.rest.Len() == 0 && g.made < g.messages {
		fmt.Fprintf(&g.rest, `{"role":"user","content":"%d %s"}`+"\n", g.made, strings.Repeat("word ", 150))
		g.made++
	}
	if g.rest.Len() == 0 {
		return 0, io.EOF
	}
	return g.rest.Read(into)
}

// peak looks at the heap now and then, while something is read or is written to it: by how much it has grown at most.
type peak struct {
	before, most, bytes, looked uint64
}

func (p *peak) look() {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	if p.before == 0 {
		p.before = stats.HeapAlloc
	}
	p.most = max(p.most, stats.HeapAlloc-min(p.before, stats.HeapAlloc))
}

func (p *peak) Write(data []byte) (int, error) {
	if p.bytes += uint64(len(data)); p.bytes-p.looked > 5<<20 {
		p.looked = p.bytes
		p.look()
	}
	return len(data), nil
}

// imports imports that many messages and returns by how much the heap grew at most.
func (p *port) imports(messages int) (heap uint64, phases map[transfer.Phase]int) {
	p.t.Helper()
	grown := &peak{}
	grown.look()
	phases = map[transfer.Phase]int{}
	result, err := p.transfer.Import(p.t.Context(), p.newUser(), &generated{messages: messages}, func(progress transfer.Progress) {
		if phases[progress.Phase]++; phases[progress.Phase]%500 == 0 {
			grown.look()
		}
	})
	mustBe(p.t, tuple(err, result.Messages), tuple(nil, messages), "%+v", result)
	return grown.most, phases
}

// For any size of account, only pages of it are in memory; ten times the messages of an import take nowhere near ten times the
// memory. Not parallel: the memory of other tests would be counted.
func TestTransfersMemoryIsFlat(t *testing.T) { //nolint:paralleltest // see above
	if testing.Short() {
		t.Skip("alone it takes as long as a third of the others")
	}
	p := newPort(t)
	_, _ = p.imports(1000) // the tokenizer's tables and the pool's buffers stay
	few, _ := p.imports(1000)
	many, phases := p.imports(10_000)
	t.Logf("%d bytes for 1 000 messages, %d for 10 000", few, many)
	const floor = 1 << 20 // so that noise on next to nothing is no ratio
	assert.Truef(t, many <= 3*max(few, floor), "%d bytes for 1 000 messages, %d for 10 000", few, many)
	assert.Truef(t, phases[transfer.PhaseReceiving] != 0 && phases[transfer.PhaseChecking] >= 10_000 && phases[transfer.PhaseWriting] >= 10_000,
		"progress: %v", phases)
	first, last := "0 word", "9999 word"
	assert.True(t, p.count("messages where (seq = 1 and content like $1 || '%') or (seq = 10000 and content like $2 || '%')", first, last) >= 2,
		"the order is not kept")
	p.exec(`insert into chats (user_id, title) select $1, 'chat ' || n from generate_series(1, 60) n`, p.user.UserID)
	p.exec(`insert into messages (chat_id, role, content) select c.id, 'user', repeat('x', 100000) || n from chats c, generate_series(1, 20) n
		where c.user_id = $1`, p.user.UserID)
	out := &peak{}
	noError(t, p.transfer.ExportAccount(t.Context(), p.user, out))
	assert.Truef(t, out.bytes >= 100<<20 && out.most <= 64<<20,
		"%d MiB of heap for a file of %d MiB", out.most>>20, out.bytes>>20)
}

// A bundle of any content is exported as it was imported.
func TestAnyBundleComesBackTheSame(t *testing.T) {
	t.Parallel()
	p := newPort(t)
	users := make([]auth.Principal, 4)
	for i := range users {
		users[i] = p.newUser()
	}
	rapid.Check(t, func(rt *rapid.T) {
		text := anyBundle(rt)
		result, err := p.transfer.Import(t.Context(), users[rapid.IntRange(0, 3).Draw(rt, "user")], strings.NewReader(text), unwatched)
		if err != nil || result.Imported != 1 {
			rt.Fatalf("%+v, %v, %s", result, err, text)
		}
		owner := users[0]
		for _, user := range users {
			if ask[bool](p, "select exists (select from chats where id = $1 and user_id = $2)", result.Chats[0].ChatID, user.UserID) {
				owner = user
			}
		}
		back, err := p.exportAs(owner, result.Chats[0].ChatID, transfer.FormatLines)
		if err != nil {
			rt.Fatalf("%v", err)
		}
		if diff := cmp.Diff(alike(rt, text), alike(rt, back)); diff != "" {
			rt.Fatalf("(-in +out):\n%s", diff)
		}
	})
}

// anyText is any text that Postgres can store.
var anyText = rapid.Map(rapid.OneOf(rapid.StringN(0, 40, -1),
	rapid.SampledFrom([]string{"", "\u2028", "👩\u200d👧", "\r\n", "\\u0000", `"`, "\x7f", "日本語 テスト", "<b>&amp;"})),
	func(text string) string { return strings.ReplaceAll(strings.ToValidUTF8(text, "?"), "\x00", "0") })

var (
	anyTime   = rapid.Map(rapid.Int64Range(0, 250_000_000_000_000_000), func(micros int64) time.Time { return time.UnixMicro(micros).UTC() })
	anyObject = rapid.SampledFrom([]string{`{}`, `{"a":1.50}`, `{"n":12345678901234567890,"o":{"x":[null,true,"\u2028"]}}`, `{"e":""}`})
	anyName   = rapid.Ptr(rapid.Custom(func(t *rapid.T) string { return anyText.Draw(t, "name") }), true)
	anyCalls  = rapid.SampledFrom([]string{`null`, `[]`, `[{"id":"c"}]`})
	anyParts  = rapid.SampledFrom([]string{`null`, `[]`, `[{"type":"reasoning","at":0,"text":"hm"}]`,
		`[{"type":"tool_call","at":0,"call_id":"a","name":"f","arguments":"{","run":"client","approval":true},
		  {"type":"tool_approval","at":0,"call_id":"a","approved":false,"reason":"<b>"},
		  {"type":"tool_result","at":0,"call_id":"a","status":"denied","output":null},{"type":"source","at":0,"url":"u","title":"t"}]`})
	anyOutcome = rapid.SampledFrom([]string{"complete", "failed", "cancelled", "interrupted"})
	anyRole    = rapid.SampledFrom([]string{"user", "assistant", "system", "tool"})
)

func anyBundle(t *rapid.T) string {
	chat := bundle.Chat{
		ID: uuid.NewString(), Title: "t" + anyText.Draw(t, "title"), SystemPrompt: anyName.Draw(t, "system prompt"), Metadata: []byte(anyObject.Draw(t, "metadata")),
		Tags:           rapid.SliceOfN(rapid.StringN(1, 20, -1).Filter(func(s string) bool { return !strings.Contains(s, "\x00") }), 0, 3).Draw(t, "tags"),
		MemoryStrategy: rapid.SampledFrom([]string{"simple", "summary", "hybrid"}).Draw(t, "strategy"), CreatedAt: anyTime.Draw(t, "created"),
		TTLHours: rapid.Ptr(rapid.IntRange(1, 87_600), true).Draw(t, "ttl"), MaxTurns: rapid.Ptr(rapid.IntRange(1, 100_000), true).Draw(t, "turns"),
	}
	messages := make([]bundle.Message, rapid.IntRange(0, 6).Draw(t, "messages"))
	files := anyFiles(t)
	ids := make([]string, len(messages))
	for i := range ids {
		ids[i] = uuid.NewString()
	}
	for i := range messages {
		messages[i] = anyMessage(t, ids, messages[:i], files)
		if chat.LastMessageAt == nil || messages[i].CreatedAt.After(*chat.LastMessageAt) {
			chat.LastMessageAt = &messages[i].CreatedAt
		}
	}
	return encoded(t, chat, files, messages)
}

func anyFiles(t *rapid.T) []bundle.File {
	byHash := map[string]bundle.File{}
	for _, content := range rapid.SliceOfN(anyText, 0, 3).Draw(t, "files") {
		file := bundle.File{SHA256: hashOf(content), Content: content}
		byHash[file.SHA256] = file
	}
	var files []bundle.File
	for _, file := range byHash {
		files = append(files, file)
	}
	return files
}

func anyMessage(t *rapid.T, ids []string, before []bundle.Message, files []bundle.File) bundle.Message {
	i := len(before)
	refer := func(name string) *string { return rapid.Ptr(rapid.SampledFrom(ids), true).Draw(t, name) }
	superseded, parent := refer("superseded"), (*string)(nil)
	switch {
	case superseded != nil && i > 0:
		parent = new(rapid.SampledFrom(before).Draw(t, "parent").ID)
	case superseded == nil:
		for _, message := range before {
			if message.SupersededBy == nil {
				parent = &message.ID
			}
		}
	}
	message := bundle.Message{
		ID: ids[i], Role: anyRole.Draw(t, "role"), Content: anyText.Draw(t, "content"), Status: anyOutcome.Draw(t, "status"), ReplyTo: refer("reply to"),
		ParentID: parent, MovedFrom: refer("moved from"), SupersededBy: superseded, Pinned: rapid.Bool().Draw(t, "pinned"),
		ToolCallID: anyName.Draw(t, "call id"), Name: anyName.Draw(t, "name"),
		Importance: rapid.Ptr(rapid.Float32Range(0, 1), true).Draw(t, "importance"), ToolCalls: []byte(anyCalls.Draw(t, "calls")),
		ToolName: anyName.Draw(t, "tool"), Metadata: []byte(anyObject.Draw(t, "metadata")), CreatedAt: anyTime.Draw(t, "created"), UpdatedAt: anyTime.Draw(t,
			"updated"),
		Files: []bundle.FileRef{},
	}
	if message.Role == "assistant" {
		message.Parts = []byte(anyParts.Draw(t, "parts"))
	}
	if i == 0 { // so that no file is left without a message
		for n, file := range files {
			message.Files = append(message.Files, bundle.FileRef{Path: fmt.Sprint("file ", n), SHA256: file.SHA256})
		}
	}
	return message
}

// A connection that breaks in the middle of a chat leaves nothing of it, and the error reports that the
// import can be repeated.
func TestImportOverABrokenConnectionLeavesNothing(t *testing.T) {
	t.Parallel()
	p := newPort(t)
	file := longFile(1500)
	broken := false
	_, err := p.transfer.Import(t.Context(), p.user, strings.NewReader(file), func(progress transfer.Progress) {
		if progress.Phase == transfer.PhaseWriting && progress.Messages == 900 && !broken {
			broken = true
			p.exec("select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and state = 'idle in transaction'")
		}
	})
	is(t, tuple(broken, fault.CodeOf(err)), tuple(true, fault.NotReady), "the import ended with")
	is(t, ask[int](p, "select (select count(*) from chats) + (select count(*) from messages)"), 0, "rows are left")
	result := p.mustImport(p.user, file)
	is(t, tuple(result.Imported, result.Messages), tuple(1, 1500), "again: %+v", result)
	p.checkCounters()
}
