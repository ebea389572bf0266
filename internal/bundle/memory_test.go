package bundle

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/uuid"
)

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
	if err != nil {
		t.Fatal(err)
	}
	before, after := heap(), uint64(0)
	for record, err := range all {
		if err != nil {
			t.Fatal(err)
		}
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
