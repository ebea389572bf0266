package topics

import (
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

// unzipped reads an archive as others do.
func unzipped(t *testing.T, entries []Entry) string {
	t.Helper()
	archive, err := Archive(entries)
	if err != nil || !strings.HasPrefix(archive, "H4sI") {
		t.Fatalf("%q, %v", archive, err)
	}
	zip, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(archive)))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(zip)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// What others read: S0's MessageEntry, as Python writes it.
func TestTheFormOfAnArchive(t *testing.T) {
	t.Parallel()
	got := unzipped(t, []Entry{NewEntry("user", "<Hello>", time.UnixMicro(1234567890_000000)), NewEntry("assistant", "Hi!", time.UnixMicro(1772528400_123456))})
	const want = `[{"role":"user","content":"<Hello>","timestamp":1234567890},{"role":"assistant","content":"Hi!","timestamp":1772528400.123456}]`
	if got != want {
		t.Errorf("%s", got)
	}
}

// An archive holds what was said, to the microsecond.
func FuzzArchive(f *testing.F) {
	f.Add("user", "Hello", int64(1234567890_000000))
	f.Add("assistant", "\x00\xff<>&\u2028", int64(-1))
	f.Add("user", "Which rosin? <b>\"dark\"</b> & \u2028 é 🎻\n", int64(4102444800_000001))
	f.Fuzz(func(t *testing.T, role, content string, micros int64) {
		const century = 100 * 365 * 24 * 3600 * 1_000_000
		said := []Entry{NewEntry(strings.ToValidUTF8(role, "?"), strings.ToValidUTF8(content, "?"), time.UnixMicro(micros%century))}
		var got []Entry
		if err := json.Unmarshal([]byte(unzipped(t, said)), &got); err != nil || !reflect.DeepEqual(got, said) {
			t.Errorf("%v: %+v, not %+v", err, got, said)
		}
		if math.Round(said[0].Timestamp*1e6) != float64(micros%century) {
			t.Errorf("%d: %v", micros, said[0].Timestamp)
		}
	})
}
