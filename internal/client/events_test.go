package client

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var allFields = cmp.AllowUnexported(event{})

func readAll(r io.Reader) ([]event, error) {
	events := newEvents(r)
	var all []event
	for {
		e, err := events.next()
		if errors.Is(err, errCut) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, e)
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		stream string
		want   []event
	}{
		"nothing":             {"", nil},
		"comments":            {": ping\n\n:\n\n", nil},
		"one":                 {"id: a:1\nevent: x\ndata: {}\n\n", []event{{"x", "a:1", "{}"}}},
		"CRLF":                {"event: x\r\ndata: 1\r\n\r\nevent: y\r\ndata: 2\r\n\r\n", []event{{"x", "", "1"}, {"y", "", "2"}}},
		"CR":                  {"event: x\rdata: 1\r\r", []event{{"x", "", "1"}}},
		"no space":            {"data:1\n\n", []event{{"", "", "1"}}},
		"one space only":      {"data:  1\n\n", []event{{"", "", " 1"}}},
		"data lines":          {"data: 1\ndata\ndata: 2\n\n", []event{{"", "", "1\n\n2"}}},
		"id stays":            {"id: 7\ndata: 1\n\ndata: 2\n\n", []event{{"", "7", "1"}, {"", "7", "2"}}},
		"id with U+0000":      {"id: 7\nid: a\x00b\ndata: 1\n\n", []event{{"", "7", "1"}}},
		"no data":             {"event: x\n\ndata: 1\n\n", []event{{"", "", "1"}}},
		"cut in an event":     {"data: 1\n\nevent: x\ndata: 2\n", []event{{"", "", "1"}}},
		"unknown fields":      {"retry: 5\nnonsense\ndata: 1\n\n", []event{{"", "", "1"}}},
		"byte order mark":     {"\uFEFFdata: 1\n\n", []event{{"", "", "1"}}},
		"colon in the value":  {"data: a: b\n\n", []event{{"", "", "a: b"}}},
		"comment in an event": {"data: 1\n: ping\nid: 3\n\n", []event{{"", "3", "1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for how, reader := range map[string]io.Reader{
				"whole":  strings.NewReader(test.stream),
				"single": iotest.OneByteReader(strings.NewReader(test.stream)),
			} {
				got, err := readAll(reader)
				diff := cmp.Diff(test.want, got, allFields)
				assert.Truef(t, diff == "" && err == nil, "%s: error %v (-want +got)\n%s", how, err, diff)
			}
		})
	}
}

// An event is there when its blank line has come, not one byte later.
func TestEventsDoesNotWaitAfterCR(t *testing.T) {
	t.Parallel()
	reader, writer := io.Pipe()
	defer reader.Close()
	events := newEvents(reader)
	go func() { _, _ = writer.Write([]byte("data: 1\r\r")) }()
	e, err := events.next()
	assert.Truef(t, err == nil && e.data == "1", "got %+v, %v", e, err)
}

func TestEventsRefusesEndlessEvents(t *testing.T) {
	t.Parallel()
	for name, stream := range map[string]io.Reader{
		"one line":   endless("x"),
		"many lines": endless("data: " + strings.Repeat("x", 1000) + "\n"),
	} {
		events := newEvents(stream)
		events.limit = 10_000
		_, err := events.next()
		assert.ErrorIsf(t, err, errEventTooLarge, "%s: error %v", name, err)
	}
}

// endless repeats itself.
type endless string

func (e endless) Read(p []byte) (int, error) {
	n := 0
	for n+len(e) <= len(p) {
		n += copy(p[n:], e)
	}
	return n, nil
}

func FuzzEvents(f *testing.F) {
	f.Add("id: a:1\nevent: x\ndata: {}\n\n: ping\r\n\r\ndata: 1\rdata: 2\r\r")
	f.Add("\uFEFFdata\n\ndata:\n\n\n")
	f.Fuzz(func(t *testing.T, stream string) {
		whole, err := readAll(strings.NewReader(stream))
		require.NoError(t, err)
		split, err := readAll(iotest.OneByteReader(strings.NewReader(stream)))
		require.NoError(t, err)
		assert.Equal(t, "", cmp.Diff(whole, split, allFields), "the same bytes in other pieces are other events\n")
		for _, e := range whole {
			assert.Truef(t, !strings.ContainsAny(e.name+e.id, "\r\n") && !strings.Contains(e.data, "\r"),
				"a line end within %+v", e)
		}
	})
}
