package streaming

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/arcoscribe/throughline/internal/memory"
)

func TestPartsStandWhereTheyWereAdded(t *testing.T) {
	t.Parallel()
	var relay Relay
	relay.Append("né")
	added := relay.AddPart(memory.Part{Type: memory.PartSource, URL: "a", At: 9})
	relay.AddPart(memory.Part{Type: memory.PartSource, URL: "b"})
	relay.Append("xt")
	relay.AddPart(memory.Part{Type: memory.PartSource, URL: "c"})
	assert.Equal(t, 2, added.At)
	kept := relay.Parts()
	_ = append(kept, memory.Part{URL: "over the next one"})
	relay.AddPart(memory.Part{Type: memory.PartSource, URL: "d"})
	relay.End(done("stop"))
	for at, want := range map[Place]string{
		{}:                     "0:né 2:a1 2:b2 2:xt 4:c3 4:d4 end 4.4",
		{Parts: -1}:            "0:né 2:a1 2:b2 2:xt 4:c3 4:d4 end 4.4",
		{Chars: 1, Parts: 9}:   "1:é 2:a1 2:b2 2:xt 4:c3 4:d4 end 4.4",
		{Chars: 2, Parts: -1}:  "2:a1 2:b2 2:xt 4:c3 4:d4 end 4.4",
		{Chars: 2, Parts: 1}:   "2:b2 2:xt 4:c3 4:d4 end 4.4",
		{Chars: 2, Parts: 2}:   "2:xt 4:c3 4:d4 end 4.4",
		{Chars: 3, Parts: 1}:   "3:t 4:c3 4:d4 end 4.4",
		{Chars: 4, Parts: 3}:   "4:d4 end 4.4",
		{Chars: 4, Parts: 4}:   "end 4.4",
		{Chars: 99, Parts: 99}: "end 4.4",
	} {
		reader := relay.Read(at)
		assert.Equalf(t, want, told(t, reader), "from %+v", at)
		reader.Close()
	}
}

// told writes down the chunks of a reply that has ended.
func told(t *testing.T, reader *Reader) string {
	var all []string
	for {
		chunk := next(t, reader)
		switch {
		case chunk.End != nil:
			return strings.Join(append(all, fmt.Sprintf("end %d.%d", chunk.Offset, chunk.Parts)), " ")
		case chunk.Part != nil:
			assert.Truef(t, chunk.Index == chunk.Parts-1 && chunk.Part.At == chunk.Offset && chunk.Text == nil, "%+v", chunk)
			all = append(all, fmt.Sprintf("%d:%s%d", chunk.Offset, chunk.Part.URL, chunk.Parts))
		default:
			all = append(all, fmt.Sprintf("%d:%s", chunk.Offset, chunk.Text))
		}
	}
}

func TestPlaceIsOneInTheReply(t *testing.T) {
	t.Parallel()
	var relay Relay
	assert.Equal(t, Place{}, relay.Place(Place{Chars: 7, Parts: 7}))
	relay.AddPart(memory.Part{})
	relay.Append("né")
	relay.AddPart(memory.Part{})
	relay.AddPart(memory.Part{})
	relay.Append("xt")
	for at, want := range map[Place]Place{
		{Chars: -1, Parts: -1}:      {0, 0},
		{Parts: 1}:                  {0, 1},
		{Parts: 2}:                  {0, 1},
		{Chars: 1, Parts: -1}:       {1, 1},
		{Chars: 2, Parts: -1}:       {2, 1},
		{Chars: 2, Parts: 2}:        {2, 2},
		{Chars: 2, Parts: 9}:        {2, 3},
		{Chars: 3, Parts: 1}:        {3, 3},
		{Chars: 1 << 40, Parts: -1}: {4, 3},
	} {
		assert.Equalf(t, want, relay.Place(at), "%+v", at)
	}
}

// A part wakes readers as a text does, and shows that the model accepted the call.
func TestPartIsHeardAtOnce(t *testing.T) {
	t.Parallel()
	var relay Relay
	reader := relay.Read(Place{})
	defer reader.Close()
	heard := make(chan Chunk)
	go func() {
		chunk, err := reader.Next(context.Background())
		assert.NoError(t, err)
		heard <- chunk
	}()
	relay.AddPart(memory.Part{Type: memory.PartReasoning})
	assert.Equal(t, memory.PartReasoning, (<-heard).Part.Type)
	end, err := reader.WaitOpen(t.Context())
	assert.Truef(t, end == nil && err == nil, "%v, %v", end, err)
}

