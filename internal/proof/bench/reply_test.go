package main

import (
	"strings"
	"testing"
	"time"
)

const started = "id: m:0\nevent: message.started\ndata: {\"offset\":0}\n\n"

func deltaAt(place, offset, text string) string {
	return "event: content.delta\ndata: {\"offset\":" + offset + ",\"delta\":\"" + text + "\"}\nid: m:" + place + "\n\n"
}

const completion = "id: m:end\nevent: completion\ndata: {}\n\n"

// A reply is put together over connections that broke off, and the place in it is the last whole event's.
func TestReplyOverTwoConnections(t *testing.T) {
	t.Parallel()
	var r client
	cut := ":   \n\n" + started + deltaAt("2", "0", "é👋") + "id: m:5\nevent: content.delta\ndata: {\"off"
	if err := r.read(strings.NewReader(cut), nil); err == nil {
		t.Fatal("a broken connection is no end")
	}
	if r.LastEventID != "m:2" || r.Chars != 2 || !r.began {
		t.Fatalf("received %+v", r)
	}
	if err := r.read(strings.NewReader(started+deltaAt("3", "2", "x")+completion), nil); err != nil {
		t.Fatal(err)
	}
	if string(r.Text) != "é👋x" || r.End != "completion" || r.Repeated != 0 || r.deltas != 1 || time.Since(r.first) > time.Minute {
		t.Errorf("received %+v", r)
	}
}

func TestReplyStopsWhenItIsEnough(t *testing.T) {
	t.Parallel()
	var r client
	err := r.read(strings.NewReader(started+deltaAt("1", "0", "a")+deltaAt("2", "1", "b")+completion), func() bool { return r.deltas == 1 })
	if err != nil || string(r.Text) != "a" || r.LastEventID != "m:1" || messageOf(r.LastEventID) != "m" {
		t.Errorf("received %+v, %v", r, err)
	}
}

func TestReplyNoticesGapsAndRepetition(t *testing.T) {
	t.Parallel()
	var r client
	if err := r.read(strings.NewReader(deltaAt("2", "0", "ab")+deltaAt("3", "1", "bc")+completion), nil); err != nil || r.Repeated != 1 {
		t.Errorf("%d characters came twice, %v", r.Repeated, err)
	}
	var gap client
	if err := gap.read(strings.NewReader(deltaAt("2", "1", "b")), nil); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("got %v", err)
	}
	for _, strange := range []string{"event: error\ndata: {}\n\n", "event: completion\ndata: nonsense\n\n"} {
		var r client
		if err := r.read(strings.NewReader(strange), nil); err == nil || r.End != "" {
			t.Errorf("%q: %v, ended with %q", strange, err, r.End)
		}
	}
}
