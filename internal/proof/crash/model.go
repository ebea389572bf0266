package main

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	memoryprompt "github.com/arcoscribe/throughline/internal/memory/prompt"
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

// words returns a number of random words.
func words(chance *rand.Rand, count int) string {
	said := make([]string, count)
	for i := range said {
		said[i] = vocabulary[chance.IntN(len(vocabulary))]
	}
	return strings.Join(said, " ")
}

// question returns the n-th message of all users.
func question(n int) string {
	chance := rand.New(rand.NewPCG(uint64(n), 1)) //nolint:gosec // the same words for the same number
	return fmt.Sprintf("ask%d %s", n, words(chance, 4+chance.IntN(20)))
}

// answer returns what the model replies to it.
func answer(n int) string {
	chance := rand.New(rand.NewPCG(uint64(n), 2)) //nolint:gosec // as above
	count := 5 + chance.IntN(50)
	if n%longReplyEvery == 0 {
		count = longReplyWords
	}
	return fmt.Sprintf("said%d %s", n, words(chance, count))
}

// model is the offline model, which replies as above and summarizes by listing marks. It runs in the harness's
// process, so it is never killed, and records what each prompt showed.
type model struct {
	*offline.Listening
	mu    sync.Mutex
	shown map[int][]string // by the number of the message: the marks of the last prompt, without its own
}

func startModel() (*model, error) {
	m := &model{shown: map[int][]string{}}
	var err error
	m.Listening, err = offline.Start(offline.Options{Script: m.script})
	return m, err
}

func (m *model) script(r *offline.Request) offline.Answer {
	if r.Kind == offline.KindSummary {
		latency := rand.N(longestFold) //nolint:gosec // spreads the kills over a fold's life
		return offline.Answer{Text: "Said so far: " + strings.Join(marks.FindAllString(r.Text, -1), " ") + ".", Latency: latency}
	}
	n, err := strconv.Atoi(strings.TrimPrefix(marks.FindString(r.Current), "ask"))
	if err != nil {
		return offline.Answer{Fault: offline.Fault500} // no client asks that
	}
	before, _, _ := strings.Cut(r.Text, memoryprompt.Heading("question"))
	before, _, _ = strings.Cut(before, memoryprompt.Heading("recall")) // it quotes what the brief holds as well
	m.mu.Lock()
	m.shown[n] = marks.FindAllString(before, -1)
	m.mu.Unlock()
	return offline.Answer{Text: answer(n), PieceDelay: pieceDelay}
}

// shownTo returns the marks in the last prompt of a message.
func (m *model) shownTo(n int) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.shown[n]
}
