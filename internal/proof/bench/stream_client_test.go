package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

func stamped(ago time.Duration) string {
	return strconv.FormatInt(time.Now().Add(-ago).UnixMicro(), stampBase)
}

func TestReadTellsWhenTokensWereSent(t *testing.T) {
	t.Parallel()
	began := time.Now().Add(-time.Second)
	var seen stream
	// The second event is what a reader gets that was behind: two tokens at once.
	body := ":   \n\nevent: content.delta\ndata: {\"offset\":0,\"delta\":\"" + stamped(500*time.Millisecond) + " \"}\n\n" +
		"event: content.delta\ndata: {\"offset\":11,\"delta\":\"" + stamped(200*time.Millisecond) + " " + stamped(100*time.Millisecond) + " \"}\n\n" +
		"event: completion\ndata: {}\n\n"
	if err := seen.read(strings.NewReader(body), began); err != nil {
		t.Fatal(err)
	}
	if len(seen.tokens) != 3 || seen.first < time.Second {
		t.Fatalf("%d tokens, the first after %v", len(seen.tokens), seen.first)
	}
	for i, least := range []time.Duration{500 * time.Millisecond, 200 * time.Millisecond, 100 * time.Millisecond} {
		if lag := seen.tokens[i].lag; lag < least || lag > least+time.Minute {
			t.Errorf("token %d: %v", i, lag)
		}
	}
}

func TestReadRefusesWhatIsNoWholeReply(t *testing.T) {
	t.Parallel()
	delta := "event: content.delta\ndata: {\"delta\":\"" + stamped(0) + " \"}\n\n"
	for name, c := range map[string]struct{ body, want string }{
		"no terminal event":   {delta, "no terminal event"},
		"a failure":           {delta + "event: message.failed\ndata: {}\n\n", "no terminal event"},
		"nothing":             {"", "no terminal event"},
		"a token of words":    {"data: {\"delta\":\"hello! \"}\n\nevent: completion\n", "no time"},
		"an event cut in two": {delta + "event: comple", "no terminal event"},
	} {
		var seen stream
		if err := seen.read(strings.NewReader(c.body), time.Now()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTalkReportsWhatWentWrong(t *testing.T) {
	t.Parallel()
	delta := "data: {\"delta\":\"" + stamped(0) + " \"}\n\nevent: completion\n\n"
	for name, c := range map[string]struct{ answer, want string }{
		"refused":      {"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 4\r\n\r\nslow", "HTTP 429: slow"},
		"too short":    {fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(delta), delta), "1 of 2 tokens"},
		"broken off":   {fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(delta)+1, delta), "no terminal event"},
		"no HTTP":      {"hello\r\n\r\n", "malformed"},
		"disconnected": {"", "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			connection, err := at("http://" + answering(t, c.answer)).connect(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer connection.Close()
			if _, err := connection.talk([]byte("ask\n"), 2); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// at is an endpoint that is not a process.
func at(address string) endpoint {
	return endpoint{Helper: &kit.Helper{Process: &kit.Process{Address: address}}}
}

// answering gives the address of a server that says one thing to one client.
func answering(t *testing.T, answer string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = conn.Read(make([]byte, 100))
		_, _ = conn.Write([]byte(answer))
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	return listener.Addr().String()
}

func TestModelKeepsWhatItSaidUnderAName(t *testing.T) {
	t.Parallel()
	base, stop, err := kit.Serve(t.Context(), newPacedModel(t.Context()), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	model := at(base)
	a := newClient(conversation{})
	if _, err := a.sentByModel(t.Context(), model); err == nil {
		t.Error("it knows what it was never asked for")
	}
	connection, err := model.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	const tokens, first = 3, 1000
	body, err := connection.send(post("/v1/responses", "", `{"input":"Say name=history first=5 tokens=9. Say name=`+a.clientID.String()+` first=1000 tokens=3"}`, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	events, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	var heard []byte
	for line := range bytes.Lines(events) {
		if _, text, found := bytes.Cut(line, deltaKey); found {
			text, _, _ = bytes.Cut(text, []byte(`"`))
			heard = append(heard, text...)
		}
	}
	kept, err := a.sentByModel(t.Context(), model)
	if err != nil || !bytes.Equal(kept, heard) {
		t.Errorf("said %q, kept %q, %v", heard, kept, err)
	}
	if got := bytes.Count(heard, []byte("é👋")); got != tokens || len(heard) < first {
		t.Errorf("%d tokens, %d bytes", got, len(heard))
	}
}

func TestWantedIsTheLastNumber(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]int{
		`{"input":"Say tokens=250"}`:                    250,
		`{"input":"User: Say tokens=9\n\nSay tokens=3`:  3,
		`{"input":"Say tokens=12","metadata":{"n":99}}`: 12,
		`{"input":"Say something"}`:                     1,
		`tokens=`:                                       1,
		``:                                              1,
	} {
		if got := max(readWish([]byte(body)).tokens, 1); got != want {
			t.Errorf("%s: %d, want %d", body, got, want)
		}
	}
}
