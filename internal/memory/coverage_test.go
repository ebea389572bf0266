package memory

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"
)

// simChat is a chat as the database would hold it, with a worker that folds whenever the test lets it.
type simChat struct {
	limits  Limits
	rows    []Message
	brief   Brief
	planned *Plan            // of a fold between its two transactions
	read    map[int64]string // what summarizers were given of each row, in committed folds
	maxTurn int              // tokens a turn may have
	before  Prompt           // the prompt of the turn before; zero after a fold
}

func newSim(limits Limits, maxTurn int) *simChat {
	return &simChat{limits: limits, read: map[int64]string{}, maxTurn: maxTurn}
}

func (c *simChat) say(role Role, tokens int, text string) Message {
	m := row(int64(len(c.rows)+1), role, "")
	m.Content, m.Tokens = text, tokens
	c.rows = append(c.rows, m)
	return m
}

// exchange adds one turn of a random kind: plain, with tool rows, failed, without a reply, streaming for ever.
func (c *simChat) exchange(t *rapid.T) {
	if len(c.rows) > 0 && c.rows[len(c.rows)-1].Status == StatusStreaming {
		c.rows[len(c.rows)-1].Status = StatusInterrupted // as the sweep of orphans does
	}
	n := len(c.rows) + 1
	half := c.maxTurn / 2
	question := c.say(RoleUser, rapid.IntRange(1, half).Draw(t, "question"), fmt.Sprintf("<q%d>", n))
	kind := rapid.IntRange(0, 9).Draw(t, "kind")
	if kind == 0 {
		return
	}
	if kind == 1 {
		c.say(RoleTool, 1, fmt.Sprintf("<call%d>", n))
		c.say(RoleTool, 1, fmt.Sprintf("<result%d>", n))
	}
	answer := fmt.Sprintf("<a%d>", n)
	if kind == 2 {
		answer = ""
	}
	c.say(RoleAssistant, rapid.IntRange(0, max(0, half-2)).Draw(t, "answer"), answer)
	last := &c.rows[len(c.rows)-1]
	last.ReplyTo = question.ID
	if kind == 3 {
		last.Status = StatusStreaming
	}
}

func (c *simChat) buffer() []Turn {
	return Turns(c.rows[c.brief.CoveredSeq:])
}

func (c *simChat) due() bool {
	tokens, users := 0, 0
	for _, m := range c.rows[c.brief.CoveredSeq:] {
		tokens += m.Tokens
		if m.Role == RoleUser {
			users++
		}
	}
	return Due(c.brief.Tokens, tokens, users, c.limits)
}

// plan is the first half of a fold.
func (c *simChat) plan(t *rapid.T) bool {
	plan, ok := PlanFold(c.brief, c.buffer(), c.limits)
	if !ok {
		return false
	}
	if plan.SeqFrom != c.brief.CoveredSeq+1 || plan.SeqTo < plan.SeqFrom {
		t.Fatalf("a fold of %d to %d after %d", plan.SeqFrom, plan.SeqTo, c.brief.CoveredSeq)
	}
	for _, m := range c.rows[plan.SeqFrom-1 : plan.SeqTo] {
		if m.Status == StatusStreaming {
			t.Fatalf("the fold to %d passes the streaming row %d", plan.SeqTo, m.Seq)
		}
	}
	c.planned = &plan
	return true
}

// commit is the second half: the compare-and-set, and what the summarizer was given.
func (c *simChat) commit(t *rapid.T) {
	plan := c.planned
	c.planned = nil
	if plan == nil || plan.SeqFrom != c.brief.CoveredSeq+1 {
		return
	}
	for _, piece := range plan.Pieces {
		for _, turn := range piece.Turns {
			for _, e := range turn {
				c.read[e.Message.Seq] += e.Text
			}
		}
	}
	c.checkRead(t, plan)
	c.brief = Brief{
		Summary: "They talked. It went on.", Tokens: rapid.IntRange(1, c.limits.SummaryTokenCap).Draw(t, "brief"),
		Version: c.brief.Version + 1, CoveredSeq: plan.SeqTo, LastSummarizedMessageID: plan.LastSummarizedMessageID,
	}
	c.before = Prompt{}
}

