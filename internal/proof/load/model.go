package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// roleModel makes this command the stand-in for the model's provider. It is a process of its own, so that its
// costs are not counted for another.
const roleModel = "role-model"

// Each reply has a pace between the fastest and the slowest, so that replies are not in step.
const (
	replyLatency = 300 * time.Millisecond // before the first word
	foldLatency  = 2 * time.Second
	slowestWord  = 30 * time.Millisecond
	fastestWord  = 15 * time.Millisecond
)

// askedFor finds how long an answer a message wants; defaultWords is for one that names no length.
var askedFor = regexp.MustCompile(`in (\d+) words`)

const defaultWords = 60

// stamp is a reply's first word: when the model was asked, in microseconds since 1970, and how many milliseconds
// it takes for a word. From it a reader knows when the n-th word was due.
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

// due returns when the n-th word was due, counted from 0, which is the stamp itself.
func (s stamp) due(n int) time.Time {
	return s.asked.Add(replyLatency + time.Duration(n+1)*s.pace)
}

// answer scripts the offline model: replies at a pace, and the model's own summaries after foldLatency.
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
	const bytesPerToken = 4 // accurate enough here, and counting costs CPU
	usage := offline.Usage{Input: len(r.Text) / bytesPerToken, Output: len(text) / bytesPerToken}
	return offline.Answer{Text: text, Latency: replyLatency, PieceDelay: s.pace, Usage: &usage}
}

// runModel serves the model until stdin ends.
func runModel(stdin io.Reader, stdout io.Writer) error {
	model := offline.New(offline.Options{Script: answer})
	defer model.Close()
	// Idle connections are closed soon, as providers do: what is open after the load is then held by the program.
	base, stop, err := kit.Serve(context.Background(), model, 3*time.Second)
	if err != nil {
		return err
	}
	defer stop()
	fmt.Fprintln(stdout, base+"/v1")
	_, _ = io.Copy(io.Discard, stdin) // nothing is written: this waits for the end
	return nil
}

// The words of the messages: enough that no two messages are alike, few enough that a search finds something.
var (
	subjects = strings.Fields("cello garden kitchen budget journey novel marathon piano workshop thesis bicycle orchestra harvest bakery translation telescope")
	things   = strings.Fields("tempo notebook schedule recipe window harbour chapter melody ladder compass ticket lantern carpet letter bridge mirror " +
		"season basket engine pattern")
	persons = strings.Fields("Anna Boris Chiara David Elif Farid Greta Hugo Irina Jonas Kenji Lena Mateo Nadia Omar Paula")
	actions = strings.Fields("measured repaired forgot borrowed practised sketched ordered returned rehearsed painted counted moved cancelled planned " +
		"compared finished")
)

// newDice makes the same choices for the same seed.
func newDice(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) } //nolint:gosec // guards nothing

func one(dice *rand.Rand, of []string) string { return of[dice.IntN(len(of))] }

// sentence states something that a summary can keep, in about a dozen words.
func sentence(dice *rand.Rand) string {
	return fmt.Sprintf("On day %d %s %s the %s for the %s, and the %s cost %d.", dice.IntN(1000), one(dice, persons), one(dice, actions),
		one(dice, things), one(dice, subjects), one(dice, things), dice.IntN(10_000))
}

// prose returns sentences of at least that many words together.
func prose(dice *rand.Rand, words int) string {
	var said []string
	for count := 0; count < words; {
		s := sentence(dice)
		said = append(said, s)
		count += strings.Count(s, " ") + 1
	}
	return strings.Join(said, " ")
}

// upTo returns a random duration below d.
func upTo(dice *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(dice.Int64N(max(int64(d), 1)))
}
