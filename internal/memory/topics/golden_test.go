package topics

import (
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/testkit/golden"
)

//go:embed testdata/assign.txt
var assignments string

const day = 24 * time.Hour

var goldenNow = time.Date(2026, time.March, 3, 9, 0, 0, 0, time.UTC)

// Every setting and constant, both curves day by day, and the table of consolidation.
func TestGoldenConstants(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	s := Defaults()
	fmt.Fprintf(&out, "%+v\n", s)
	fmt.Fprintf(&out, "decay below %v, merge at %v, section %v tokens, summary %v tokens, title %v characters, %v content words\n",
		DecayBelow, MergeAt, SectionTokens, SummaryTokens, TitleLength, ContentWords)
	for _, curve := range []struct{ accesses, step, days int }{{0, 1, 7}, {20, 1, 96}} {
		fmt.Fprintf(&out, "\n%d accesses, importance 1\n", curve.accesses)
		for n := 0; n <= curve.days; n += curve.step {
			fmt.Fprintf(&out, "%3d days  %.5f\n", n, s.Priority(1, curve.accesses, time.Duration(n)*day))
		}
	}
	out.WriteString("\naccesses  half-life  memory type    after five half-lives  below 0.05 after\n")
	for _, accesses := range []int{0, 4, 5, 9, 10, 14, 15, 19, 20, 24, 25, 29, 30, 1000} {
		life := s.HalfLifeOf(accesses)
		fmt.Fprintf(&out, "%8d  %2.0f days    %-13s  %3.0f days, %.5f       %6.2f days\n", accesses, life.Hours()/24, s.MemoryTypeOf(accesses),
			5*life.Hours()/24, s.Priority(1, accesses, 5*life), s.FadesAfter(1, accesses).Hours()/24)
	}
	out.WriteString("\nimportance   rated -1, 0, 1           pinned  below 0.05 after\n")
	for _, importance := range []float64{0, .05, .3, .5, .9, 1} {
		fmt.Fprintf(&out, "%4.2f         %.3f, %.3f, %.3f      %.2f    %5.2f days\n", importance, Rate(importance, -1), Rate(importance, 0), Rate(importance, 1),
			PinnedImportance(importance), s.FadesAfter(importance, 0).Hours()/24)
	}
	golden.Check(t, "constants.golden", out.String())
}

// The script is a list of chats. "1 cello:.8,bees:.6 was=2 | …" is a turn with a vector that has these parts, or "-"; the
// rest acts on the topics.
func TestGoldenAssignments(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	for chat := range strings.SplitSeq(strings.TrimPrefix(assignments, "# "), "\n# ") {
		lines := strings.Split(strings.TrimSpace(chat), "\n")
		fmt.Fprintf(&out, "== %s ==\n", lines[0])
		p := newPlay()
		for n, line := range lines[1:] {
			p.play(t, &out, line, append(lines, "")[n+2])
		}
		p.topics(&out)
	}
	golden.Check(t, "assign.golden", out.String())
}

type play struct {
	Chat
	turns map[int64]uuid.UUID
}

// evenScale makes a similarity of each cosine.
var evenScale = recall.Scale{P50: .2, P99: .62}

func newPlay() *play {
	return &play{Chat: Chat{Settings: Defaults(), ByMeaning: ByMeaning{Model: "m1", Scale: evenScale}}, turns: map[int64]uuid.UUID{}}
}

// play plays a line. If the one after it is a turn as well, both are chosen at once.
func (p *play) play(t *testing.T, out *strings.Builder, line, after string) {
	t.Helper()
	if turn := p.turn(t, line); turn != nil {
		p.assign(out, turn, p.turn(t, after))
		return
	}
	words := strings.Fields(line)
	switch fmt.Fprintf(out, "%s\n", line); words[0] {
	case "again":
	case "english":
		p.Scale.Languages = "en"
	case "model":
		p.Model = "m2"
	case "pack":
		p.number(t, words[1]).Packed = true
	case "archive":
		topic := p.number(t, words[1])
		topic.State, topic.Packed = Archived, true
	case "forget":
		topic := p.number(t, words[1])
		p.Topics = slices.DeleteFunc(p.Topics, func(other *Topic) bool { return other == topic })
	default:
		t.Fatalf("what is %q?", line)
	}
}

