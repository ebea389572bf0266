package longterm

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/work"
)

// enoughTurns are so many turns that a chat is read although its user is talking in it.
const enoughTurns = 6

// shortly is how soon a chat is looked at again that is to be read at once, but has only a running reply.
const shortly = 5 * time.Second

// answered is how soon a chat is looked at again of which a reply waits for its user, who may take a day; sooner where chats rest shorter.
const answered = time.Minute

// plan returns the range to read. Without one, wait is how long it is until the chat is due, and 0 says that nothing is
// left in it. A range never ends within a turn or before the end of a running reply.
func plan(s Snapshot, delay time.Duration) (_ Range, found bool, wait time.Duration) {
	from := s.ExtractedSeq + 1
	switch {
	case s.LastSeq < from:
		return Range{}, false, 0
	case !s.Wanted:
		return Range{From: from, To: s.LastSeq, Skip: true}, true, 0
	case s.ClearedSeq >= from:
		return Range{From: from, To: s.ClearedSeq, Skip: true}, true, 0
	case len(s.Messages) == 0:
		return Range{}, false, 0
	}
	whole := wholeTurns(s.Messages)
	turns := countTurns(whole)
	switch {
	case len(whole) == 0 && slices.ContainsFunc(s.Messages, func(m memory.Message) bool { return m.Status == memory.StatusAwaiting }):
		return Range{}, false, max(delay-s.Rested, min(delay, answered), time.Second)
	case len(whole) == 0 && s.DueNow:
		return Range{}, false, shortly
	case len(whole) == 0 || !s.DueNow && turns < enoughTurns && s.Rested < delay:
		return Range{}, false, max(delay-s.Rested, time.Second)
	}
	return Range{From: from, To: whole[len(whole)-1].Seq, Turns: turns}, true, 0
}

// wholeTurns returns the messages up to the turn of the first running reply. A user's message begins a turn.
func wholeTurns(messages []memory.Message) []memory.Message {
	begins := 0
	for n := range messages {
		if messages[n].Role == memory.RoleUser {
			begins = n
		}
		if messages[n].Status.Open() {
			return messages[:begins]
		}
	}
	return messages
}

func countTurns(messages []memory.Message) int {
	turns := 0
	for n := range messages {
		if isSaidBy(&messages[n], memory.RoleUser) {
			turns++
		}
	}
	return turns
}

// isSaidBy reports whether a message has words of one of the roles.
func isSaidBy(m *memory.Message, roles ...memory.Role) bool {
	return slices.Contains(roles, m.Role) && !m.Blank()
}

// mostRounds is how often candidates are compared with memories that change meanwhile. Then the job is tried again.
const mostRounds = 3

// learn reads the range, and commits what comes of it.
func (x *extraction) learn(ctx context.Context) error {
	input := x.input()
	x.change.Used = x.used()
	candidates, err := x.propose(ctx, input)
	if err != nil {
		return err
	}
	candidates = MergeAlike(candidates)
	x.change.Stats.Candidates = len(candidates)
	x.change.Ledger = Read
	if len(candidates) == 0 {
		x.change.Ledger = NothingRead
	}
	c := x.compare(ctx, candidates)
	for x.change.Stats.Rounds < mostRounds {
		if len(candidates) > 0 {
			x.change.Stats.Rounds++
			if err := c.decide(ctx); err != nil {
				return err
			}
		}
		if outcome, err := x.commit(ctx); err != nil || outcome == Committed {
			return err
		} else if outcome == Overtaken {
			return work.ErrLost
		}
	}
	return work.ErrLost
}

func (x *extraction) input() Input {
	s := &x.change.Planned
	input := Input{Summary: s.Summary, Excluded: s.Excluded, Language: s.Language, Recent: saidIn(s.Before)}
	zone := s.TimeZone
	for n := range s.Messages {
		m := &s.Messages[n]
		if m.Seq > x.change.Range.To {
			break
		}
		input.New = append(input.New, saidIn(s.Messages[n:n+1])...)
		if s.TimeZone == "" && m.TimeZone != "" {
			zone = m.TimeZone
		}
	}
	if loaded, err := time.LoadLocation(zone); err == nil && loaded != time.Local { // "Local" is the server's own
		input.Zone = loaded
	}
	for _, shown := range s.Shown {
		input.Shown = append(input.Shown, shown.Content)
	}
	for _, output := range s.Outputs {
		input.Outputs = append(input.Outputs, memory.Message{Seq: output.Seq, Role: memory.RoleTool, Content: output.words()})
	}
	return input
}

