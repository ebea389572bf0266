package people

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	memoryprompt "github.com/arcoscribe/throughline/internal/memory/prompt"
)

// Talk is what people and the model say. Every message and every reply begins with a mark, and all else in it follows
// from its number. So the database alone shows what a reply must contain, and what a brief covers twice or not at all.
type Talk struct {
	Subjects     Subjects      // what users talk about, by turns: a chat wanders between them and comes back
	Words, Reply Range         // words of a message, and of the reply to it
	LongReply    Range         // of one reply in so many
	Article      Range         // pasted into one message in so many
	Files        Range         // words of each of the files that one message in so many brings
	NoVectorIn   int           // one request for vectors in so many fails, at random; 0 for none
	SayEvery     int           // one message in so many says something to remember
	ErrandEvery  int           // for one message in so many the model calls tools; 0 for none
	First        time.Duration // from the question to the first word
	Pace         [2]time.Duration
	Summary      time.Duration // what a summary or an extraction takes at most
	// Lists makes summaries list the marks of what they cover, so that it can be checked; else they are the offline model's.
	Lists bool

	mu    sync.Mutex
	shown map[int][]string  // by the number of the message: the marks of the last prompt, without its own
	asked map[int]time.Time // by the number of the message: when the model was asked last
	read  map[int]time.Time // by the number of the message: when its memory is proposed
	// decided is when the last memory is superseded about which the model is asked now.
	decided time.Time
}

// Range is numbers from Least up to Most, in one message out of Every; 0 for none.
type Range struct{ Least, Most, Every int }

func (r Range) happens(n int) bool { return r.Every > 0 && n%r.Every == 0 }

func (r Range) draw(dice *rand.Rand) int { return r.Least + dice.IntN(max(r.Most-r.Least, 0)+1) }

var (
	marks   = regexp.MustCompile(`\b(?:ask|said)\d+\b`)
	inTown  = regexp.MustCompile(`\b(?:lives|works|swims|sings) in\b`)
	sayings = regexp.MustCompile(`I (?:repair \w+|(?:live|work|swim|sing) in \w+|keep the lantern number \d+)\.`)
	verb    = regexp.MustCompile(`^I (\w+)`)
)

// The words of the messages: enough that no two messages are alike, few enough that a search finds something.
var (
	things = strings.Fields("tempo notebook schedule recipe window harbour chapter melody ladder compass ticket carpet letter bridge mirror " +
		"season basket engine pattern")
	persons = strings.Fields("Anna Boris Chiara David Elif Farid Greta Hugo Irina Jonas Kenji Lena Mateo Nadia Omar Paula")
	actions = strings.Fields("measured repaired forgot borrowed practised sketched ordered returned rehearsed painted counted moved cancelled planned " +
		"compared finished")
	// foreign words are only in replies: what a memory says has to be in the language of its message.
	foreign = strings.Fields("café 日本語 Größe ñandú")
	towns   = []string{"Lyon", "Porto", "Ghent", "Turin", "Graz", "Bergen", "Basel"}
	// doings are what a user does in one town at a time.
	doings = []string{"live", "work", "swim", "sing"}
	crafts = []string{"clocks", "violins", "atlases", "barometers"}
)

// The sequences of chance that belong to the number of a message.
const (
	ofQuestion = iota + 1
	ofReply
	ofFiles
	ofPace
)

// newDice makes the same choices for the same seed and sequence.
func newDice(seed uint64, sequence int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, uint64(sequence))) //nolint:gosec // repeatable by its seed
}

func one[T any](dice *rand.Rand, of []T) T { return of[dice.IntN(len(of))] }

// prose returns words in sentences that a summary can keep, of a dozen words each.
func prose(dice *rand.Rand, words int, foreigners bool) string {
	var said []string
	for len(said) < words {
		said = append(said, strings.Fields(fmt.Sprintf("On day %d %s %s the %s for the %s, and the %s cost %d.", dice.IntN(1000), one(dice, persons),
			one(dice, actions), one(dice, things), one(dice, things), one(dice, things), dice.IntN(10_000)))...)
		if foreigners {
			said[len(said)-3] = one(dice, foreign)
		}
	}
	return strings.Join(said[:words], " ")
}

