package memory_test

import (
	"fmt"
	"strings"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// simChat is a chat as the database would hold it, with a worker that folds whenever the test lets it.
type simChat struct {
	limits   memory.Limits
	settings memory.Settings
	rows     []memory.Message
	brief    memory.Brief
	planned  *brief.Plan      // of a fold between its two transactions
	read     map[int64]string // what summarizers were given of each row, in committed folds
	maxTurn  int              // tokens a turn may have
	reach    int              // rows that a prompt reads at most
	lone     bool             // the assistant speaks unasked as well
	before   prompt.Prompt    // the prompt of the turn before; zero after a fold and any other change of its beginning
}

func newSim(limits memory.Limits, maxTurn int) *simChat {
	return &simChat{limits: limits, read: map[int64]string{}, maxTurn: maxTurn, reach: 1000}
}

func (c *simChat) say(role memory.Role, tokens int, text string) memory.Message {
	m := row(int64(len(c.rows)+1), role, "")
	m.Content, m.Tokens = text, tokens
	c.rows = append(c.rows, m)
	return m
}

// exchange adds one turn of a random kind: plain, with tool rows, failed, without a reply, streaming for ever.
func (c *simChat) exchange(t *rapid.T) {
	c.sweep()
	n := len(c.rows) + 1
	if c.lone && rapid.IntRange(0, 9).Draw(t, "unasked") == 0 {
		c.say(memory.RoleAssistant, 1, fmt.Sprintf("<unasked%d>", n))
		c.rows[n-1].ReplyTo = uuid.New() // a message that is gone
		return
	}
	half := c.maxTurn / 2
	question := c.say(memory.RoleUser, rapid.IntRange(1, half).Draw(t, "question"), fmt.Sprintf("<q%d>", n))
	kind := rapid.IntRange(0, 9).Draw(t, "kind")
	if kind == 0 {
		return
	}
	if kind == 1 {
		c.say(memory.RoleTool, 1, fmt.Sprintf("<call%d>", n))
		c.say(memory.RoleTool, 1, fmt.Sprintf("<result%d>", n))
	}
	answer := fmt.Sprintf("<a%d>", n)
	if kind == 2 {
		answer = ""
	}
	c.say(memory.RoleAssistant, rapid.IntRange(0, max(0, half-2)).Draw(t, "answer"), answer)
	last := &c.rows[len(c.rows)-1]
	last.ReplyTo = question.ID
	if kind == 3 {
		last.Status = memory.StatusStreaming
	}
}

// running reports whether the last reply is still streaming.
func (c *simChat) running() bool {
	return len(c.rows) > 0 && c.rows[len(c.rows)-1].Status == memory.StatusStreaming
}

// sweep ends a reply that streams for ever, as the sweep of orphans does.
func (c *simChat) sweep() {
	if c.running() {
		c.rows[len(c.rows)-1].Status = memory.StatusInterrupted
	}
}

// settle ends a generation that was left streaming: only then is a fold timely.
func (c *simChat) settle() {
	if c.running() {
		c.rows[len(c.rows)-1].Status = memory.StatusComplete
	}
}

// pending are the rows that are not in the brief; for a simple chat, which has none, all since the clear.
func (c *simChat) pending() []memory.Message {
	if c.settings.Strategy == memory.StrategySimple {
		return c.rows[c.brief.ClearedSeq:]
	}
	return c.rows[c.brief.CoveredSeq:]
}

func users(rows []memory.Message) int {
	n := 0
	for _, m := range rows {
		if m.Role == memory.RoleUser {
			n++
		}
	}
	return n
}

// chat returns what the store reads for a prompt.
func (c *simChat) chat() memory.Chat {
	rows := c.pending()
	chat := memory.Chat{Settings: c.settings, Brief: c.brief, PendingTurns: users(rows), TotalTurns: users(c.rows[c.brief.ClearedSeq:])}
	chat.Buffer = rows[max(0, len(rows)-c.reach):]
	for _, m := range c.rows[c.brief.ClearedSeq : len(c.rows)-len(chat.Buffer)] {
		if c.settings.Keeps(&m) {
			chat.Kept = append(chat.Kept, m)
		}
	}
	return chat
}

func (c *simChat) due() bool {
	tokens := 0
	rows := c.rows[c.brief.CoveredSeq:]
	for _, m := range rows {
		tokens += m.Tokens
	}
	return memory.Due(c.brief.Tokens, tokens, users(rows), c.limits.For(c.settings))
}

// plan is the first half of a fold.
func (c *simChat) plan(t *rapid.T) bool {
	plan, ok := brief.PlanFold(c.brief, memory.Turns(c.rows[c.brief.CoveredSeq:]), c.limits.For(c.settings))
	if !ok {
		return false
	}
	require.Truef(t, plan.SeqFrom == c.brief.CoveredSeq+1 && plan.SeqTo >= plan.SeqFrom,
		"a fold of %d to %d after %d", plan.SeqFrom, plan.SeqTo, c.brief.CoveredSeq)
	for _, m := range c.rows[plan.SeqFrom-1 : plan.SeqTo] {
		require.Truef(t, m.Status != memory.StatusStreaming, "the fold to %d passes the streaming row %d", plan.SeqTo, m.Seq)
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
	c.brief = memory.Brief{
		Summary: "They talked. It went on.", Tokens: rapid.IntRange(1, c.limits.SummaryTokenCap).Draw(t, "brief"),
		Version: c.brief.Version + 1, CoveredSeq: plan.SeqTo, LastSummarizedMessageID: plan.LastSummarizedMessageID,
		ClearedSeq: c.brief.ClearedSeq,
	}
	c.before = prompt.Prompt{}
}

func (c *simChat) checkRead(t *rapid.T, plan *brief.Plan) {
	for _, m := range c.rows[plan.SeqFrom-1 : plan.SeqTo] {
		require.Equalf(t, m.Content, c.read[m.Seq], "what the summarizers read of row %d", m.Seq)
	}
	require.True(t, plan.LastSummarizedMessageID != uuid.Nil, "a fold without a last message")
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

// step is one thing that can happen to a chat. A worker that dies keeps its plan to itself; one that
// was late commits on top of later changes.
func (c *simChat) step(t *rapid.T) {
	switch rapid.IntRange(0, 12).Draw(t, "step") {
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
	case 4:
		c.change(t)
	case 5:
		c.rate(t)
	case 6:
		c.clear()
	default:
		c.prompt(t)
		c.exchange(t)
	}
}

// change changes the settings of the chat.
func (c *simChat) change(t *rapid.T) {
	c.settings = anySettings(t)
	c.before = prompt.Prompt{}
}

func anySettings(t *rapid.T) memory.Settings {
	return memory.Settings{
		Strategy: rapid.SampledFrom([]memory.StrategyName{memory.StrategySimple, memory.StrategySummary, memory.StrategyHybrid}).Draw(t, "strategy"),
		MaxTurns: rapid.SampledFrom([]int{0, 0, 1, 2, 3, 7}).Draw(t, "max turns"),
	}
}

// rate pins a message, or sets its importance.
func (c *simChat) rate(t *rapid.T) {
	if len(c.rows) == 0 {
		return
	}
	m := &c.rows[rapid.IntRange(0, len(c.rows)-1).Draw(t, "message")]
	m.Pinned = rapid.Bool().Draw(t, "pinned")
	m.Importance = rapid.SampledFrom([]float32{0, 0.5, 0.8, 1}).Draw(t, "importance")
	c.before = prompt.Prompt{}
}

// clear clears the context; a reply that runs stands in its way.
func (c *simChat) clear() {
	if c.running() {
		return
	}
	c.brief = memory.Brief{Version: c.brief.Version + 1, CoveredSeq: int64(len(c.rows)), ClearedSeq: int64(len(c.rows))}
	c.before = prompt.Prompt{}
}

// prompt builds the next prompt and checks all that is promised of it.
func (c *simChat) prompt(t *rapid.T) prompt.Prompt {
	chat := c.chat()
	p := prompt.Build(chat, prompt.Question{Content: "next"}, c.limits)
	missing := c.checkTurns(t, p)
	inBrief := 0
	if c.settings.Strategy != memory.StrategySimple {
		inBrief = users(c.rows[c.brief.ClearedSeq:c.brief.CoveredSeq])
	}
	shown := p.Receipt.BridgeTurns + p.Receipt.TailTurns
	require.Lenf(t, memory.Turns(c.pending()), shown+missing, "%d turns are shown and %d missing", shown, missing)
	checkSentence(t, prompt.Coverage(chat, p.Receipt), inBrief, shown, missing, c.brief.ClearedSeq)
	c.checkOnce(t, p)
	c.checkKept(t, p)
	c.checkPrefix(t, p)
	return p
}

// checkTurns checks that every turn out of the brief is word for word in the prompt, counted as dropped, or (in the tail
// of a truncated prompt) clipped. It returns the number of dropped turns, which are the oldest.
func (c *simChat) checkTurns(t *rapid.T, p prompt.Prompt) int {
	turns, missing := memory.Turns(c.pending()), 0
	for i, turn := range turns {
		inTail := i >= len(turns)-p.Receipt.TailTurns
		var b strings.Builder
		prompt.WriteTurn(&b, turn)
		switch _, recent, _ := strings.Cut(cached(p), recentHeading); {
		case strings.Contains(recent, b.String()):
		case i < p.Receipt.DroppedTurns && i == missing:
			missing++
		case !p.Receipt.Truncated || !inTail:
			t.Fatalf("turn %d to %d is in neither brief nor prompt:\n%s", turn.FirstSeq(), turn.LastSeq(), p.Input)
		}
	}
	require.Truef(t, missing == p.Receipt.DroppedTurns, "%d turns are missing, the receipt says %d", missing, p.Receipt.DroppedTurns)
	return missing
}

// checkOnce checks that no message is there twice, and none from before the clear.
func (c *simChat) checkOnce(t *rapid.T, p prompt.Prompt) {
	for _, m := range c.rows {
		if m.Blank() {
			continue
		}
		if n := strings.Count(p.Input, m.Content); n > 1 || n > 0 && m.Seq <= c.brief.ClearedSeq {
			t.Fatalf("message %d is shown %d times, cleared up to %d:\n%s", m.Seq, n, c.brief.ClearedSeq, p.Input)
		}
	}
}

// checkKept checks that every kept message is in the prompt or counted as left out, and no more
// than a third of the budget for those beside the turns.
func (c *simChat) checkKept(t *rapid.T, p prompt.Prompt) {
	r := p.Receipt
	away := 0
	for _, m := range c.rows[c.brief.ClearedSeq:] {
		if c.settings.Keeps(&m) && !m.Blank() && !strings.Contains(p.Input, m.Content) {
			away++
		}
	}
	unread := len(c.pending()) > c.reach // then some of those away are too old to be looked through
	require.Truef(t, away >= r.LeftOutMessages && (away <= r.LeftOutMessages || unread) && r.KeptTokens <= c.limits.PromptTokenBudget/3,
		"%d messages to be kept are not shown, budget %d: %+v", away, c.limits.PromptTokenBudget, r)
}

// checkPrefix holds the promise to the provider's cache: between two folds memory only grows at its end.
func (c *simChat) checkPrefix(t *rapid.T, p prompt.Prompt) {
	cut := p.Receipt.Truncated || p.Receipt.DroppedTurns > 0 || c.before.Receipt.Truncated || c.before.Receipt.DroppedTurns > 0
	require.Truef(t, cut || c.settings.Strategy == memory.StrategySimple || strings.HasPrefix(p.Input, cached(c.before)),
		"the memory\n%s\nis no beginning of\n%s", cached(c.before), p.Input)
	c.before = p
}
