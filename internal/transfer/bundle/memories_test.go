package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sampleMemory has something in every member.
func sampleMemory() Memory {
	at := func(second int) time.Time { return time.Date(2026, 11, 20, 10, 0, second, 0, time.UTC) }
	return Memory{
		ID: "0198a1f2-7c14-7aa9-b3c8-6d1e0f9a8b74", Content: "Prefers <oat> milk.", MemoryType: "preference", Confidence: new(0.5), Durable: new(true), Pinned: true,
		Status: "superseded", Edited: true, Origin: "extracted", Version: 3, Lang: new("en"), ValidFrom: new(at(1)), ValidTo: new(at(2)),
		ValidPrecision: new("month"),
		RecordedAt:     at(3), RetractedAt: new(at(4)), SupersededBy: new(idOther), CreatedAt: at(5), UpdatedAt: at(6),
		Sources: []MemorySource{{MessageID: idAsk, ChatID: idChat, Seq: 1, Fact: new("Prefers oat milk."), Quote: "line", SaidAt: at(1)},
			{MessageID: idAsk, ChatID: idChat, SaidAt: at(1)}},
	}
}

// A bundle without memories is read by programs that know of none.
func TestBundleWithoutMemoriesIsAsItWas(t *testing.T) {
	t.Parallel()
	for _, text := range []string{sampleOf(t, NewLines), sampleOf(t, NewObject)} {
		assert.Truef(t, !strings.Contains(text, "memories") && !strings.Contains(text, "remember"), "it speaks of memories: %s", text)
	}
}

func TestMemoriesOfAChatAreChecked(t *testing.T) {
	t.Parallel()
	changes{ // of bundle, chat, 3 messages, memory, revision, end
		"no such message": {`"sources":[{"message_id":"` + idAsk, `"sources":[{"message_id":"` + idChat, "message_missing@6"},
		"superseded one":  {`"sources":[{"message_id":"` + idAsk, `"sources":[{"message_id":"` + idReply, "message_missing@6"},
		"no source":       {`"sources":[`, `"sources":[],"other":[`, "message_missing@6"},
		"id":              {`"type":"memory","id":"0198`, `"type":"memory","id":"0`, "bad_uuid@6"},
		"no content":      {`"content":"Prefers <oat> milk."`, `"content":" "`, "bad_length@6"},
		"long content":    {`"content":"Prefers <oat> milk."`, `"content":"` + strings.Repeat("ж", 501) + `"`, "bad_length@6"},
		"type":            {`"preference"`, `"wish"`, "unknown_memory_type@6"},
		"confidence":      {`"confidence":0.5`, `"confidence":1.5`, "out_of_range@6"},
		"status":          {`"superseded"`, `"gone"`, "unknown_status@6"},
		"precision":       {`"month"`, `"week"`, "unknown_precision@6"},
		"quote":           {`"quote":"line"`, `"quote":"` + strings.Repeat("q", 201) + `"`, "bad_length@6"},
		"fact":            {`"fact":"Prefers oat milk."`, `"fact":""`, "bad_length@6"},
		"date":            {`"retracted_at":"2026`, `"retracted_at":"0000`, "bad_date@6"},
		"counts":          {`"memories":1`, `"memories":2`, "wrong_counts@8"},
	}.check(t, withRecord(t, NewLines, Record{Memory: new(sampleMemory())}))
}

func TestFileOfMemoriesReadsBack(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	for range 2 {
		memory := sampleMemory()
		if out.Len() > 0 {
			memory.ID = idOther
		}
		require.NoError(t, WriteMemory(&out, memory))
	}
	assert.True(t, json.Valid([]byte(strings.SplitN(out.String(), "\n", 2)[0])), "the first line is not JSON")
	found, err := readMemories("\xef\xbb\xbf" + strings.ReplaceAll(out.String(), "\n", "\r\n\n"))
	require.Truef(t, err == nil && len(found) == 2, "%+v, %v", found, err)
	assert.Equal(t, sampleMemory(), found[0])
}

func TestFileOfMemoriesMayBeShort(t *testing.T) {
	t.Parallel()
	found, err := readMemories(`{"content": " Plays the cello. ", "type": "pattern", "app": {"x": 1}}` + "\n" + `{"content": "x", "type": "memory"}`)
	want := []Memory{
		{Content: "Plays the cello.", MemoryType: "pattern", Status: "active", Confidence: new(1.0)},
		{Content: "x", MemoryType: "fact", Status: "active", Confidence: new(1.0)},
	}
	require.NoError(t, err)
	assert.Equal(t, want, found)
}