// Question returns the n-th message of all users: its mark, perhaps a sentence to remember, its subject, and other words.
func (t *Talk) Question(n int) string {
	dice, words := newDice(uint64(n), ofQuestion), t.Words
	if t.Article.happens(n) {
		words = t.Article
	}
	return fmt.Sprintf("ask%d %sAbout the %s: %s", n, t.saying(n), t.Subjects.Of(n), prose(dice, words.draw(dice), false))
}

// ReplyTo returns what the model replies to it.
func (t *Talk) ReplyTo(n int) string {
	dice, words := newDice(uint64(n), ofReply), t.Reply
	if t.LongReply.happens(n) {
		words = t.LongReply
	}
	return fmt.Sprintf("said%d %s", n, prose(dice, words.draw(dice), true))
}

// FilesOf returns the files that come with a message.
func (t *Talk) FilesOf(n int) (files []map[string]string) {
	if !t.Files.happens(n) {
		return nil
	}
	dice := newDice(uint64(n), ofFiles)
	for range 1 + dice.IntN(2) {
		files = append(files, map[string]string{
			"path":    fmt.Sprintf("notes/%s-%d.txt", one(dice, things), dice.IntN(100)),
			"content": strings.ReplaceAll(prose(dice, t.Files.draw(dice), false), ". ", ".\n"),
		})
	}
	return files
}

// saying returns the sentence of a message that is to be remembered: mostly another thing; sometimes the same thing as
// others of the same user, and sometimes one that contradicts what they said before.
func (t *Talk) saying(n int) string {
	const kinds = 5
	if n%max(t.SayEvery, 1) != 0 {
		return ""
	}
	switch n /= max(t.SayEvery, 1); n % kinds {
	case 0:
		return fmt.Sprintf("I repair %s. ", crafts[n/kinds%len(crafts)])
	case 1:
		return fmt.Sprintf("I %s in %s. ", doings[n/kinds/len(towns)%len(doings)], towns[n/kinds%len(towns)])
	}
	return fmt.Sprintf("I keep the lantern number %d. ", n)
}

// asTold returns a saying as a memory tells it.
func asTold(saying string) string { return verb.ReplaceAllString(saying, "The user ${1}s") }

// pace returns how long the model takes for a word of a reply: no two replies are in step.
func (t *Talk) pace(n int) time.Duration {
	return t.Pace[0] + upTo(newDice(uint64(n), ofPace), t.Pace[1]-t.Pace[0]).Truncate(time.Millisecond)
}

// FirstWord is how long after a question the first word of its reply is due.
func (t *Talk) FirstWord(n int) time.Duration { return t.First + t.pace(n) }

// Due returns when a word of a reply was due, counted from 0, which is its mark.
func (t *Talk) Due(n, word int) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.asked[n].Add(t.First + time.Duration(word+1)*t.pace(n))
}

// Answer is the Script of the model.
func (t *Talk) Answer(r *offline.Request) offline.Answer {
	wait := rand.N(max(t.Summary, 1)) //nolint:gosec // spreads the kills over the life of a fold
	switch r.Kind {
	case offline.KindReply:
		return t.reply(r)
	case offline.KindExtract:
		t.reads(offline.NewMessages(r.Text), wait)
		return offline.Answer{Text: extractAll(r.Text), Latency: wait}
	case offline.KindConsolidate:
		return t.consolidate(r.Text, 4*wait)
	case offline.KindEntities:
		return offline.Answer{Text: `{"entities":[],"relationships":[]}`}
	case offline.KindEmbedding:
		if t.NoVectorIn > 0 && rand.IntN(t.NoVectorIn) == 0 { //nolint:gosec // spreads failures
			return offline.Answer{Fault: offline.Fault500}
		}
	case offline.KindTitle:
		said := marks.FindAllString(r.Text, 6)
		t.reads(r.Text, wait)
		return offline.Answer{Text: "About " + strings.Join(said, " "), Latency: wait}
	case offline.KindTopic, offline.KindSummary:
		if r.Kind == offline.KindTopic {
			t.reads(r.Text, wait)
		}
		if t.Lists {
			return offline.Answer{Text: "Said so far: " + strings.Join(marks.FindAllString(r.Text, -1), " ") + ".", Latency: wait}
		}
		return offline.Answer{Latency: wait}
	}
	return offline.Answer{}
}

