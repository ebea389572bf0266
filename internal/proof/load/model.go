package main

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/dev/offline"
)

// The stand-in for the model's provider is this command again, in a role: a process of its own, so that what it
// costs is not counted for anybody else. It prints its address and ends with its stdin.
const roleModel = "role-model"

// What the model takes its time for. A reply's pace is one of those below, so that replies are not in step.
const (
	replyLatency = 300 * time.Millisecond // before the first word
	foldLatency  = 2 * time.Second
	slowestWord  = 30 * time.Millisecond
	fastestWord  = 15 * time.Millisecond
)

// askedFor is where a message says how long an answer it wants; defaultWords is for one that does not.
var askedFor = regexp.MustCompile(`in (\d+) words`)

const defaultWords = 60

// stamp stands before a reply's first word: when the model was asked, in microseconds since 1970, and how many
// milliseconds it takes for a word. So whoever reads the n-th word knows when it was due.
type stamp struct {
	asked time.Time
	pace  time.Duration
}

const stampBase = 36

func (s stamp) String() string {
	return strconv.FormatInt(s.asked.UnixMicro(), stampBase) + "-" + strconv.FormatInt(s.pace.Milliseconds(), 10)
}

func readStamp(word string) (stamp, error) {
	micros, pace, _ := strings.Cut(word, "-")
	at, err := strconv.ParseInt(micros, stampBase, 64)
	milliseconds, wrong := strconv.Atoi(pace)
	if err != nil || wrong != nil {
		return stamp{}, fmt.Errorf("a reply begins with %d characters that are no stamp", len(word))
	}
	return stamp{asked: time.UnixMicro(at), pace: time.Duration(milliseconds) * time.Millisecond}, nil
}

// due is when the model means to say the n-th word, counted from 0, which is the stamp itself.
func (s stamp) due(n int) time.Time {
	return s.asked.Add(replyLatency + time.Duration(n+1)*s.pace)
}

// answer scripts the offline model: replies of words at a pace, and its own summaries after some thought.
func answer(r *offline.Request) offline.Answer {
	if r.Kind != offline.KindReply {
		return offline.Answer{Latency: foldLatency}
	}
	words := defaultWords
	if found := askedFor.FindStringSubmatch(r.Current); found != nil {
		words, _ = strconv.Atoi(found[1]) // digits; too many of them are none
	}
	now := time.Now()
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(r.Current))                                // never fails
	dice := rand.New(rand.NewPCG(hash.Sum64(), uint64(now.UnixNano()))) //nolint:gosec // prose, not secrets
	s := stamp{asked: now, pace: fastestWord + upTo(dice, slowestWord-fastestWord).Truncate(time.Millisecond)}
	text := s.String() + " " + prose(dice, max(words, 1))
	const bytesPerToken = 4 // near enough for a bill that nobody pays, and counting is not free
	usage := offline.Usage{Input: len(r.Text) / bytesPerToken, Output: len(text) / bytesPerToken}
	return offline.Answer{Text: text, Latency: replyLatency, PieceDelay: s.pace, Usage: &usage}
}

// beModel serves the model until stdin ends.
func beModel(stdin *os.File, stdout *os.File) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	model := offline.New(offline.Options{Script: answer})
	// Idle connections are let go soon, as providers do: what is left of the load is then what somebody holds on to.
	server := &http.Server{Handler: model, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 3 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	fmt.Fprintln(stdout, "http://"+listener.Addr().String()+"/v1")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = stdin.Read(make([]byte, 1)) // nobody writes: it is the end, however it comes
	}()
	select {
	case err = <-served:
	case <-ended:
	}
	_ = server.Close()
	model.Close()
	return err
}
