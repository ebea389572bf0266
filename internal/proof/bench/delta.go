package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/llm"
	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/streaming"
)

// measureDelta measures one delta on its way from the model's bytes to the client's.
func measureDelta(ctx context.Context, e *environment) (group, error) {
	g := group{Title: "one delta"}
	ours, theirs, err := encodeTimes()
	if err != nil {
		return g, err
	}
	const marshal = "encoding/json"
	g.add(
		row{What: "encode as server-sent event", Unit: "ns", Value: ours.ns, Baseline: theirs.ns, Against: marshal},
		row{What: "encode, allocations", Unit: "allocs", Value: ours.allocs, Baseline: theirs.allocs, Against: marshal},
		row{What: "encode, allocated", Unit: "bytes", Value: ours.bytes, Baseline: theirs.bytes, Against: marshal},
	)
	deltas := 200 * e.samples
	way, decoded, err := wayTimes(ctx, deltas)
	if err != nil {
		return g, err
	}
	of := func(figure float64) float64 { return figure / float64(deltas) }
	g.add(
		row{What: "model to client", Unit: "ns", Value: of(way.ns), Baseline: of(decoded.ns), Against: marshal},
		row{What: "model to client, allocations", Unit: "allocs", Value: of(way.allocs), Baseline: of(decoded.allocs), Against: marshal, Target: atMost(4)},
		row{What: "model to client, allocated", Unit: "bytes", Value: of(way.bytes), Baseline: of(decoded.bytes), Against: marshal},
	)
	g.note("model to client: llm, relay and encoder in one goroutine, %d deltas that arrive as fast as they are read", deltas)
	return g, nil
}

func encodeTimes() (ours, theirs micro, err error) {
	id := uuid.New()
	piece := []byte(" something")
	encoder := streaming.NewEncoder(io.Discard, id)
	return compare(
		func() { _ = encoder.Chunk(streaming.Chunk{Offset: 1234, Text: piece}) }, // io.Discard takes everything
		func() { marshalDelta(id, 1234, string(piece)) })
}

// marshalDelta writes an event the plain way, and returns the next offset.
func marshalDelta(id uuid.UUID, offset int, piece string) int {
	data, _ := json.Marshal(streaming.Delta{MessageID: id, Offset: offset, Delta: piece}) // of a fixed type
	next := offset + len(piece)
	fmt.Fprintf(io.Discard, "id: %s:%d\nevent: %s\ndata: %s\n\n", id, next, streaming.EventDelta, data)
	return next
}

// wayTimes reads one long reply through our client, relay and encoder, and line by line with encoding/json in
// both directions. The model's side is in the same process, but has its bytes ready: what it allocates does not
// grow with the number of deltas.
func wayTimes(ctx context.Context, deltas int) (ours, decoded micro, err error) {
	base, closeModel, err := serveReply(ctx, longReply(deltas))
	if err != nil {
		return ours, decoded, err
	}
	defer closeModel()
	client := llm.New(llm.Config{APIKey: "none", BaseURL: base + "/v1", IdleTimeout: time.Minute})
	defer client.Close()
	defer http.DefaultClient.CloseIdleConnections()
	var failed error
	ours, decoded, err = compare(
		func() { failed = errors.Join(failed, relayReply(ctx, client, deltas)) },
		func() { failed = errors.Join(failed, decodeReply(ctx, base)) })
	return ours, decoded, errors.Join(failed, err)
}

func relayReply(ctx context.Context, client *llm.Client, deltas int) error {
	stream, err := client.Stream(ctx, chat.ModelRequest{Model: "bench", Input: "go on", ChatID: uuid.New(), UserID: uuid.New()})
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }() // read to its end, or broken
	var relay streaming.Relay
	reader := relay.Read(0)
	defer reader.Close()
	encoder := streaming.NewEncoder(io.Discard, uuid.New())
	relayed := 0
	for ; stream.Next(); relayed++ {
		relay.Append(stream.Delta())
		chunk, err := reader.Next(ctx)
		if err != nil {
			return err
		}
		if err := encoder.Chunk(chunk); err != nil {
			return err
		}
	}
	if relayed != deltas {
		return errors.Join(stream.Err(), fmt.Errorf("%d of %d deltas came", relayed, deltas))
	}
	return stream.Err()
}

func decodeReply(ctx context.Context, base string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/responses", http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	const longestLine = 64 << 10
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, longestLine)
	for offset := 0; lines.Scan(); {
		data, found := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !found {
			continue
		}
		var event struct{ Delta string }
		if err := json.Unmarshal(data, &event); err != nil {
			return err
		}
		offset = marshalDelta(uuid.Nil, offset, event.Delta)
	}
	return lines.Err()
}

// longReply is a whole stream of the Responses API.
func longReply(deltas int) []byte {
	var b bytes.Buffer
	for n := range deltas {
		fmt.Fprintf(&b, "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":%d,"+
			"\"item_id\":\"msg_0123456789\",\"output_index\":0,\"content_index\":0,\"delta\":\" something\",\"logprobs\":[]}\n\n", n+4)
	}
	b.WriteString(completedEvent)
	return b.Bytes()
}

// completedEvent is the least that ends a reply.
const completedEvent = "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_bench\",\"model\":\"bench\"," +
	"\"usage\":{\"input_tokens\":1000,\"input_tokens_details\":{\"cached_tokens\":900},\"output_tokens\":100}}}\n\n"

// serveReply answers every request with the same bytes.
func serveReply(ctx context.Context, reply []byte) (base string, closeServer func(), err error) {
	return kit.Serve(ctx, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // it is not the question that matters
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write(reply)
	}), 0)
}
