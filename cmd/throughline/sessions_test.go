package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// wantRun runs a command that must succeed and gives what it printed.
func (r *talkRig) wantRun(args ...string) string {
	code, stdout, stderr := r.finish(args...)
	require.Truef(r.t, code == exitDone, "%v: %d %s", args, code, stderr)
	return stdout
}

func (r *talkRig) wantRefusal(code int, says string, args ...string) {
	got, stdout, stderr := r.finish(args...)
	assert.Truef(r.t, got == code && stdout == "" && strings.Contains(stderr, says),
		"%v: %d %q %q", args, got, stdout, stderr)
}

func TestSessions(t *testing.T) {
	t.Parallel()
	r := newTalkRig(t, testkit.InOrder(offline.Answer{Text: "Noted \x1b[31mwell."}))
	assert.Equal(t, "", r.wantRun("sessions", "list"), "of nothing")
	id := r.server.Say("", "Remember me.").ChatID
	other := r.server.Say("", "Another\x1b[2J chat.").ChatID
	list := strings.Split(strings.TrimSpace(r.wantRun("sessions", "list")), "\n")
	if len(list) != 2 || !strings.HasPrefix(list[0], other+"  ") || !strings.HasSuffix(list[0], "  1 turn  Another chat.") || !strings.HasPrefix(list[1], id) {
		t.Errorf("the list is %q", list)
	}
	got := r.wantRun("sessions", "list", "--limit", "1")
	assert.Equalf(t, 1, strings.Count(got, "\n"), "one: %q", got)
	var page struct{ Chats []struct{ ID string } }
	err := json.Unmarshal([]byte(r.wantRun("sessions", "list", "--json")), &page)
	assert.Truef(t, err == nil && len(page.Chats) == 2 && page.Chats[1].ID == id, "%+v, %v", page, err)
	for _, args := range [][]string{{"sessions", "show", id}, {"sessions", "show", "--", id}} {
		got := r.wantRun(args...)
		assert.Truef(t, strings.Contains(got, "you> Remember me.\nreply> Noted well.\n") && strings.Contains(got, "strategy summary, 2 messages\n"),
			"%v: %q", args, got)
	}
	lines := strings.Split(r.wantRun("sessions", "show", id, "--json"), "\n")
	assert.Truef(t, len(lines) == 3 && json.Valid([]byte(lines[0])) && json.Valid([]byte(lines[1])),
		"show --json: %q", lines)
	r.wantRefusal(exitUsage, "say --yes", "sessions", "prune", "--older-than-days", "1")
	assert.Equal(t, "deleted "+id+"\n", r.wantRun("sessions", "delete", id, "--yes"), "delete")
	r.wantRefusal(exitFailed, "chat_not_found", "sessions", "show", id)
	r.wantRefusal(exitFailed, "chat_not_found", "sessions", "delete", id, "--yes")
	testkit.Exec(t, r.pool, "update chats set created_at = now() - interval '9 days', last_message_at = now() - interval '8 days'")
	assert.Equal(t, "would delete 1 chats with 2 messages\n", r.wantRun("sessions", "prune", "--older-than-days", "7", "--dry-run"),
		"dry run")
	assert.Equal(t, "deleted 0 chats with 0 messages\n", r.wantRun("sessions", "prune", "--older-than-days", "9", "--yes"),
		"nothing so old")
	assert.Equal(t, "deleted 1 chats with 2 messages\n", r.wantRun("sessions", "prune", "--older-than-days", "7", "--yes"),
		"prune")
}

// below is an export without its first line, which tells the time.
func below(export string) string {
	_, rest, _ := strings.Cut(export, "\n")
	return rest
}

func TestSessionsExportAndImport(t *testing.T) {
	t.Parallel()
	r := newTalkRig(t, testkit.InOrder(offline.Answer{Text: "Noted."}))
	id := r.server.Say("", "Remember me.").ChatID
	folder := t.TempDir()
	file := filepath.Join(folder, "chat.jsonl")
	assert.Equal(t, "", r.wantRun("sessions", "export", id, "-o", file), "export")
	written, err := os.ReadFile(file)
	assert.Truef(t, err == nil && below(string(written)) == below(r.wantRun("sessions", "export", id)) && strings.Contains(string(written), "Noted."),
		"%q, %v", written, err)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	r.wantRefusal(exitFailed, "chat_not_found", "sessions", "export", "00000000-0000-4000-8000-00000000dead", "-o", file)
	r.wantRefusal(exitFailed, "validation_failed", "sessions", "export", id, "--format", "pdf", "-o", file)
	if after, err := os.ReadFile(file); err != nil || string(after) != string(written) {
		t.Errorf("the file is now %q, %v", after, err)
	}
	entries, _ := os.ReadDir(folder)
	assert.Equalf(t, 1, len(entries), "left over: %v", entries)

	r.wantRun("sessions", "delete", id, "--yes")
	got := r.wantRun("sessions", "import", file)
	assert.Truef(t, strings.HasSuffix(got, ": 2 messages\n1 imported, 0 skipped, 2 messages\n"), "import: %q", got)
	cmd := r.program("sessions", "import", "--json")
	cmd.Stdin = strings.NewReader(string(written))
	out, err := cmd.Output()
	var done struct{ Imported, Skipped int }
	assert.Truef(t, err == nil && json.Unmarshal(out, &done) == nil && done.Imported == 0 && done.Skipped == 1,
		"again, from stdin: %s %v", out, err)
	broken := filepath.Join(folder, "broken.jsonl")
	require.NoError(t, os.WriteFile(broken, []byte("no chat\n"), 0o600))
	code, stdout, stderr := r.finish("sessions", "import", broken)
	assert.Truef(t, code == exitFailed && stdout == "" && strings.Contains(stderr, "import_invalid"),
		"a broken file: %d %q %q", code, stdout, stderr)
}

