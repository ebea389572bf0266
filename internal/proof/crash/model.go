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
)

// Every message and every reply begins with a mark of its own, and everything else in it follows from its number.
// So the database alone tells whose words are where: what a reply must say, and what a brief holds twice or not at all.
const (
	pieceDelay = 20 * time.Millisecond
	// longestFold is how long the model thinks about a summary at most: long enough to be killed meanwhile.
	longestFold = 400 * time.Millisecond
	// Some replies go on for seconds, so that most of one that is killed has to be stored.
	longReplyEvery = 16
	longReplyWords = 180
)

var (
	marks      = regexp.MustCompile(`\b(?:ask|said)\d+\b`)
	vocabulary = strings.Fields("amber brook café dawn ember field grove harbor island jungle kettle lantern meadow night ocean 日本語 " +
		"quiet river stone tower umbra valley willow yonder zephyr Größe ñandú orbit pepper silver")
)

// words gives so many words that follow from a number.
func words(chance *rand.Rand, count int) string {
	said := make([]string, count)
	for i := range said {
		said[i] = vocabulary[chance.IntN(len(vocabulary))]
	}
	return strings.Join(said, " ")
}

// question is the n-th message that anybody sends.
func question(n int) string {
	chance := rand.New(rand.NewPCG(uint64(n), 1)) //nolint:gosec // the same words for the same number
	return fmt.Sprintf("ask%d %s", n, words(chance, 4+chance.IntN(20)))
}

// answer is what the model replies to it.
func answer(n int) string {
	chance := rand.New(rand.NewPCG(uint64(n), 2)) //nolint:gosec // as above
	count := 5 + chance.IntN(50)
	if n%longReplyEvery == 0 {
		count = longReplyWords
	}
	return fmt.Sprintf("said%d %s", n, words(chance, count))
}

// model is the offline model, which answers as above and sums up by listing marks. It belongs to the harness, so no
// crash reaches it, and it remembers what each prompt showed.
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
		return offline.Answer{Fault: offline.Fault500} // nobody here asks that
	}
	before, _, _ := strings.Cut(r.Text, "CURRENT MESSAGE:")
	m.mu.Lock()
	m.shown[n] = marks.FindAllString(before, -1)
	m.mu.Unlock()
	return offline.Answer{Text: answer(n), PieceDelay: pieceDelay}
}

// shownTo gives the marks of the last prompt of a message.
func (m *model) shownTo(n int) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.shown[n]
}
