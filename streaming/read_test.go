package streaming

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// readEvents returns the name, the id and the data of each event.
func readEvents(stream io.Reader, longest int) ([][3]string, error) {
	e := NewEventReader(stream, longest)
	var found [][3]string
	for e.Next() {
		found = append(found, [3]string{string(e.Name), string(e.ID), string(e.Data)})
	}
	return found, e.Err()
}

func TestEventsAreRead(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long ", 1<<18) // more than a megabyte
	for name, c := range map[string]struct {
		stream string
		want   [][3]string
	}{
		"nothing":                     {"", nil},
		"comments":                    {": ping\n\n:\n\n", nil},
		"one":                         {"id: a:1\nevent: x\ndata: {}\n\n", [][3]string{{"x", "a:1", "{}"}}},
		"CRLF":                        {"event: x\r\ndata: 1\r\n\r\nevent: y\r\ndata: 2\r\n\r\n", [][3]string{{"x", "", "1"}, {"y", "", "2"}}},
		"CR":                          {"event: x\rdata: 1\r\r", [][3]string{{"x", "", "1"}}},
		"no space":                    {"event:x\ndata:1\n\n", [][3]string{{"x", "", "1"}}},
		"one space only":              {"data:  1\n\n", [][3]string{{"", "", " 1"}}},
		"data lines":                  {"data: 1\ndata\ndata: 2\n\n", [][3]string{{"", "", "1\n\n2"}}},
		"empty data":                  {"data\n\ndata\ndata: 2\n\n", [][3]string{{"", "", ""}, {"", "", "\n2"}}},
		"id stays, the name does not": {"id: 7\nevent: x\ndata: 1\n\ndata: 2\n\n", [][3]string{{"x", "7", "1"}, {"", "7", "2"}}},
		"id with U+0000":              {"id: 7\nid: a\x00b\ndata: 1\n\n", [][3]string{{"", "7", "1"}}},
		"no data":                     {"event: x\n\ndata: 1\n\n", [][3]string{{"", "", "1"}}},
		"cut in an event":             {"data: 1\n\nevent: x\ndata: 2\n", [][3]string{{"", "", "1"}}},
		"cut in a line":               {"data: 1\n\ndata: 2", [][3]string{{"", "", "1"}}},
		"unknown fields":              {"retry: 5\nnonsense\ndata: 1\n\n", [][3]string{{"", "", "1"}}},
		"byte order mark":             {"\uFEFFdata: 1\n\ndata: \uFEFF2\n\n", [][3]string{{"", "", "1"}, {"", "", "\uFEFF2"}}},
		"colon in the value":          {"data: a: b\n\n", [][3]string{{"", "", "a: b"}}},
		"comment in an event":         {"data: 1\n: ping\nid: 3\n\n", [][3]string{{"", "3", "1"}}},
		"a long line":                 {"data: " + long + "\n\ndata: x\n\n", [][3]string{{"", "", long}, {"", "", "x"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, stream := range []io.Reader{strings.NewReader(c.stream), iotest.OneByteReader(strings.NewReader(c.stream))} {
				got, err := readEvents(stream, 8<<20)
				require.NoError(t, err)
				assert.Equal(t, c.want, got)
			}
		})
	}
}

// An event is there when its blank line has come, not one byte later.
func TestEventsDoNotWaitAfterCR(t *testing.T) {
	t.Parallel()
	reader, writer := io.Pipe()
	defer reader.Close()
	go func() { _, _ = writer.Write([]byte("data: 1\r\r")) }()
	e := NewEventReader(reader, 1<<10)
	assert.True(t, e.Next() && string(e.Data) == "1")
}

func TestEventsBreakOff(t *testing.T) {
	t.Parallel()
	reset := errors.New("connection reset")
	for name, c := range map[string]struct {
		rest io.Reader
		want error
	}{
		"a reset":             {iotest.ErrReader(reset), reset},
		"an endless line":     {endless("0"), bufio.ErrTooLong},
		"data without an end": {endless("\ndata: " + strings.Repeat("x", 1000)), bufio.ErrTooLong},
		"an endless event":    {endless("\nnonsense"), bufio.ErrTooLong},
	} {
		got, err := readEvents(io.MultiReader(strings.NewReader("data: x\n\ndata: y"), c.rest), 10_000)
		assert.Truef(t, len(got) == 1 && errors.Is(err, c.want), "%s: %d events, %v", name, len(got), err)
	}
}

// endless repeats a text far beyond the longest event.
func endless(text string) io.Reader { return strings.NewReader(strings.Repeat(text, 100_000)) }

// A comment is a sign of life, and so is an event without data. A part of a line is none.
func TestEventsTellThatTheServerIsAlive(t *testing.T) {
	t.Parallel()
	for stream, want := range map[string]int{
		"data: x\n\n": 1, ": thinking\n": 1, ":\r\n": 1, ": thinking\n\n": 2, "event: ping\n\n": 1, "data: x\n": 0, ": think": 0, "": 0,
	} {
		calls := 0
		e := NewEventReader(strings.NewReader(stream), 1<<10)
		e.Alive = func() { calls++ }
		for e.Next() {
		}
		assert.Truef(t, calls == want, "%q: %d signs of life, want %d", stream, calls, want)
	}
}

func FuzzEvents(f *testing.F) {
	f.Add("id: a:1\nevent: x\ndata: {}\n\n: ping\r\n\r\ndata: 1\rdata: 2\r\r")
	f.Add("\uFEFFdata\n\ndata:\n\n\n")
	f.Fuzz(func(t *testing.T, stream string) {
		whole, err := readEvents(strings.NewReader(stream), 8<<20)
		require.NoError(t, err)
		split, err := readEvents(iotest.OneByteReader(strings.NewReader(stream)), 8<<20)
		assert.Truef(t, err == nil && cmp.Equal(whole, split), "%q, in pieces %q, %v", whole, split, err)
		for _, e := range whole {
			assert.Truef(t, !strings.ContainsAny(e[0]+e[1], "\r\n") && !strings.Contains(e[2], "\r"), "a line end within %q", e)
		}
	})
}