// Deleting asks, where somebody is there.
func TestSessionsAsk(t *testing.T) {
	t.Parallel()
	r := newTalkRig(t, testkit.InOrder(offline.Answer{Text: "Noted."}))
	id := r.server.Say("", "Remember me.").ChatID
	s := sit(t, r.program("sessions", "delete", id))
	s.until("for good? [y/N] ")
	s.press("n\n")
	s.until("nothing was deleted")
	s.ends(exitFailed)
	testkit.Exec(t, r.pool, "update chats set created_at = now() - interval '9 days', last_message_at = now() - interval '8 days'")
	s = sit(t, r.program("sessions", "prune", "--older-than-days", "7"))
	s.until("Delete 1 chats with 2 messages for good? [y/N] ")
	s.press("yes\n")
	s.until("deleted 1 chats with 2 messages")
	s.ends(exitDone)
}

func TestMemoriesOnTheCommandLine(t *testing.T) {
	t.Parallel()
	r := newTalkRig(t, nil)
	assert.Equal(t, "", r.wantRun("memories", "list"), "of nothing")
	user := testkit.Ask[string](t, r.pool, "select id::text from auth.users limit 1")
	testkit.Exec(t, r.pool, "insert into memory_users (user_id) values ($1)", user)
	testkit.Exec(t, r.pool, `insert into memories (user_id, content, memory_type, created_at) select $1, v.content, 'preference', now() - v.age * interval '1 day'
		from (values ('Plays the cello.', 3), ('Her knee'||chr(27)||'[2J hurts.', 2), ('Prefers oat milk.', 1)) v (content, age)`, user)
	list := strings.Split(strings.TrimSpace(r.wantRun("memories", "list")), "\n")
	require.Truef(t, len(list) == 3 && strings.HasSuffix(list[1], "  Her knee hurts.  (preference)"),
		"the list is %q", list)
	got := r.wantRun("memories", "list", "--limit", "1")
	assert.Equalf(t, 1, strings.Count(got, "\n"), "one: %q", got)
	got = r.wantRun("memories", "list", "--about", "knees", "--status", "all")
	assert.Equalf(t, 1, strings.Count(got, "\n"), "about knees: %q", got)
	var page struct{ Memories []struct{ Content string } }
	if err := json.Unmarshal([]byte(r.wantRun("memories", "list", "--json")), &page); err != nil || len(page.Memories) != 3 {
		t.Errorf("%+v, %v", page, err)
	}
	file := filepath.Join(t.TempDir(), "memories.jsonl")
	r.wantRun("memories", "export", "-o", file)
	written, err := os.ReadFile(file)
	printed := r.wantRun("memories", "export")
	assert.Truef(t, err == nil && printed == string(written) && strings.Count(printed, "\n") == 3,
		"exported %q, %v", written, err)
	r.wantRefusal(exitUsage, "shows the ids", "memories", "forget")
	r.wantRefusal(exitUsage, "--limit", "memories", "list", "--limit", "-1")
	r.wantRefusal(exitFailed, "validation_failed", "memories", "list", "--status", "gone")
	r.wantRefusal(exitFailed, "memory_not_found", "memories", "forget", "0198a1f2-7c11-7d3e-9a44-5b0e6f1c2d31", "--yes")
	assert.Equal(t, "1 memory was forgotten.\n", r.wantRun("memories", "forget", "my knee", "--yes"))
	assert.Equal(t, "Nothing is remembered of that.\n", r.wantRun("memories", "forget", "unicorns", "--yes"))
	id, _, _ := strings.Cut(list[0], " ")
	assert.Equal(t, "1 memory was forgotten.\n", r.wantRun("memories", "forget", id, "--yes"))
	assert.Equal(t, "Plays the cello.", testkit.Ask[string](t, r.pool, "select string_agg(content, ',') from memories"),
		"left")
}

func TestAnAccountOnTheCommandLine(t *testing.T) {
	t.Parallel()
	r := &talkRig{rig: newRig(t, nil)}
	r.server = r.start(env{"LONG_TERM_MEMORY": "true"}, "serve")
	r.talker = env{"THROUGHLINE_TOKEN": r.token}
	list := filepath.Join(t.TempDir(), "memories.txt")
	require.NoError(t, os.WriteFile(list, []byte("- Plays the cello.\n- "+strings.Repeat("x", 501)+"\n"), 0o600))
	assert.Equal(t, "1 imported, 0 skipped, from list\nline 2 is left out: bad_length\n",
		r.wantRun("memories", "import", list))
	got := r.wantRun("memories", "import", list, "--json")
	assert.Containsf(t, got, `"imported":0,"skipped":1`, "%q", got)
	file := filepath.Join(t.TempDir(), "account.jsonl")
	r.wantRun("export", "-o", file)
	assert.Equal(t, "0 imported, 0 skipped, 0 messages\n0 memories imported, 1 skipped\n", r.wantRun("import", file))
	r.wantRefusal(exitUsage, "no such file", "memories", "import", "nowhere.jsonl")
}