func saidIn(messages []memory.Message) []memory.Message {
	return slices.DeleteFunc(slices.Clone(messages), func(m memory.Message) bool { return !isSaidBy(&m, memory.RoleUser, memory.RoleAssistant) })
}

// used returns the memories that replies of the range used, each once: a memory that is merely shown does not keep itself alive.
func (x *extraction) used() []uuid.UUID {
	byID := map[uuid.UUID]*memory.Message{}
	for n := range x.change.Planned.Messages {
		m := &x.change.Planned.Messages[n]
		byID[m.ID] = m
	}
	var found []uuid.UUID
	seen := map[uuid.UUID]bool{}
	for _, shown := range x.change.Planned.Shown {
		reply := byID[shown.ReplyID]
		if reply == nil || reply.Seq > x.change.Range.To || seen[shown.MemoryID] {
			continue
		}
		question := ""
		if asked := byID[reply.ReplyTo]; asked != nil {
			question = asked.Content
		}
		if Used(shown.Content, question, reply.Content) {
			seen[shown.MemoryID] = true
			found = append(found, shown.MemoryID)
		}
	}
	return found
}

// propose asks for facts and returns those that pass the gate. An answer that cannot be read, or facts that lack their
// form, are asked for once more with the reason; the first answer stands if the second cannot be used.
func (x *extraction) propose(ctx context.Context, input Input) ([]Candidate, error) {
	if !slices.ContainsFunc(input.New, func(m memory.Message) bool { return m.Role == memory.RoleUser }) {
		return nil, nil // the user has said nothing
	}
	var verdict *Verdict
	again := ""
	for range 2 {
		answer, err := x.ask(ctx, extracting, x.Extraction, again, WriteInput(input))
		if err != nil && verdict == nil {
			return nil, err
		}
		if err != nil {
			break
		}
		if facts, err := ParseFacts(answer); err != nil {
			again = err.Error()
		} else {
			judged := Gate(input, facts)
			verdict, again = &judged, judged.Retry
		}
		if again == "" {
			break
		}
	}
	if verdict == nil {
		return nil, fmt.Errorf("%w: two extractions are not of the form", work.ErrBroken)
	}
	x.change.Stats.Dropped = map[string]int{}
	for reason, n := range verdict.Dropped {
		x.change.Stats.Dropped[string(reason)] = n
	}
	return verdict.Candidates, nil
}

// ask makes one call of the model, and adds it to the stats. own replaces the built-in instructions; again is why the answer
// before was refused, "" for the first call.
func (x *extraction) ask(ctx context.Context, f form, own, again, input string) (string, error) {
	told := f.Or(own)
	question := work.Question{
		Purpose: f.purpose, Model: x.Model, Instructions: told.Text, Input: input, SchemaName: f.schemaName, Schema: f.schema(),
		CacheKey: x.change.ChatID, UserID: x.change.Planned.UserID,
	}
	if again != "" {
		question.Instructions += "\n\n" + again
	}
	ctx, cancel := context.WithTimeout(ctx, x.CallTimeout)
	defer cancel()
	stats := &x.change.Stats
	stats.Calls++
	if !strings.Contains(stats.PromptRef, told.Ref) {
		stats.PromptRef = strings.TrimSpace(stats.PromptRef + " " + told.Ref)
	}
	began := time.Now()
	answer, err := x.Asker.Ask(ctx, question)
	result := "answered"
	if err != nil {
		result = "failed"
	}
	x.Metrics.MemoryCallDuration.WithLabelValues(f.purpose, result).Observe(time.Since(began).Seconds())
	if err != nil {
		return "", fmt.Errorf("%s: %w", f.purpose, err)
	}
	stats.Model = answer.Model
	stats.InputTokens += answer.InputTokens
	stats.OutputTokens += answer.OutputTokens
	x.Metrics.CountTokens(f.purpose, answer.InputTokens, answer.CachedTokens, answer.OutputTokens)
	return answer.Text, nil
}

// comparison compares candidates with the memories of their user.
type comparison struct {
	*extraction

	candidates []Candidate
	similarity func(cosine float64) float64 // nil without vectors
	scale      recall.Scale
	vectors    map[string][]float32 // by text
	asked      string               // the input of the last consolidation
	answers    []Answer
}