func (t *Talk) reply(r *offline.Request) offline.Answer {
	n, err := strconv.Atoi(strings.TrimPrefix(marks.FindString(r.Current), "ask"))
	if err != nil {
		return offline.Answer{Fault: offline.Fault500} // no one here asks that
	}
	before, _, _ := strings.Cut(r.Text, memoryprompt.Heading("question"))
	// These quote what the brief holds as well.
	before, _, _ = strings.Cut(before, memoryprompt.Heading("topic"))
	before, _, _ = strings.Cut(before, memoryprompt.Heading("recall"))
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.shown == nil {
		t.shown, t.asked = map[int][]string{}, map[int]time.Time{}
	}
	t.asked[n] = time.Now()
	if t.Lists {
		t.shown[n] = marks.FindAllString(before, -1)
	}
	text := t.ReplyTo(n)
	const bytesPerToken = 4 // accurate enough here, and counting costs CPU
	usage := offline.Usage{Input: len(r.Text) / bytesPerToken, Output: len(text) / bytesPerToken}
	answer := offline.Answer{Text: text, Latency: t.First, PieceDelay: t.pace(n), Usage: &usage}
	if e := t.errand(n); e.calls != nil {
		answer.Items = e.steps(r, n, text)
	}
	return answer
}

// extractAll is a model that makes a memory of what a user says, and of what the assistant said, which nothing may be made of.
func extractAll(input string) string {
	facts := []offline.Fact{}
	for _, line := range offline.ReadLines(offline.NewMessages(input), "UA") {
		text, _, _ := strings.Cut(line.Text, "\n")
		if said := sayings.FindString(text); said != "" {
			fact := Keep(asTold(said), said, line.Alias)
			fact.Entities = []offline.Entity{{Name: said[strings.LastIndex(said, " ")+1 : len(said)-1], Type: "other"}}
			facts = append(facts, fact)
		} else if mark := marks.FindString(text); strings.HasPrefix(mark, "said") {
			facts = append(facts, Keep("The user has the number "+mark+".", text, line.Alias))
		}
	}
	return Encode(map[string]any{"facts": facts})
}

// consolidate is a model that closes the town where a user did the same before, and adds everything else.
func (t *Talk) consolidate(input string, wait time.Duration) offline.Answer {
	closes := false
	text := offline.Decide(input, func(c offline.Line, memories []offline.Line) *offline.Decision {
		doing := inTown.FindString(c.Text)
		at := slices.IndexFunc(memories, func(m offline.Line) bool { return doing != "" && doing == inTown.FindString(m.Text) })
		if at < 0 {
			return nil
		}
		closes = true
		return &offline.Decision{Action: "DELETE", Memory: &memories[at].Alias, Reason: "new"}
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	if answered := time.Now().Add(wait); closes && answered.After(t.decided) {
		t.decided = answered
	}
	return offline.Answer{Text: text, Latency: wait}
}

// Shown returns the marks in the last prompt of a message.
func (t *Talk) Shown(n int) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.shown[n]
}

// reads notes which messages an extraction or the summary of a topic reads, and when it is answered.
func (t *Talk) reads(input string, wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.read == nil {
		t.read = map[int]time.Time{}
	}
	for _, mark := range marks.FindAllString(input, -1) {
		if n, err := strconv.Atoi(strings.TrimPrefix(mark, "ask")); err == nil {
			t.read[n] = time.Now().Add(wait)
		}
	}
}

// isDeciding reports whether a memory is about to be superseded.
func (t *Talk) isDeciding() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Now().Before(t.decided)
}

// storing is how long it takes at most, as a rule, until a proposal is stored.
const storing = 500 * time.Millisecond

// isRead reports whether a memory of a message, or a summary that holds it, is about to be stored.
func (t *Talk) isRead(n int) bool {
	ago := time.Since(t.readUntil(n))
	return ago > -storing/4 && ago < storing
}

// readUntil returns when the model answers that reads a message.
func (t *Talk) readUntil(n int) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.read[n]
}

func upTo(dice *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(dice.Int64N(max(int64(d), 1)))
}
