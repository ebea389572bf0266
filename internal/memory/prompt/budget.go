package prompt

import (
	"cmp"
	"math"
	"slices"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// division divides a buffer: turns[:bridge] are unseen, turns[bridge:tail] are the bridge, the rest is the tail.
type division struct {
	bridge, tail int
	bridgeTokens int
}

// divide determines tail and bridge. The tail is the last K turns, less its oldest while brief and tail are over the
// prompt's budget. The bridge is what fits before the tail, newest first and without a gap. The last K turns may take
// all that the budgets of prompt and bridge leave together; older turns get no more than the bridge's own.
func divide(briefTokens int, turns []memory.Turn, l memory.Limits) division {
	older := max(0, len(turns)-l.KRawTurns)
	d := division{tail: older}
	used := briefTokens + tokensOf(turns[d.tail:])
	for used > l.PromptTokenBudget && len(turns)-d.tail > max(1, l.MinTailTurns) {
		used -= turns[d.tail].Tokens()
		d.tail++
	}
	d.bridge = d.tail
	for room := l.PromptTokenBudget + l.BridgeTokenBudget - used; d.bridge > 0 && l.BridgeTokenBudget > 0; d.bridge-- {
		if d.bridge <= older {
			room = min(room, l.BridgeTokenBudget)
		}
		next := turns[d.bridge-1].Tokens()
		if next > room {
			break
		}
		room -= next
		d.bridgeTokens += next
	}
	return d
}

// Unseen returns how many of the buffer's turns neither tail nor bridge would show: the oldest.
func Unseen(briefTokens int, turns []memory.Turn, l memory.Limits) int {
	return divide(briefTokens, turns, l).bridge
}

func tokensOf(turns []memory.Turn) int {
	sum := 0
	for i := range turns {
		sum += turns[i].Tokens()
	}
	return sum
}

// fit shortens brief and tail to a common budget: first the brief, then the longest messages of the tail, and when
// those cannot get shorter, the brief once more.
func (s *selection) fit(tail []memory.Turn, budget int) {
	s.tail, s.tailTokens = tail, tokensOf(tail)
	if s.brief.Tokens+s.tailTokens <= budget {
		return
	}
	s.shortenBrief(s.briefRoom(budget))
	s.clipTail(budget - s.brief.Tokens)
	s.shortenBrief(budget - s.tailTokens)
}

// briefShare is the fraction of the budget (one in four) that a brief may keep when the tail has to be clipped in any
// case: one pasted book must not make the assistant forget the whole conversation.
const briefShare = 4

// makeRoom shortens the brief if that alone makes room for turns of so many tokens.
func (s *selection) makeRoom(tokens, budget int) {
	if room := budget - tokens; room < s.brief.Tokens && room >= s.shortestBrief() {
		s.shortenBrief(room)
	}
}

// shortestBrief returns the size of the brief's last sentence.
func (s *selection) shortestBrief() int { return text.Tokens(text.NewestSentences(s.brief.Summary, 0)) }

// briefRoom returns the room that the tail leaves to the brief. Where that is less than the brief's last sentence, shortening the
// brief would not be enough, and it gets its share.
func (s *selection) briefRoom(budget int) int {
	room := budget - s.tailTokens
	if room >= s.shortestBrief() {
		return room
	}
	return max(room, budget/briefShare)
}

// shortenBrief shortens the brief to room tokens: its oldest sentences go first; when the last one is too long by itself,
// it is cut at a word end.
func (s *selection) shortenBrief(room int) {
	if s.brief.Tokens <= room {
		return
	}
	shorter := ""
	if room > 0 {
		shorter = text.FitCap(text.NewestSentences(s.brief.Summary, room), room)
	}
	tokens := text.Tokens(shorter)
	if shorter != s.brief.Summary {
		s.cut("brief", s.brief.Tokens, tokens)
	}
	s.brief.Summary, s.brief.Tokens = shorter, tokens
}

// clipTail shortens the tail to room tokens by clipping its longest messages to a common level. A message is never
// clipped to less than the note about what was omitted.
func (s *selection) clipTail(room int) {
	if s.tailTokens <= room {
		return
	}
	level := max(text.ClipReserve, sharedLevel(sizes(s.tail), room))
	for _, t := range s.tail {
		for i := range t.Messages {
			s.clip(&t.Messages[i], level)
		}
	}
	s.tailTokens = tokensOf(s.tail)
}

// clip shortens a message to limit tokens.
func (s *selection) clip(m *memory.Message, limit int) {
	if m.Tokens <= limit || m.Blank() {
		return
	}
	before := *m
	m.Content, m.Tokens = text.Clip(before.Content, limit)
	if m.Content != before.Content {
		s.cut("recent", before.Tokens, m.Tokens)
	}
}

func sizes(turns []memory.Turn) []int {
	var all []int
	for _, t := range turns {
		for _, m := range t.Messages {
			all = append(all, max(0, m.Tokens))
		}
	}
	return all
}

// sharedLevel returns the greatest level for which the sum of min(size, level) is at most room.
func sharedLevel(sizes []int, room int) int {
	slices.Sort(sizes)
	for i, size := range sizes {
		if share := room / (len(sizes) - i); size > share {
			return share
		}
		room -= size
	}
	return room
}

// Room returns how many tokens a question and instructions of that many tokens leave in a window, apart from the room of
// the conversation. Where it is negative, no prompt fits.
func Room(question, instructions int, l memory.Limits) int {
	return l.InputTokens - HeadingTokens - max(l.PromptTokenBudget+l.BridgeTokenBudget, l.MaxHistoryTokens) - instructions - question
}

// excess returns by how many tokens instructions and prompt exceed the window; 0 or less when they fit. A token has at
// least one byte, so most prompts are known to fit without being tokenized.
func excess(p Prompt, q Question, l memory.Limits) int {
	if l.InputTokens == 0 || len(q.Instructions)+len(p.Input) <= l.InputTokens {
		return 0
	}
	return text.Tokens(q.Instructions) + text.Tokens(p.Input) - l.InputTokens
}

// RetrievedRoom returns the most tokens that the sections retrieved for a question may take together: a tenth of the
// window.
func RetrievedRoom(l memory.Limits) int {
	if l.InputTokens == 0 {
		return math.MaxInt
	}
	return l.InputTokens / 10
}

// FitRetrieved makes the sections that are retrieved for a question shorter, in the order in which they are left out, so
// that together they take at most room tokens.
func FitRetrieved(sections []Section, room int) {
	over := -room
	for i := range sections {
		over += sections[i].Tokens
	}
	for _, name := range retrievedParts {
		at := slices.IndexFunc(sections, func(s Section) bool { return s.Name == name && s.Shorter != nil })
		if over <= 0 || at < 0 || sections[at].Tokens == 0 {
			continue
		}
		before := sections[at]
		sections[at] = before.Shorter(max(before.Tokens-over, 0))
		sections[at].Name = name
		over -= before.Tokens - sections[at].Tokens
	}
}

// leaveOut empties a retrieved section, and reports whether there was something in it.
func (q *Question) leaveOut(name string) bool {
	at := slices.IndexFunc(q.Retrieved, func(s Section) bool { return s.Name == name && s.Text != "" })
	if at < 0 {
		return false
	}
	q.Retrieved = slices.Clone(q.Retrieved)
	left := &q.Retrieved[at]
	left.LeftOut += left.Items
	left.Text, left.Seqs, left.IDs, left.Tokens, left.Items = "", nil, nil, 0, 0
	return true
}

// squeeze builds a prompt that does not fit again, so that it does: by counts of its own, because the stored ones are
// estimates, then with less of the conversation. At last only the question is left.
func squeeze(c memory.Chat, q Question, l memory.Limits) Prompt {
	recount(&c, l)
	for range 4 {
		d := Select(c, l)
		p := d.write(q)
		over := excess(p, q, l)
		if over <= 0 {
			return p
		}
		over += over / 8 // a word that is cut in its middle may have more tokens
		l = l.Less(over)
	}
	c.PendingTurns = c.UnreadTurns() + len(memory.Turns(c.Buffer))
	c.Buffer, c.Kept, c.Files, c.Brief.Summary = nil, nil, nil, ""
	d := Select(c, l)
	return d.write(q)
}

// recount counts the tokens of everything that may be shown of a chat.
func recount(c *memory.Chat, l memory.Limits) {
	c.Brief.Tokens = text.Tokens(c.Brief.Summary)
	c.Buffer, c.Kept, c.Files = slices.Clone(c.Buffer), slices.Clone(c.Kept), slices.Clone(c.Files)
	turns, room, _ := l.MostShown()
	for i := len(c.Buffer) - 1; i >= 0 && (room >= 0 || turns > 0); i-- { // what is older has no room in any case
		m := &c.Buffer[i]
		m.Tokens = text.Tokens(m.Content)
		room -= m.Tokens
		turns -= memory.Turn{Messages: c.Buffer[i : i+1]}.UserMessages()
	}
	for i := range c.Kept {
		c.Kept[i].Tokens = text.Tokens(c.Kept[i].Content)
	}
	for i := range c.Files {
		c.Files[i].Tokens = max(c.Files[i].Tokens, text.Tokens(c.Files[i].Content))
	}
}

// selectTurns selects turns of a chat's buffer by the chat's strategy, and the messages that the chat keeps.
// A hybrid chat has a third of the prompt's budget for those, used or not, so that the tail does not shift
// when a message is pinned. In other chats they come on top, and take of the turns' room only what a small window lacks.
func selectTurns(c *memory.Chat, turns []memory.Turn, l memory.Limits) selection {
	budget, room := l.KeptTokenBudget(), l.PromptTokenBudget+l.BridgeTokenBudget
	switch c.Strategy {
	case memory.StrategyHybrid:
		l.PromptTokenBudget -= budget
		room -= budget
	case memory.StrategySimple:
		room = l.MaxHistoryTokens
	}
	s := selectBy(c, turns, l, budget)
	if over := room + s.keptTokens - l.HistoryTokens; over > 0 && l.HistoryTokens > 0 {
		s = selectBy(c, turns, l.Less(over), s.keptTokens)
	}
	return s
}

func selectBy(c *memory.Chat, turns []memory.Turn, l memory.Limits, keptBudget int) (s selection) {
	if c.Strategy == memory.StrategySimple {
		s = selectSimple(c, turns, l)
	} else {
		s = selectSummary(c, turns, l)
	}
	s.keptBudget = keptBudget
	s.keep(keptCandidates(c, s.unseen))
	return s
}

// selectSummary selects brief, bridge and tail.
func selectSummary(c *memory.Chat, turns []memory.Turn, l memory.Limits) selection {
	both := l.PromptTokenBudget + l.BridgeTokenBudget
	s := selection{brief: c.Brief, briefBudget: l.SummaryTokenCap}
	if l.BridgeTokenBudget > 0 {
		s.makeRoom(tokensOf(turns[max(0, len(turns)-l.KRawTurns):]), both)
	}
	d := divide(s.brief.Tokens, turns, l)
	s.unseen, s.bridge, s.bridgeTokens = turns[:d.bridge], turns[d.bridge:d.tail], d.bridgeTokens
	s.fit(turns[d.tail:], both-d.bridgeTokens)
	s.recentBudget = both - s.brief.Tokens
	return s
}

// selectSimple selects the newest turns that fit, and at least one. The brief of a chat that had another strategy
// before is not shown.
func selectSimple(c *memory.Chat, turns []memory.Turn, l memory.Limits) selection {
	n, tokens := 0, 0
	for n < len(turns) && (c.MaxTurns == 0 || n < c.MaxTurns) {
		tokens += turns[len(turns)-1-n].Tokens()
		if n > 0 && tokens > l.MaxHistoryTokens {
			break
		}
		n++
	}
	first := len(turns) - n
	s := selection{unseen: turns[:first], recentBudget: l.MaxHistoryTokens}
	s.fit(turns[first:], l.MaxHistoryTokens)
	return s
}

// keptCandidates returns the messages that the chat keeps and that are not shown anyway: those before the buffer, and those
// of unseen turns.
func keptCandidates(c *memory.Chat, unseen []memory.Turn) []memory.Message {
	all := slices.Clone(c.Kept)
	quoteMessages(all) // unseen turns are quoted already
	for _, t := range unseen {
		all = append(all, t.Messages...)
	}
	return slices.DeleteFunc(all, func(m memory.Message) bool { return !c.Keeps(&m) || m.Blank() })
}

// keep selects the messages that fit their budget: pinned before important, then the more important, then the newer.
// The first one is clipped rather than left out. The selected ones are in seq order.
func (s *selection) keep(messages []memory.Message) {
	slices.SortStableFunc(messages, compareKept)
	for _, m := range messages {
		if len(s.kept) == 0 && m.Tokens > s.keptBudget && s.keptBudget >= text.ClipReserve {
			before := m.Tokens
			m.Content, m.Tokens = text.Clip(m.Content, s.keptBudget)
			s.cut("kept", before, m.Tokens)
		}
		if s.keptTokens+m.Tokens > s.keptBudget {
			s.keptLeftOut++
			continue
		}
		s.keptTokens += m.Tokens
		s.kept = append(s.kept, m)
	}
	slices.SortFunc(s.kept, func(a, b memory.Message) int { return cmp.Compare(a.Seq, b.Seq) })
}

func compareKept(a, b memory.Message) int {
	if a.Pinned != b.Pinned {
		if a.Pinned {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(b.Importance, a.Importance), cmp.Compare(b.Seq, a.Seq))
}
