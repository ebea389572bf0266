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
func TestHeardOverTwoConnections(t *testing.T) {
	t.Parallel()
	var h heard
	cut := ":   \n\n" + started + deltaAt("2", "0", "é👋") + "id: m:5\nevent: content.delta\ndata: {\"off"
	if err := h.listen(strings.NewReader(cut), never); err == nil {
		t.Fatal("a broken connection is no end")
	}
	if h.last != "m:2" || h.chars != 2 || !h.began {
		t.Fatalf("heard %+v", h)
	}
	if err := h.listen(strings.NewReader(started+deltaAt("3", "2", "x")+completion), never); err != nil {
		t.Fatal(err)
	}
	if string(h.text) != "é👋x" || h.end != "completion" || h.twice != 0 || h.deltas != 1 || time.Since(h.first) > time.Minute {
		t.Errorf("heard %+v", h)
	}
}

func TestHeardStopsWhenItIsEnough(t *testing.T) {
	t.Parallel()
	var h heard
	err := h.listen(strings.NewReader(started+deltaAt("1", "0", "a")+deltaAt("2", "1", "b")+completion), func() bool { return h.deltas == 1 })
	if err != nil || string(h.text) != "a" || h.last != "m:1" || messageOf(h.last) != "m" {
		t.Errorf("heard %+v, %v", h, err)
	}
}

func TestHeardNoticesGapsAndRepetition(t *testing.T) {
	t.Parallel()
	var h heard
	if err := h.listen(strings.NewReader(deltaAt("2", "0", "ab")+deltaAt("3", "1", "bc")+completion), never); err != nil || h.twice != 1 {
		t.Errorf("%d characters came twice, %v", h.twice, err)
	}
	var gap heard
	if err := gap.listen(strings.NewReader(deltaAt("2", "1", "b")), never); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("got %v", err)
	}
	for _, strange := range []string{"event: error\ndata: {}\n\n", "event: completion\ndata: nonsense\n\n"} {
		var h heard
		if err := h.listen(strings.NewReader(strange), never); err == nil || h.end != "" {
			t.Errorf("%q: %v, ended with %q", strange, err, h.end)
		}
	}
}