// compare prepares the comparison. Without vectors words have to do: embed_memories makes them later.
func (x *extraction) compare(ctx context.Context, candidates []Candidate) *comparison {
	c := &comparison{extraction: x, candidates: candidates, vectors: map[string][]float32{}}
	if x.Embedder == nil {
		return c
	}
	texts := make([]string, len(candidates))
	for n := range candidates {
		texts[n] = candidates[n].Fact
	}
	ctx, cancel := context.WithTimeout(ctx, embedTimeout)
	defer cancel()
	scale, err := c.Scales.Measured(ctx)
	if err == nil {
		err = c.embed(ctx, texts)
	}
	if err != nil {
		c.Logger.LogAttrs(ctx, slog.LevelWarn, "memories are compared by their words alone",
			slog.String("chat_id", c.change.ChatID.String()), slog.Any("error", err))
		return c
	}
	c.change.VectorModel, c.scale = x.Embedder.Model(), scale
	c.similarity = func(cosine float64) float64 { return recall.Similarity(cosine, scale) }
	return c
}

func (c *comparison) embed(ctx context.Context, texts []string) error {
	ctx, cancel := context.WithTimeout(ctx, embedTimeout)
	defer cancel()
	vectors, err := c.Embedder.Embed(ctx, recall.For{UserID: c.change.Planned.UserID, ChatID: c.change.ChatID}, texts)
	if err != nil {
		return err
	}
	for n, text := range texts {
		c.vectors[text] = vectors[n]
	}
	return nil
}

// decide decides on all candidates with the memories as they are.
func (c *comparison) decide(ctx context.Context) error {
	texts := make([]Text, len(c.candidates))
	for n := range c.candidates {
		fact := c.candidates[n].Fact
		texts[n] = Text{Content: fact}
		if c.change.VectorModel != "" && c.scale.Reads(fact) { // else its cosines mean nothing
			texts[n].Vector = c.vectors[fact]
		}
	}
	known, err := c.Store.Similar(ctx, c.change.ChatID, texts, c.change.VectorModel)
	if err != nil {
		return err
	}
	question, decisions := Settle(c.candidates, known.Alike, c.similarity)
	if question.Open() > 0 {
		if err := c.consolidate(ctx, question); err != nil {
			return err
		}
		decisions = append(decisions, Validate(question, c.answers)...)
	}
	c.change.Version, c.change.Operations = known.Version, c.operations(decisions)
	c.embedMerged(ctx)
	return nil
}

// consolidate asks what rules could not settle, unless the same was asked before. An answer that cannot be read is asked
// for once more with the reason. By the job's last attempt the rules decide without one, which loses no fact.
func (c *comparison) consolidate(ctx context.Context, question Question) error {
	input := WriteQuestion(question)
	if input == c.asked {
		return nil
	}
	again := ""
	for range 2 {
		answer, err := c.ask(ctx, consolidating, c.Consolidation, again, input)
		if err != nil {
			return err
		}
		answers, err := ParseAnswers(answer)
		if err == nil {
			c.asked, c.answers = input, answers
			return nil
		}
		again = err.Error()
	}
	if c.change.Last {
		c.asked, c.answers = input, nil
		return nil
	}
	return fmt.Errorf("%w: two consolidations are not of the form", work.ErrBroken)
}

func (c *comparison) operations(decisions []Decision) []Operation {
	operations := make([]Operation, 0, len(decisions))
	for _, decision := range decisions {
		op := Operation{Decision: decision, From: c.candidates[decision.Candidate], ID: uuid.Must(uuid.NewV7())}
		if decision.Content != "" {
			op.Vector = c.vectors[decision.Content]
		}
		operations = append(operations, op)
	}
	return operations
}

// embedMerged makes the vectors of texts that no candidate had.
func (c *comparison) embedMerged(ctx context.Context) {
	if c.change.VectorModel == "" {
		return
	}
	var texts []string
	for n := range c.change.Operations {
		if op := &c.change.Operations[n]; op.Action == Update && op.Vector == nil {
			texts = append(texts, op.Content)
		}
	}
	if len(texts) == 0 || c.embed(ctx, texts) != nil {
		return // embed_memories makes them
	}
	for n := range c.change.Operations {
		if op := &c.change.Operations[n]; op.Action == Update {
			op.Vector = c.vectors[op.Content]
		}
	}
}
