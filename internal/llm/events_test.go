package llm

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
)

// readEvents returns the kind and data of each event.
func readEvents(stream io.Reader) ([][2]string, error) {
	e := newEventReader(io.NopCloser(stream), func() {})
	var found [][2]string
	for e.next() {
		found = append(found, [2]string{string(e.kind), string(e.data)})
	}
	return found, e.err()
}

func TestEvents(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long ", 1<<18) // more than a megabyte
	for name, c := range map[string]struct {
		stream string
		want   [][2]string
	}{
		"nothing":                     {"", nil},
		"one":                         {"event: a\ndata: {}\n\n", [][2]string{{"a", "{}"}}},
		"CRLF":                        {"event: a\r\ndata: {}\r\n\r\n", [][2]string{{"a", "{}"}}},
		"no space after the colon":    {"event:a\ndata:{}\n\n", [][2]string{{"a", "{}"}}},
		"one space of two is dropped": {"data:  x\n\n", [][2]string{{"", " x"}}},
		"data in several lines":       {"data: x\ndata: y\n\n", [][2]string{{"", "x\ny"}}},
		"a byte order mark":           {"\uFEFFdata: x\n\ndata: \uFEFFy\n\n", [][2]string{{"", "x"}, {"", "\uFEFFy"}}},
		"comments and other fields":   {": hello\nid: 7\nretry: 3\nevent: a\ndata: x\n\n", [][2]string{{"a", "x"}}},
		"an event without data":       {"event: a\n\ndata: x\n\n", [][2]string{{"", "x"}}},
		"the kind of one event alone": {"event: a\ndata: x\n\ndata: y\n\n", [][2]string{{"a", "x"}, {"", "y"}}},
		"a long line":                 {"data: " + long + "\n\ndata: x\n\n", [][2]string{{"", long}, {"", "x"}}},
		"cut off in mid event":        {"data: x\n\ndata: y\n", [][2]string{{"", "x"}}},
		"cut off in mid line":         {"data: x\n\ndata: y", [][2]string{{"", "x"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, stream := range []io.Reader{strings.NewReader(c.stream), iotest.OneByteReader(strings.NewReader(c.stream))} {
				got, err := readEvents(stream)
				diff := cmp.Diff(c.want, got)
				assert.Truef(t, diff == "" && err == nil, "%v\n%s", err, diff)
			}
		})
	}
}

func TestEventsBreakOff(t *testing.T) {
	t.Parallel()
	reset := errors.New("connection reset")
	got, err := readEvents(io.MultiReader(strings.NewReader("data: x\n\ndata: y"), iotest.ErrReader(reset)))
	assert.Truef(t, len(got) == 1 && errors.Is(err, reset), "%v, %v", got, err)
	got, err = readEvents(io.MultiReader(strings.NewReader("data: x\n\ndata: "), &zeros{left: longestLine + 1<<20}))
	assert.Truef(t, len(got) == 1 && errors.Is(err, bufio.ErrTooLong), "%d events, %v", len(got), err)
}

// zeros is a reader of a long line without an end.
type zeros struct{ left int }

func (z *zeros) Read(p []byte) (int, error) {
	if z.left <= 0 {
		return 0, io.EOF
	}
	n := min(len(p), z.left)
	for i := range n {
		p[i] = '0'
	}
	z.left -= n
	return n, nil
}

// A comment is a sign of life, and so is an event without data. A part of a line is none.
func TestEventsTellThatTheServerIsAlive(t *testing.T) {
	t.Parallel()
	for stream, want := range map[string]int{
		"data: x\n\n": 1, ": thinking\n": 1, ":\r\n": 1, ": thinking\n\n": 2, "event: ping\n\n": 1, "data: x\n": 0, ": think": 0, "": 0,
	} {
		calls := 0
		e := newEventReader(io.NopCloser(strings.NewReader(stream)), func() { calls++ })
		for e.next() {
		}
		assert.Truef(t, calls == want, "%q: %d signs of life, want %d", stream, calls, want)
	}
}

func FuzzEvents(f *testing.F) {
	f.Add("event: a\ndata: x\n\n: c\r\ndata\n\n\n")
	f.Fuzz(func(t *testing.T, stream string) {
		whole, err := readEvents(strings.NewReader(stream))
		assert.NoError(t, err)
		pieces, err := readEvents(iotest.OneByteReader(strings.NewReader(stream)))
		assert.Truef(t, err == nil && cmp.Equal(whole, pieces), "%q, in pieces %q, %v", whole, pieces, err)
	})
}
