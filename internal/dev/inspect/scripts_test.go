package inspect_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// psql runs one of the scripts for people.
func (s story) psql(t *testing.T, script string, variables ...string) string {
	t.Helper()
	// A person's psql is a session; and libpq refuses the mark of a pooler.
	args := []string{"-X", s.database.Direct(), "-v", "ON_ERROR_STOP=1", "-P", "pager=off", "-P", "footer=off"}
	for _, variable := range variables {
		args = append(args, "-v", variable)
	}
	cmd := exec.CommandContext(t.Context(), "psql", append(args, "-f", filepath.Join("..", "..", "..", "sql", "inspect", script))...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

func TestScriptsAnswerTheirQuestions(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("psql"); err != nil {
		t.Fatal("psql is not installed: scripts/setup test installs it")
	}
	s := tell(t)
	chat, user := "chat="+s.chat, "user="+s.user
	for script, c := range map[string]struct {
		variables []string
		want      []string
	}{
		"chats.sql":         {nil, []string{s.chat, "600 | f"}},
		"brief.sql":         {[]string{chat}, []string{"She plays the cello. She practises at noon."}},
		"buffer.sql":        {[]string{chat, "threshold=100", "k=1"}, []string{"tokens_to_go", "640 |            0 |           0 | t ", "question 5", "question 6"}},
		"revisions.sql":     {[]string{chat}, []string{"turns_tokens", "| - | She practises at night.", "| + | She practises at noon."}},
		"covered_turns.sql": {[]string{chat, "version=2"}, []string{"question 3", "question 4", "answer 4"}},
		"why.sql": {[]string{"message=" + s.reply}, []string{"question 6", "brief_version", "| 2", "practises at noon", "tail", "question 5",
			"| Plays the cello at noon |", "2026-03-14: I play the cello", s.memory, "recalled", "question 1", "message 1"}},
		"late_folds.sql": {[]string{"threshold=500", "k=1"}, []string{s.chat, "the buffer is over the threshold", "640"}},
		"unindexed.sql":  {nil, []string{s.chat, "its brief covers them: the next sweep indexes them"}},
		"memories.sql":   {[]string{user}, []string{s.memory, "fact | Plays the cello at noon", "0.90", "2026-02-01", "Plays the viola"}},
		"memory.sql": {[]string{"memory=" + s.memory}, []string{"Plays the cello at noon", "{User,cello}", "I play the cello",
			"model | ADD    | Plays the cello ", "nothing like it", "user  | EDIT   | Plays the cello at noon"}},
		"extractions.sql": {[]string{chat}, []string{`{"secret": 1, "no_quote": 2}`, "1400", "extract@1", "nothing is due: words of an import", "4"}},
		"unextracted.sql": {nil, []string{s.chat, "nothing is due: words of an import", "4"}},
		"topics.sql": {[]string{chat, "half_life=12h"}, []string{"Cello", "archived", "0.50", "0.50", "0.250", "60.0", "Turns without a topic of their own:",
			"no job: the next sweep inserts one"}},
		"graph.sql":           {[]string{user}, []string{"User   | plays        | cello  | tool", "2026-02-01", "Plays the cello at noon"}},
		"near_duplicates.sql": {[]string{user}, []string{"1.00 | Plays the cello at noon | At noon (plays) the cello"}},
		"tokens_by_day.sql":   {[]string{"days=1"}, []string{"extract", "1400", "fold", "small", "2000", "reply", "big", "5400", "3072", "memory_percent"}},
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			wantLines(t, s.psql(t, script, c.variables...), c.want...)
		})
	}
	scripts, err := filepath.Glob(filepath.Join("..", "..", "..", "sql", "inspect", "*.sql"))
	if err != nil || len(scripts) != 16 {
		t.Errorf("%d scripts, 16 are tested (%v)", len(scripts), err)
	}
}

// A script that is started without what it needs says so instead of asking about nothing.
func TestScriptsSayWhatTheyNeed(t *testing.T) {
	t.Parallel()
	s := tell(t)
	for _, script := range []string{"brief.sql", "buffer.sql", "revisions.sql", "covered_turns.sql", "why.sql", "memories.sql", "memory.sql",
		"extractions.sql", "graph.sql", "near_duplicates.sql", "topics.sql"} {
		if out := s.psql(t, script); !strings.HasPrefix(out, "usage: ") || strings.Count(out, "\n") != 1 {
			t.Errorf("%s: %s", script, out)
		}
	}
	if out := s.psql(t, "covered_turns.sql", "chat="+s.chat); !strings.HasPrefix(out, "usage: ") {
		t.Errorf("covered_turns.sql without a version: %s", out)
	}
	wantLines(t, s.psql(t, "late_folds.sql"), "late_by")
	if out := s.psql(t, "late_folds.sql", "threshold=640", "k=1"); strings.Contains(out, s.chat) {
		t.Errorf("a chat at the threshold, not over it, is late: %s", out)
	}
}
