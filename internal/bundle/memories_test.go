package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
		if strings.Contains(text, "memories") || strings.Contains(text, "remember") {
			t.Errorf("it speaks of memories: %s", text)
		}
	}
}

func TestMemoriesOfAChatAreChecked(t *testing.T) {
	t.Parallel()
	changes{ // of bundle, chat, 3 messages, memory, revision, end
		"no such message": {`"sources":[{"message_id":"` + idAsk, `"sources":[{"message_id":"` + idChat, "message_missing@6"},
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
		if err := WriteMemory(&out, memory); err != nil {
			t.Fatal(err)
		}
	}
	if !json.Valid([]byte(strings.SplitN(out.String(), "\n", 2)[0])) {
		t.Error("the first line is not JSON")
	}
	found, err := readMemories("\xef\xbb\xbf" + strings.ReplaceAll(out.String(), "\n", "\r\n\n"))
	if err != nil || len(found) != 2 {
		t.Fatalf("%+v, %v", found, err)
	}
	if diff := cmp.Diff(sampleMemory(), found[0]); diff != "" {
		t.Error(diff)
	}
}

func TestFileOfMemoriesMayBeShort(t *testing.T) {
	t.Parallel()
	found, err := readMemories(`{"content": " Plays the cello. ", "type": "pattern", "app": {"x": 1}}` + "\n" + `{"content": "x", "type": "memory"}`)
	want := []Memory{
		{Content: "Plays the cello.", MemoryType: "pattern", Status: "active", Confidence: new(1.0)},
		{Content: "x", MemoryType: "fact", Status: "active", Confidence: new(1.0)},
	}
	if diff := cmp.Diff(want, found); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
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
	if _, err := ReadMemories(brokenFile{cut}, 9, time.Now()); !errors.Is(err, cut) {
		t.Errorf("%v", err)
	}
}

// brokenFile cannot be read.
type brokenFile struct{ err error }

func (b brokenFile) ReadAt([]byte, int64) (int, error) { return 0, b.err }

func readMemories(text string) ([]Memory, error) {
	found, err := ReadMemories(strings.NewReader(text), int64(len(text)), exportedAt)
	return found.Records, err
}

// Whatever a file is: each memory that is read can be written, and is then read as it was.
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
			if err := WriteMemory(&out, memory); err != nil {
				t.Fatal(err)
			}
		}
		again, err := readMemories(out.String())
		if diff := cmp.Diff(found, again); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
	})
}