func TestFileOfMemoriesRefusals(t *testing.T) {
	t.Parallel()
	good := `{"content":"x"}` + "\n"
	for text, want := range map[string]string{
		"":                                      "empty@1",
		"\n\n":                                  "empty@2",
		good + "hello":                          "bad_json@2",
		good + "7":                              "wrong_type@2",
		good + `{"content":7}`:                  "wrong_type@2",
		good + `{"content":`:                    "bad_json@2",
		good + `{}`:                             "bad_length@2",
		good + `{"content":"a","id":"7"}`:       "bad_uuid@2",
		good + `{"content":"a","lang":""}`:      "bad_length@2",
		good + `{"content":"a","valid_to":"x"}`: "bad_date@2",
		`{"content":"a","id":"` + idChat + `"}` + "\n" + `{"content":"b","id":"` + strings.ToUpper(idChat) + `"}`: "duplicate_id@2",
		good + `{"content":"` + strings.Repeat("x", maxMemoryRecord) + `"}`:                                       "record_too_long@2",
		strings.Repeat(good, MaxMemories+1):                                                                       "too_many_memories@10001",
	} {
		_, err := readMemories(text)
		if err == nil {
			t.Errorf("%.40q was read", text)
		} else if got := refusal(t, err); got != want {
			t.Errorf("%.40q: %s, want %s", text, got, want)
		}
	}
	cut := errors.New("cut")
	_, err := ReadMemories(brokenFile{cut}, 9, time.Now())
	assert.ErrorIsf(t, err, cut, "%v", err)
}

// brokenFile cannot be read.
type brokenFile struct{ err error }

func (b brokenFile) ReadAt([]byte, int64) (int, error) { return 0, b.err }

func readMemories(text string) ([]Memory, error) {
	found, err := ReadMemories(strings.NewReader(text), int64(len(text)), exportedAt)
	return found.Records, err
}

// In any file, each memory that is read can be written, and is then read as it was.
func FuzzReadMemories(f *testing.F) {
	f.Add(`{"content":"x","confidence":0.1,"valid_from":"2026-01-01T00:00:00Z","sources":[{"message_id":"` + idAsk + `"}]}`)
	f.Add("{\"content\":\"\xff\"}\n\n{")
	for _, name := range foreignFiles(f) {
		f.Add(foreignFile(f, name))
	}
	f.Fuzz(func(t *testing.T, text string) {
		read, err := readMemories(text)
		if err != nil {
			checkRefusal(t, []byte(text), err)
			return
		}
		found := slices.DeleteFunc(read, func(m Memory) bool { return strings.Contains(m.ID, ":") }) // of another program
		if len(found) == 0 {
			return
		}
		var out bytes.Buffer
		for _, memory := range found {
			require.NoError(t, WriteMemory(&out, memory))
		}
		again, err := readMemories(out.String())
		require.NoError(t, err)
		assert.Equal(t, found, again)
	})
}

func foreignFiles(t testing.TB) []string {
	files, err := filepath.Glob("testdata/memories/*")
	require.Truef(t, err == nil && len(files) != 0, "%v %v", files, err)
	return files
}

func foreignFile(t testing.TB, name string) string {
	text, err := os.ReadFile(name)
	require.NoError(t, err)
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
		assert.Equalf(t, c.want, got, "%s", name)
	}
}

// One object per line is read as well, whichever program wrote them.
func TestMemoriesOfOtherProgramsLineByLine(t *testing.T) {
	t.Parallel()
	found, err := readMemories(`{"id": 7, "memory": "a", "created_at": "2025-01-01"}` + "\n" +
		`{"uuid": "z", "fact": "b", "valid_at": null, "created_at": ""}` + "\n" + `{"content": "c"}`)
	assert.Truef(t, err == nil && len(found) == 3 && found[0].ID == "mem0:7" && found[1].ID == "zep:z" && found[2].ID == "", "%+v, %v", found, err)
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
		assert.Truef(t, err == nil && cmp.Diff(want, found.Refused) == "" && len(found.Records) == 2, "%.40q: %v, %v", text, found, err)
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
	assert.Truef(t, err == nil && len(found) == 1 && found[0].Content == "b \ufffd", "%+v, %v", found, err)
}