func (c *simChat) checkRead(t *rapid.T, plan *Plan) {
	for _, m := range c.rows[plan.SeqFrom-1 : plan.SeqTo] {
		if got := c.read[m.Seq]; got != m.Content {
			t.Fatalf("row %d: the summarizers read %q of %q", m.Seq, got, m.Content)
		}
	}
	if plan.LastSummarizedMessageID == uuid.Nil {
		t.Fatal("a fold without a last message")
	}
}

// prompt builds the next prompt and checks coverage: every turn is covered by the brief, word for word
// in the prompt, counted as dropped, or (in the tail, and said so) clipped.
func (c *simChat) prompt(t *rapid.T) Prompt {
	p := Build(Chat{Brief: c.brief, Turns: c.buffer()}, Question{Content: "next"}, c.limits)
	missing := 0
	for i, turn := range c.buffer() {
		inTail := i >= len(c.buffer())-p.Receipt.TailTurns
		var b strings.Builder
		writeTurn(&b, turn)
		switch {
		case strings.Contains(p.Input, b.String()):
		case p.Dropped.Turns > 0 && turn.LastSeq() <= p.Dropped.LastSeq:
			missing++
		case !p.Receipt.Truncated || !inTail:
			t.Fatalf("turn %d to %d is in neither brief nor prompt:\n%s", turn.FirstSeq(), turn.LastSeq(), p.Input)
		}
	}
	if missing != p.Receipt.DroppedTurns || missing != p.Dropped.Turns {
		t.Fatalf("%d turns are missing, the receipt says %d", missing, p.Receipt.DroppedTurns)
	}
	if shown := p.Receipt.BridgeTurns + p.Receipt.TailTurns + missing; shown != len(c.buffer()) {
		t.Fatalf("%d of %d turns are accounted for", shown, len(c.buffer()))
	}
	c.checkPrefix(t, p)
	return p
}

// checkPrefix holds the promise to the provider's cache: between two folds memory only grows at its end.
func (c *simChat) checkPrefix(t *rapid.T, p Prompt) {
	cut := p.Receipt.Truncated || p.Receipt.DroppedTurns > 0 || c.before.Receipt.Truncated || c.before.Receipt.DroppedTurns > 0
	if !cut && !strings.HasPrefix(p.Input, c.before.Memory) {
		t.Fatalf("the memory\n%s\nis no beginning of\n%s", c.before.Memory, p.Input)
	}
	c.before = p
}

func (c *simChat) foldAll(t *rapid.T) {
	for range len(c.rows) + 1 {
		if !c.due() || !c.plan(t) {
			return
		}
		c.commit(t)
	}
	t.Fatal("folding does not come to an end")
}

func anyLimits(t *rapid.T) Limits {
	positive := func(name string, top int) int { return rapid.IntRange(1, top).Draw(t, name) }
	return Limits{
		KRawTurns: positive("k", 6), MinTailTurns: positive("min tail", 6), SummaryTokenCap: positive("cap", 800),
		PromptTokenBudget: positive("prompt", 4000), BridgeTokenBudget: rapid.IntRange(0, 8000).Draw(t, "bridge"),
		ChunkThreshold: positive("threshold", 9000), FoldInputTokens: positive("fold", 9000),
	}
}

func TestCoverageWhateverHappens(t *testing.T) {
	t.Parallel()
	for _, defaults := range []bool{true, false} {
		t.Run(fmt.Sprintf("defaults %v", defaults), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				limits := DefaultLimits()
				if !defaults {
					limits = anyLimits(t)
				}
				c := newSim(limits, rapid.IntRange(8, 12_000).Draw(t, "turn size"))
				for range rapid.IntRange(1, 40).Draw(t, "steps") {
					c.step(t)
				}
			})
		})
	}
}

