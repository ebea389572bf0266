package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	memoryprompt "github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// Every message and every reply begins with a mark, and its other words follow from its number. So the database
// alone shows what a reply must contain, and what a brief covers twice or not at all.
const (
	pieceDelay = 20 * time.Millisecond
	// longestFold is how long a summary takes at most: long enough for a kill meanwhile.
	longestFold = 400 * time.Millisecond
	// Some replies take seconds, so that most of one that is cut off has to be stored.
	longReplyEvery = 16
	longReplyWords = 180
)

var (
	marks      = regexp.MustCompile(`\b(?:ask|said)\d+\b`)
	vocabulary = strings.Fields("amber brook café dawn ember field grove harbor island jungle kettle lantern meadow night ocean 日本語 " +
		"quiet river stone tower umbra valley willow yonder zephyr Größe ñandú orbit pepper silver")
)

// english are the words of one language: what a memory says has to be in that of its message.
var english = slices.DeleteFunc(slices.Clone(vocabulary), func(word string) bool {
	return strings.ContainsFunc(word, func(r rune) bool { return r > unicode.MaxASCII })
})

// subjects are what users talk about, by turns: a chat wanders between them and comes back. Now and then their vectors
// cannot be had, and turns must get their topics without.
var subjects = kit.Subjects{Words: []string{"spinnaker", "gherkin", "sextant", "zither"}, FailsOnceIn: 40}

// words returns a number of random words of a list.
func words(chance *rand.Rand, count int, from []string) string {
	said := make([]string, count)
	for i := range said {
		said[i] = from[chance.IntN(len(from))]
	}
	return strings.Join(said, " ")
}

// question returns the n-th message of all users: its mark, a sentence to remember, its subject, and other words.
func question(n int) string {
	chance := rand.New(rand.NewPCG(uint64(n), 1)) //nolint:gosec // the same words for the same number
	return fmt.Sprintf("ask%d %s About the %s: %s", n, saying(n), subjects.Of(n), words(chance, 4+chance.IntN(20), english))
}

// answer returns what the model replies to it.
func answer(n int) string {
	chance := rand.New(rand.NewPCG(uint64(n), 2)) //nolint:gosec // as above
	count := 5 + chance.IntN(50)
	if n%longReplyEvery == 0 {
		count = longReplyWords
	}
	return fmt.Sprintf("said%d %s", n, words(chance, count, vocabulary))
}

// model is the offline model, which replies as above and summarizes by listing marks. It runs in the harness's
// process, so it is never killed, and records what each prompt showed.
type model struct {
	*offline.Listening
	embedder  string // its address
	stopEmbed func()
	mu        sync.Mutex
	shown     map[int][]string  // by the number of the message: the marks of the last prompt, without its own
	read      map[int]time.Time // by the number of the message: when what is made of it is proposed
	// decided is when the last memory is superseded about which the model is asked now.
	decided time.Time
}

func startModel(ctx context.Context) (*model, error) {
	m := &model{shown: map[int][]string{}, read: map[int]time.Time{}}
	var err error
	if m.embedder, m.stopEmbed, err = kit.Serve(ctx, subjects, 0); err != nil {
		return nil, err
	}
	if m.Listening, err = offline.Start(offline.Options{Script: m.script}); err != nil {
		m.stopEmbed()
		return nil, err
	}
	return m, nil
}

// Close stops both.
func (m *model) Close() error {
	m.stopEmbed()
	return m.Listening.Close()
}

func (m *model) script(r *offline.Request) offline.Answer {
	switch r.Metadata["purpose"] {
	case "extract":
		latency := rand.N(longestFold) //nolint:gosec // as below
		_, unread, _ := strings.Cut(r.Text, "\nNEW MESSAGES")
		m.reads(unread, time.Now().Add(latency))
		return offline.Answer{Text: extractAll(r.Text), Latency: latency}
	case "consolidate":
		decided, latency := consolidate(r.Text), rand.N(4*longestFold) //nolint:gosec // as below
		if strings.Contains(decided, `"DELETE"`) {
			m.decides(time.Now().Add(latency))
		}
		return offline.Answer{Text: decided, Latency: latency}
	case "topic":
		summary := listing(r.Text)
		m.reads(r.Text, time.Now().Add(summary.Latency))
		return summary
	case "entities":
		return offline.Answer{Text: `{"entities":[],"relationships":[]}`}
	}
	if r.Kind == offline.KindSummary {
		return listing(r.Text)
	}
	n, err := strconv.Atoi(strings.TrimPrefix(marks.FindString(r.Current), "ask"))
	if err != nil {
		return offline.Answer{Fault: offline.Fault500} // no client asks that
	}
	before, _, _ := strings.Cut(r.Text, memoryprompt.Heading("question"))
	// These quote what the brief holds as well.
	before, _, _ = strings.Cut(before, memoryprompt.Heading("topic"))
	before, _, _ = strings.Cut(before, memoryprompt.Heading("recall"))
	m.mu.Lock()
	m.shown[n] = marks.FindAllString(before, -1)
	m.mu.Unlock()
	return offline.Answer{Text: answer(n), PieceDelay: pieceDelay}
}

// listing summarizes a text by the marks in it.
func listing(text string) offline.Answer {
	latency := rand.N(longestFold) //nolint:gosec // spreads the kills over a fold's life
	return offline.Answer{Text: "Said so far: " + strings.Join(marks.FindAllString(text, -1), " ") + ".", Latency: latency}
}

// shownTo returns the marks in the last prompt of a message.
func (m *model) shownTo(n int) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.shown[n]
}

// reads notes which messages an extraction or the summary of a topic reads, and when it is answered.
func (m *model) reads(input string, answered time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, mark := range marks.FindAllString(input, -1) {
		if n, err := strconv.Atoi(strings.TrimPrefix(mark, "ask")); err == nil {
			m.read[n] = answered
		}
	}
}

// decides notes that the model decides to supersede a memory, and when it says so.
func (m *model) decides(answered time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if answered.After(m.decided) {
		m.decided = answered
	}
}

// isDeciding reports whether a memory is about to be superseded.
func (m *model) isDeciding() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Now().Before(m.decided)
}

// storing is how long it takes at most, as a rule, until what was proposed is stored.
const storing = 500 * time.Millisecond

// isRead reports whether a memory of a message, or a summary that holds it, is about to be stored.
func (m *model) isRead(n int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	ago := time.Since(m.read[n])
	return ago > -storing/4 && ago < storing
}
