package bundle

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func foreignFiles(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/memories/*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	return files
}

func foreignFile(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// said is a memory in a line.
func said(m Memory) string {
	day := func(date *time.Time) string {
		if date == nil {
			return "-"
		}
		return date.UTC().Format("2006-01-02")
	}
	line := fmt.Sprintf("%s | %s %s | %s to %s, until %s, since %s", m.Content, m.MemoryType, m.Status, day(m.ValidFrom), day(m.ValidTo),
		day(m.RetractedAt), day(&m.CreatedAt))
	if m.Edited {
		line += ", edited"
	}
	return m.ID + " | " + line
}

func TestMemoriesOfOtherPrograms(t *testing.T) {
	t.Parallel()
	const none = "since 0001-01-01"
	for name, c := range map[string]struct {
		format Format
		want   []string
	}{
		"mem0_results.json": {FormatMem0, []string{
			"mem0:7b5b1e0e-6f0d-4f3c-9a57-0d1f5f9f2c11 | Allergic to walnuts | fact active | - to -, until -, since 2025-02-26, edited",
			"mem0:e1c0a9d2-94a5-4f0c-8f7e-5a3c1a4a7c02 | Prefers tea over coffee | preference active | - to -, until -, since 2025-03-01",
			"mem0:0f9b7a52-2f7d-4b86-8a0c-1c2f1d6d7f03 | Has a guest pass for the gym | fact superseded | - to 2025-12-31, until 2025-12-31, since 2025-11-01",
		}},
		"mem0_v1.json": {FormatMem0, []string{
			"mem0:m1 | Works at TechCorp | fact active | - to -, until -, since 2023-11-07",
			"mem0:m2 | Runs every morning | pattern active | - to -, until -, since 2023-11-08",
		}},
		"mem0_export.json": {FormatMem0, []string{" | Leads the API redesign | context active | - to -, until -, " + none}},
		"zep_edges.json": {FormatZep, []string{
			"zep:5a1f8c0e-31a5-4c58-8f2f-2f1f3b5a9d01 | Emily lives in Lyon. | fact superseded | 2024-05-01 to 2025-03-01, until 2025-03-02, since 2025-01-10",
			"zep:5a1f8c0e-31a5-4c58-8f2f-2f1f3b5a9d02 | Emily lives in Porto. | fact active | 2025-03-01 to -, until -, since 2025-03-02",
		}},
		"zep_facts.json": {FormatZep, []string{"zep:f-1 | The user owns a cello. | fact active | - to -, until -, since 2024-06-01"}},
		"chatgpt_memories.json": {FormatChatGPTBio, []string{
			"chatgpt:mem_01 | Is learning the cello. | fact active | - to -, until -, since 2025-04-01",
			"chatgpt:mem_02 | Has a dog named Bruno. | fact archived | - to -, until -, since 2025-04-01",
		}},
		"chatgpt_list.txt": {FormatList, []string{
			" | Saved memories | fact active | - to -, until -, " + none,
			" | Is learning the cello. | fact active | - to -, until -, " + none,
			" | Has a dog named Bruno. | fact active | - to -, until -, " + none,
			" | Prefers short answers. | fact active | - to -, until -, " + none,
			" | Lives in Köln. | fact active | - to -, until -, " + none,
			" | 2024 was spent in Lyon. | fact active | - to -, until -, " + none,
		}},
	} {
		text := foreignFile(t, filepath.Join("testdata/memories", name))
		found, err := ReadMemories(strings.NewReader(text), int64(len(text)), exportedAt)
		if err != nil || found.Format != c.format || len(found.Refused) != 0 {
			t.Errorf("%s: %s, %v, %v", name, found.Format, found.Refused, err)
			continue
		}
		var got []string
		for _, m := range found.Records {
			got = append(got, said(m))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// One object per line is read as well, whichever program wrote them.
func TestMemoriesOfOtherProgramsLineByLine(t *testing.T) {
	t.Parallel()
	found, err := readMemories(`{"id": 7, "memory": "a", "created_at": "2025-01-01"}` + "\n" +
		`{"uuid": "z", "fact": "b", "valid_at": null, "created_at": ""}` + "\n" + `{"content": "c"}`)
	if err != nil || len(found) != 3 || found[0].ID != "mem0:7" || found[1].ID != "zep:z" || found[2].ID != "" {
		t.Errorf("%+v, %v", found, err)
	}
}

// A memory that is too long does not keep the others out.
func TestLongMemoriesOfOtherProgramsAreLeftOut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ж", maxMemory+1)
	for text, want := range map[string][]RefusedMemory{
		"[\n{\"memory\":\"a\"},\n{\"memory\":\"" +
			long + "\"},{\"memory\":\" \"},\n\n {\"memory\":\"b\"}]": {{Line: 3, Reason: "bad_length"}, {Line: 3, Reason: "bad_length"}},
		"a\n" + long + "\nb": {{Line: 2, Reason: "bad_length"}},
		`{"memory":"a"}` + "\n" + `{"memory":"b"}` + "\n" + `{"fact":"` + long + `"}`: {{Line: 3, Reason: "bad_length"}},
	} {
		found, err := ReadMemories(strings.NewReader(text), int64(len(text)), exportedAt)
		if diff := cmp.Diff(want, found.Refused); err != nil || diff != "" || len(found.Records) != 2 {
			t.Errorf("%.40q: %v, %v", text, found, err)
		}
	}
}

func TestMemoriesOfOtherProgramsRefusals(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"[]":                  "empty@1",
		`{"results": []}`:     "empty@1",
		`{"results": 7}`:      "wrong_type@1",
		`{"results": [7]}`:    "wrong_type@1",
		"[\n{}]":              "bad_length@2",
		"[\n{\"memory\": 7}]": "wrong_type@2",
		`[{"memory": "a"}`:    "bad_json@1",
		`[{"memory": "a"}] x`: "bad_json@1",
		`[{"memory": "a", "id": "1"}, {"memory": "b", "id": "1"}]`:                        "duplicate_id@1",
		"[{\"memory\": \"a\", \"user_id\": \"u\"},\n{\"memory\": \"b\", \"user_id\": 2}]": "several_users@2",
		`[{"memory": "a", "created_at": "yesterday"}]`:                                    "bad_date@1",
		`[{"memory": "a", "created_at": 1e300}]`:                                          "bad_date@1",
		`[{"memory": "a", "created_at": 1e999}]`:                                          "bad_date@1",
		`[{"memory": "a", "created_at": {}}]`:                                             "bad_date@1",
		`[{"memory": "` + strings.Repeat("x", maxMemoryRecord) + `"}]`:                    "record_too_long@1",
		"<html>\nLives in Lyon.":                                                          "unknown_format@1",
		"PK\x03\x04":                                                                      "unknown_format@1",
		strings.Repeat("a\n", MaxMemories+1):                                              "too_many_memories@10001",
	} {
		_, err := readMemories(text)
		if err == nil {
			t.Errorf("%.40q was read", text)
		} else if got := refusal(t, err); got != want {
			t.Errorf("%.40q: %s, want %s", text, got, want)
		}
	}
}

// Of a member that is there twice the last counts, half a surrogate pair becomes U+FFFD.
func TestOddMemoriesOfOtherPrograms(t *testing.T) {
	t.Parallel()
	found, err := readMemories(`[{"memory": "a", "memory": "b \ud800"}]`)
	if err != nil || len(found) != 1 || found[0].Content != "b \ufffd" {
		t.Errorf("%+v, %v", found, err)
	}
}
