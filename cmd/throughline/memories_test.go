package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/internal/testkit"
)

func TestMemoriesOnTheCommandLine(t *testing.T) {
	t.Parallel()
	r := newTalkRig(t, nil)
	if got := r.wantRun("memories", "list"); got != "" {
		t.Errorf("of nothing: %q", got)
	}
	user := testkit.Ask[string](t, r.pool, "select id::text from auth.users limit 1")
	testkit.Exec(t, r.pool, "insert into memory_users (user_id) values ($1)", user)
	testkit.Exec(t, r.pool, `insert into memories (user_id, content, memory_type, created_at) select $1, v.content, 'preference', now() - v.age * interval '1 day'
		from (values ('Plays the cello.', 3), ('Her knee'||chr(27)||'[2J hurts.', 2), ('Prefers oat milk.', 1)) v (content, age)`, user)
	list := strings.Split(strings.TrimSpace(r.wantRun("memories", "list")), "\n")
	if len(list) != 3 || !strings.HasSuffix(list[1], "  Her knee hurts.  (preference)") {
		t.Fatalf("the list is %q", list)
	}
	if got := r.wantRun("memories", "list", "--limit", "1"); strings.Count(got, "\n") != 1 {
		t.Errorf("one: %q", got)
	}
	if got := r.wantRun("memories", "list", "--about", "knees", "--status", "all"); strings.Count(got, "\n") != 1 {
		t.Errorf("about knees: %q", got)
	}
	var page struct{ Memories []struct{ Content string } }
	if err := json.Unmarshal([]byte(r.wantRun("memories", "list", "--json")), &page); err != nil || len(page.Memories) != 3 {
		t.Errorf("%+v, %v", page, err)
	}
	file := filepath.Join(t.TempDir(), "memories.jsonl")
	r.wantRun("memories", "export", "-o", file)
	written, err := os.ReadFile(file)
	if printed := r.wantRun("memories", "export"); err != nil || printed != string(written) || strings.Count(printed, "\n") != 3 {
		t.Errorf("exported %q, %v", written, err)
	}
	r.wantRefusal(exitUsage, "shows the ids", "memories", "forget")
	r.wantRefusal(exitUsage, "--limit", "memories", "list", "--limit", "-1")
	r.wantRefusal(exitFailed, "validation_failed", "memories", "list", "--status", "gone")
	r.wantRefusal(exitFailed, "memory_not_found", "memories", "forget", "0198a1f2-7c11-7d3e-9a44-5b0e6f1c2d31", "--yes")
	if got := r.wantRun("memories", "forget", "my knee", "--yes"); got != "1 memory was forgotten.\n" {
		t.Errorf("%q", got)
	}
	if got := r.wantRun("memories", "forget", "unicorns", "--yes"); got != "Nothing is remembered of that.\n" {
		t.Errorf("%q", got)
	}
	id, _, _ := strings.Cut(list[0], " ")
	if got := r.wantRun("memories", "forget", id, "--yes"); got != "1 memory was forgotten.\n" {
		t.Errorf("%q", got)
	}
	if left := testkit.Ask[string](t, r.pool, "select string_agg(content, ',') from memories"); left != "Plays the cello." {
		t.Errorf("left is %q", left)
	}
}

func TestAnAccountOnTheCommandLine(t *testing.T) {
	t.Parallel()
	r := &talkRig{rig: newRig(t, nil)}
	r.server = r.start(env{"LONG_TERM_MEMORY": "true"}, "serve")
	r.talker = env{"THROUGHLINE_TOKEN": r.token}
	list := filepath.Join(t.TempDir(), "memories.txt")
	if err := os.WriteFile(list, []byte("- Plays the cello.\n- "+strings.Repeat("x", 501)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := r.wantRun("memories", "import", list); got != "1 imported, 0 skipped, from list\nline 2 is left out: bad_length\n" {
		t.Errorf("%q", got)
	}
	if got := r.wantRun("memories", "import", list, "--json"); !strings.Contains(got, `"imported":0,"skipped":1`) {
		t.Errorf("%q", got)
	}
	file := filepath.Join(t.TempDir(), "account.jsonl")
	r.wantRun("export", "-o", file)
	if got := r.wantRun("import", file); got != "0 imported, 0 skipped, 0 messages\n0 memories imported, 1 skipped\n" {
		t.Errorf("%q", got)
	}
	r.wantRefusal(exitUsage, "no such file", "memories", "import", "nowhere.jsonl")
}
