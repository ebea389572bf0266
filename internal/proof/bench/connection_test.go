package main

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
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

func TestTalkReportsWhatWentWrong(t *testing.T) {
	t.Parallel()
	delta := "data: {\"delta\":\"" + stamped(0) + " \"}\n\nevent: completion\n\n"
	ok := func(body string, length int) string {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", length, body)
	}
	failed := "data: {\"delta\":\"" + stamped(0) + " \"}\n\nevent: message.failed\ndata: {}\n\n"
	words := "data: {\"delta\":\"hello! \"}\n\nevent: completion\n"
	for name, c := range map[string]struct{ answer, want string }{
		"refused":          {"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 4\r\n\r\nslow", "HTTP 429: slow"},
		"too short":        {ok(delta, len(delta)), "1 of 2 tokens"},
		"broken off":       {ok(delta, len(delta)+1), "no terminal event"},
		"a failure":        {ok(failed, len(failed)), "no terminal event"},
		"a token of words": {ok(words, len(words)), "no time"},
		"no HTTP":          {"hello\r\n\r\n", "malformed"},
		"disconnected":     {"", "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			connection, err := endpoint{address: "http://" + answering(t, c.answer)}.connect(t.Context())
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

func TestReplyOfAnUnknownEvent(t *testing.T) {
	t.Parallel()
	for _, strange := range []string{"event: error\ndata: {}\n\n", "event: completion\ndata: nonsense\n\n"} {
		var c client
		if err := c.read(strings.NewReader(strange), nil); err == nil || c.End != "" {
			t.Errorf("%q: %v, ended with %q", strange, err, c.End)
		}
	}
}

func TestRoleThatIsNone(t *testing.T) {
	t.Parallel()
	if _, err := startRole(t.Context(), role{Kind: "nobody"}); err == nil || !strings.Contains(err.Error(), "did not start") {
		t.Errorf("got %v", err)
	}
}
