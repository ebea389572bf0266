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
	"runtime"
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
	g.add(
		row{What: "model to client", Unit: "ns", Value: way.ns, Baseline: decoded.ns, Against: marshal},
		row{What: "model to client, allocations", Unit: "allocs", Value: way.allocs, Baseline: decoded.allocs, Against: marshal, Target: atMost(4)},
		row{What: "model to client, allocated", Unit: "bytes", Value: way.bytes, Baseline: decoded.bytes, Against: marshal},
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
// both directions.
func wayTimes(ctx context.Context, deltas int) (ours, decoded micro, err error) {
	base, closeModel, err := serveReply(ctx, longReply(deltas))
	if err != nil {
		return ours, decoded, err
	}
	defer closeModel()
	client := llm.New(llm.Config{APIKey: "none", BaseURL: base + "/v1", IdleTimeout: time.Minute})
	defer client.Close()
	if ours, err = perDelta(deltas, func() (func() error, error) { return relayReply(ctx, client, deltas) }); err != nil {
		return ours, decoded, err
	}
	decoded, err = perDelta(deltas, func() (func() error, error) { return decodeReply(ctx, base) })
	return ours, decoded, err
}

// perDelta opens a reply and counts what reading it costs. The model's side is in the same process, but has its
// bytes ready: what it allocates does not grow with the number of deltas.
func perDelta(deltas int, open func() (func() error, error)) (micro, error) {
	read, err := open()
	if err != nil {
		return micro{}, err
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began := time.Now()
	err = read()
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	n := float64(deltas)
	return micro{
		ns: float64(took.Nanoseconds()) / n, allocs: float64(after.Mallocs-before.Mallocs) / n, bytes: float64(after.TotalAlloc-before.TotalAlloc) / n,
	}, err
}

func relayReply(ctx context.Context, client *llm.Client, deltas int) (func() error, error) {
	stream, err := client.Stream(ctx, chat.ModelRequest{Model: "bench", Input: "go on", ChatID: uuid.New(), UserID: uuid.New()})
	if err != nil {
		return nil, err
	}
	var relay streaming.Relay
	reader := relay.Read(0)
	encoder := streaming.NewEncoder(io.Discard, uuid.New())
	return func() error {
		defer reader.Close()
		defer func() { _ = stream.Close() }() // read to its end, or broken
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
	}, nil
}

func decodeReply(ctx context.Context, base string) (func() error, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/responses", http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request) //nolint:bodyclose // closed by the function that is returned
	if err != nil {
		return nil, err
	}
	return func() error {
		defer http.DefaultClient.CloseIdleConnections()
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
	}, nil
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