// played is a turn of the script.
type played struct {
	Turn

	alone bool // it is not joined to the turn before
}

// turn reads a line; nil if it is no turn.
func (p *play) turn(t *testing.T, line string) *played {
	t.Helper()
	fields, question, isTurn := strings.Cut(line, " | ")
	if !isTurn {
		return nil
	}
	words := strings.Fields(fields)
	seq := int64(number(t, words[0]))
	turn := &played{Turn: Turn{
		Seq: seq, LastSeq: seq + 1, SaidAt: goldenNow.Add(time.Duration(seq) * time.Hour), Question: question, Messages: 2, Vector: vectorOf(t, words[1]),
	}}
	for _, flag := range words[2:] {
		name, value, _ := strings.Cut(flag, "=")
		switch name {
		case "was":
			turn.TopicID = p.number(t, value).ID
		case "before":
			turn.alone = true
		case "importance":
			importance := number(t, value)
			turn.Importance = &importance
		case "rating":
			turn.Ratings = append(turn.Ratings, int(number(t, value)))
		case "pinned":
			turn.Pinned = true
		default:
			t.Fatalf("what is %q?", flag)
		}
	}
	return turn
}

func (p *play) assign(out *strings.Builder, turn, after *played) {
	var next *Turn
	if after != nil {
		next = &after.Turn
	}
	before := p.turns[turn.Seq-2]
	if turn.alone {
		before = uuid.Nil
	}
	d := p.Assign(turn.Turn, next, before)
	p.turns[turn.Seq] = d.Topic.ID
	fmt.Fprintf(out, "%2d %-9s %d", turn.Seq, d.How, d.Topic.Number)
	if d.Similarity > 0 {
		fmt.Fprintf(out, " at %.2f", d.Similarity)
	}
	switch {
	case d.Model == nil:
		out.WriteString(", to be chosen again")
	case *d.Model == "":
		out.WriteString(", for good")
	}
	if d.Returned {
		out.WriteString(", returned")
	}
	if d.Retitle {
		out.WriteString(", gives it its title")
	}
	if d.From != nil {
		fmt.Fprintf(out, ", from %d with %d messages left", d.From.Number, d.From.MessageCount)
	}
	fmt.Fprintf(out, " | %s\n", turn.Question)
}

func (p *play) topics(out *strings.Builder) {
	for _, topic := range p.Topics {
		rated := ""
		if topic.Rated {
			rated = " (rated)"
		}
		fmt.Fprintf(out, "   topic %d %s: seq %d–%d, %d messages, %d accesses, importance %.3f%s, mean of %d, %s to %s\n", topic.Number, topic.State,
			topic.FirstSeq, topic.LastSeq,
			topic.MessageCount, topic.AccessCount, topic.Importance, rated, topic.CentroidTurns, topic.CreatedAt.Format("15:04"), topic.LastActiveAt.Format("15:04"))
	}
}

func (p *play) number(t *testing.T, written string) *Topic {
	t.Helper()
	for _, topic := range p.Topics {
		if topic.Number == int(number(t, written)) {
			return topic
		}
	}
	t.Fatalf("no topic %s", written)
	return nil
}

func number(t *testing.T, written string) float64 {
	value, err := strconv.ParseFloat(written, 64)
	require.NoError(t, err)
	return value
}

func vectorOf(t *testing.T, written string) []float32 {
	if written == "-" {
		return nil
	}
	vector := make([]float32, 4)
	length := 0.
	for part := range strings.SplitSeq(written, ",") {
		name, share, _ := strings.Cut(part, ":")
		value := number(t, share)
		vector[slices.Index([]string{"cello", "bees", "chess", "tea"}, name)] = float32(value)
		length += value * value
	}
	for n := range vector {
		vector[n] /= float32(math.Sqrt(length))
	}
	return vector
}