// A reader far behind gets the text between two parts at once, and each part by itself.
func TestReaderFarBehindGetsThePartsInOrder(t *testing.T) {
	t.Parallel()
	var relay Relay
	for i := range 2 * maxLag {
		relay.Append("x")
		if i == maxLag/2 {
			relay.AddPart(memory.Part{URL: "a"})
		}
	}
	relay.End(done("stop"))
	reader := relay.Read(Place{})
	defer reader.Close()
	first := next(t, reader)
	assert.Truef(t, len(first.Text) == maxLag/2+1 && first.More && first.Parts == 0, "%+v", first)
	part := next(t, reader)
	assert.Truef(t, part.Part != nil && part.More, "%+v", part)
	assert.False(t, next(t, reader).Text == nil)
}

// script is a reply as a generator made it: text where a part has no type.
type script struct {
	items []memory.Part
	end   Terminal
}

var scripts = rapid.Custom(func(t *rapid.T) script {
	var s script
	var open []memory.Part
	for i := range rapid.IntRange(0, 14).Draw(t, "items") {
		switch kind := rapid.IntRange(0, 6).Draw(t, "kind"); {
		case kind < 2:
			s.items = append(s.items, memory.Part{Text: rapid.SampledFrom([]string{"a", "é 👋🏽", "\n\n", "\"\\"}).Draw(t, "text")})
		case kind == 2:
			s.items = append(s.items, memory.Part{Type: memory.PartReasoning, Text: rapid.SampledFrom([]string{"", "hm\n"}).Draw(t, "thought")})
		case kind == 3:
			s.items = append(s.items, memory.Part{Type: memory.PartSource, URL: "https://a.example", Title: rapid.SampledFrom([]string{"", "T"}).Draw(t, "title")})
		case kind == 4 || len(open) == 0:
			call := callOf("c"+strconv.Itoa(i), rapid.SampledFrom([]string{memory.RunClient, memory.RunServer}).Draw(t, "run"), false)
			*call.Approval = call.Run == memory.RunServer && rapid.Bool().Draw(t, "approval")
			open, s.items = append(open, call), append(s.items, call)
		default:
			n := rapid.IntRange(0, len(open)-1).Draw(t, "call")
			s.items = append(s.items, answersTo(t, open[n])...)
			open = slices.Delete(open, n, n+1)
		}
	}
	ends := []Terminal{done("stop"), {Cancelled: &Cancelled{}}, {Failed: &Failed{Message: "It broke."}}}
	if s.end = rapid.SampledFrom(ends).Draw(t, "end"); len(open) > 0 {
		s.end = Terminal{Awaiting: &Awaiting{}}
	}
	return s
})

func callOf(id, run string, approval bool) memory.Part {
	return memory.Part{Type: memory.PartCall, CallID: id, Name: "tool", Arguments: json.RawMessage(`{"a":"<é>"}`), Run: run, Approval: &approval}
}

func answersTo(t *rapid.T, call memory.Part) []memory.Part {
	statuses := []memory.ResultStatus{memory.ResultDone, memory.ResultFailed, memory.ResultExpired, memory.ResultSkipped}
	result := memory.Part{Type: memory.PartResult, CallID: call.CallID, Output: json.RawMessage(`{"error":"Full."}`)}
	result.Status = rapid.SampledFrom(statuses).Draw(t, "status")
	if !*call.Approval {
		return []memory.Part{result}
	}
	approved := rapid.Bool().Draw(t, "approved")
	if !approved {
		result.Status = memory.ResultDenied
	}
	return []memory.Part{{Type: memory.PartApproval, CallID: call.CallID, Approved: &approved}, result}
}

// fill writes the whole script to a relay, and calls after each item what follows.
func (s script) fill(relay *Relay, then func()) {
	for _, item := range s.items {
		if item.Type == "" {
			relay.Append(item.Text)
		} else {
			relay.AddPart(item)
		}
		then()
	}
	relay.End(s.end)
	then()
}

// seen is a reply as a client of our own events has it.
type seen struct {
	text  string
	parts []string
	end   string
	id    string // of the last event
}

