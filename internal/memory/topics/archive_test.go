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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// unzipped reads an archive as others do.
func unzipped(t *testing.T, entries []Entry) string {
	t.Helper()
	archive, err := Archive(entries)
	require.Truef(t, err == nil && strings.HasPrefix(archive, "H4sI"), "%q, %v", archive, err)
	zip, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(archive)))
	require.NoError(t, err)
	raw, err := io.ReadAll(zip)
	require.NoError(t, err)
	return string(raw)
}

// What others read: S0's MessageEntry, as Python writes it.
func TestTheFormOfAnArchive(t *testing.T) {
	t.Parallel()
	got := unzipped(t, []Entry{NewEntry("user", "<Hello>", time.UnixMicro(1234567890_000000)), NewEntry("assistant", "Hi!", time.UnixMicro(1772528400_123456))})
	const want = `[{"role":"user","content":"<Hello>","timestamp":1234567890},{"role":"assistant","content":"Hi!","timestamp":1772528400.123456}]`
	assert.Equal(t, want, got)
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
		err := json.Unmarshal([]byte(unzipped(t, said)), &got)
		assert.Truef(t, err == nil && reflect.DeepEqual(got, said), "%v: %+v, not %+v", err, got, said)
		assert.Equalf(t, float64(micros%century), math.Round(said[0].Timestamp*1e6), "%d: %v", micros, said[0].Timestamp)
	})
}