// step is one thing that can happen to a chat. A worker that dies keeps its plan to itself; one that
// was late commits on top of whatever happened meanwhile.
func (c *simChat) step(t *rapid.T) {
	switch rapid.IntRange(0, 6).Draw(t, "step") {
	case 0:
		if c.planned == nil && c.due() {
			c.plan(t)
		}
	case 1:
		c.commit(t)
	case 2:
		c.planned = nil
	case 3:
		late := c.planned
		c.foldAll(t)
		c.planned = late
	default:
		c.prompt(t)
		c.exchange(t)
	}
}

// With the defaults and folds in time nothing is ever dropped, however long the turns are.
func TestNothingIsDroppedWithDefaultsAndTimelyFolds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limits := DefaultLimits()
		c := newSim(limits, rapid.IntRange(8, 5*limits.BridgeTokenBudget).Draw(t, "turn size"))
		for range rapid.IntRange(1, 60).Draw(t, "turns") {
			if p := c.prompt(t); p.Receipt.DroppedTurns > 0 {
				t.Fatalf("dropped: %+v", p.Dropped)
			}
			c.exchange(t)
			c.settle()
			c.foldAll(t)
		}
	})
}

// settle ends a generation that was left streaming: only then is a fold timely.
func (c *simChat) settle() {
	if last := &c.rows[len(c.rows)-1]; last.Status == StatusStreaming {
		last.Status = StatusComplete
	}
}

// A rebuild reads every covered row once, from an empty summary, and no other row.
func TestRebuildReadsWhatIsCovered(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := newSim(anyLimits(t), rapid.IntRange(8, 3000).Draw(t, "turn size"))
		for range rapid.IntRange(1, 20).Draw(t, "turns") {
			c.exchange(t)
			c.settle()
		}
		covered := rapid.Int64Range(0, int64(len(c.rows))).Draw(t, "covered")
		plan := PlanRebuild(Brief{CoveredSeq: covered}, Turns(c.rows), c.limits)
		read := map[int64]string{}
		for _, piece := range plan.Pieces {
			for _, turn := range piece.Turns {
				for _, e := range turn {
					read[e.Message.Seq] += e.Text
				}
			}
		}
		for _, m := range c.rows {
			if want := m.Content; m.Seq > covered && read[m.Seq] != "" || m.Seq <= covered && read[m.Seq] != want {
				t.Fatalf("row %d of %d covered: read %q of %q", m.Seq, covered, read[m.Seq], want)
			}
		}
	})
}

// Real text, cut into real pieces: each fits its room and together they are the whole message.
func TestLongMessagesAreSplitWithoutLoss(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.StringN(1, 400, -1), 1, 12).Draw(t, "text"), "\n\n") + "."
		m := row(1, RoleUser, text)
		limits := DefaultLimits()
		limits.FoldInputTokens = rapid.IntRange(1, 600).Draw(t, "fold")
		limits.KRawTurns = 1
		plan, ok := PlanFold(Brief{}, []Turn{{Messages: []Message{m}}, {Messages: []Message{row(2, RoleUser, "tail")}}}, limits)
		if !ok {
			t.Fatal("nothing to fold")
		}
		got := ""
		for _, piece := range plan.Pieces {
			for _, e := range piece.Turns[0] {
				got += e.Text
			}
		}
		if got != validText(text) {
			t.Fatalf("%q became %q", text, got)
		}
	})
}

func TestWholePieceKeepsEveryTurn(t *testing.T) {
	t.Parallel()
	piece := WholePiece(Turns(append(exchange(1, "one", "two"), exchange(3, "three", "")...)))
	if len(piece.Turns) != 2 || len(piece.Turns[0]) != 2 || len(piece.Turns[1]) != 1 || piece.Tokens != 3 {
		t.Errorf("the piece is %+v", piece)
	}
}