// read applies one event, and checks that it follows all that the client has.
func (s *seen) read(t *rapid.T, event string) {
	lines := strings.Split(strings.TrimSuffix(event, "\n\n"), "\n")
	require.Lenf(t, lines, 3, "%q", event)
	name, data := strings.TrimPrefix(lines[0], "event: "), []byte(strings.TrimPrefix(lines[1], "data: "))
	var fields struct {
		Offset, Parts, Index int
		Delta                string
		Part                 json.RawMessage
	}
	require.NoError(t, json.Unmarshal(data, &fields))
	switch chars := utf8.RuneCountInString(s.text); name {
	case EventStarted:
		assert.Truef(t, fields.Offset == chars && fields.Parts <= len(s.parts), "%q at %d", event, chars)
		s.parts = s.parts[:fields.Parts] // the others come again
	case EventDelta:
		assert.Equalf(t, chars, fields.Offset, "%q", event)
		s.text += fields.Delta
	case EventPart:
		assert.Truef(t, fields.Index == len(s.parts) && fields.Offset == chars, "%q after %d and %d parts", event, chars, len(s.parts))
		s.parts = append(s.parts, string(fields.Part))
	default:
		s.end = event
	}
	s.id = strings.TrimPrefix(lines[2], "id: ")
	position := strconv.Itoa(utf8.RuneCountInString(s.text))
	if len(s.parts) > 0 {
		position += "." + strconv.Itoa(len(s.parts))
	}
	if s.end != "" && name != EventAwaiting {
		position = "end"
	}
	assert.Equalf(t, replyID.String()+":"+position, s.id, "%q", event)
}

// eventsFrom are the events of a stream from a place on.
func eventsFrom(t *rapid.T, relay *Relay, at Place) []string {
	var out wire
	encoder := NewEncoder(&out, replyID)
	at = relay.Place(at)
	require.NoError(t, encoder.Started(Started{MessageID: replyID, Offset: at.Chars, Parts: at.Parts}))
	require.NoError(t, encodeFrom(relay, at, encoder))
	return out.writes
}

func encodeFrom(relay *Relay, at Place, encoder anyEncoder) error {
	reader := relay.Read(at)
	defer reader.Close()
	for {
		chunk, err := reader.Next(context.Background())
		if err != nil {
			return err
		}
		if err := encoder.Chunk(chunk); err != nil || chunk.End != nil {
			return err
		}
	}
}

// Of any reply, cut after any event: what a client has at the end is the same, by the whole position or by the characters alone.
func TestCutStreamsOfPartsComeTogether(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var relay Relay
		scripts.Draw(t, "script").fill(&relay, func() {})
		events := eventsFrom(t, &relay, Place{})
		var whole seen
		for _, event := range events {
			whole.read(t, event)
		}
		require.Len(t, whole.parts, len(relay.Parts()))
		for cut := range events {
			for _, named := range []bool{true, false} {
				var client seen
				for _, event := range events[:cut] {
					client.read(t, event)
				}
				if client.end != "" {
					break
				}
				at := Place{Chars: utf8.RuneCountInString(client.text), Parts: -1}
				if named {
					at.Parts = len(client.parts)
				}
				for _, event := range eventsFrom(t, &relay, at) {
					client.read(t, event)
				}
				assert.Equalf(t, whole, client, "cut after %d, from %+v", cut, at)
			}
		}
	})
}

// The hot path of every stream.
//
//nolint:paralleltest // allocations are counted for the whole process
func TestReadingAPieceAllocatesNothing(t *testing.T) {
	var relay Relay
	var out bytes.Buffer
	relay.AddPart(memory.Part{Type: memory.PartReasoning})
	for range 3 * maxLag {
		relay.Append("word ")
	}
	reader := relay.Read(Place{})
	defer reader.Close()
	next(t, reader) // the part
	next(t, reader) // all that is too far behind
	for protocol, encoder := range encoders(&out) {
		allocations := testing.AllocsPerRun(maxLag/2, func() {
			relay.Append("w") // its text has room
			chunk, _ := reader.Next(context.Background())
			out.Reset()
			_ = encoder.Chunk(chunk)
		})
		assert.LessOrEqualf(t, allocations, 0.0, "%s", protocol)
	}
}
