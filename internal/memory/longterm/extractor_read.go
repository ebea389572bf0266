package longterm

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/memory"

	"github.com/arcoscribe/throughline/internal/work"
	"github.com/google/uuid"
)

// mostRounds is how often candidates are compared with memories that change meanwhile. Then the job does it anew.
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

// input is what the extraction is shown.
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
	return input
}

// saidIn returns what users and assistants said.
func saidIn(messages []memory.Message) []Message {
	var out []Message
	for n := range messages {
		if m := &messages[n]; isSaidBy(m, memory.RoleUser, memory.RoleAssistant) {
			out = append(out, Message{ID: m.ID, Seq: m.Seq, Role: m.Role, Content: m.Content, SaidAt: m.CreatedAt})
		}
	}
	return out
}

// used returns the memories that replies of the range used, each once: what is merely shown does not keep itself alive.
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
// form, are asked for once more with the reason.
func (x *extraction) propose(ctx context.Context, input Input) ([]Candidate, error) {
	if !slices.ContainsFunc(input.New, func(m Message) bool { return m.Role == memory.RoleUser }) {
		return nil, nil // nobody has said anything
	}
	chosen, err := x.extract(ctx, input, "")
	if err != nil {
		return nil, err
	}
	if chosen.again != "" {
		second, err := x.extract(ctx, input, chosen.again)
		switch {
		case second.readable:
			chosen = second
		case !chosen.readable && err != nil:
			return nil, err
		case !chosen.readable:
			return nil, fmt.Errorf("%w: two extractions are not of the form", work.ErrBroken)
		}
	}
	x.change.Stats.Dropped = map[string]int{}
	for reason, n := range chosen.verdict.Dropped {
		x.change.Stats.Dropped[string(reason)] = n
	}
	return chosen.verdict.Candidates, nil
}

// proposal is an answer to an extraction.
type proposal struct {
	verdict  Verdict
	readable bool
	again    string // what a second call is told; "" for none
}

// extract makes one call. again is why the answer before it was refused; "" for the first.
func (x *extraction) extract(ctx context.Context, input Input, again string) (proposal, error) {
	told := work.Instructions{Ref: ExtractRef, Text: ExtractInstructions()}.Or(x.ExtractorConfig.Extract)
	answer, err := x.ask(ctx, work.Question{
		Purpose: "extract", Instructions: withCorrection(told.Text, again), Input: WriteInput(input),
		SchemaName: ExtractSchemaName, Schema: ExtractSchema(),
	}, told.Ref)
	if err != nil {
		return proposal{}, err
	}
	facts, err := ParseFacts(answer)
	if err != nil {
		return proposal{again: err.Error()}, nil //nolint:nilerr // what is wrong is for the model to hear
	}
	verdict := Gate(input, facts)
	return proposal{verdict: verdict, readable: true, again: verdict.Retry}, nil
}

func withCorrection(base, again string) string {
	if again == "" {
		return base
	}
	return base + "\n\n" + again
}

// ask makes one call of the model, and adds it to the stats.
func (x *extraction) ask(ctx context.Context, question work.Question, ref string) (string, error) {
	question.Model, question.CacheKey, question.UserID = x.Model, x.change.ChatID, x.change.Planned.UserID
	ctx, cancel := context.WithTimeout(ctx, x.CallTimeout)
	defer cancel()
	stats := &x.change.Stats
	stats.Calls++
	if !strings.Contains(stats.PromptRef, ref) {
		stats.PromptRef = strings.TrimSpace(stats.PromptRef + " " + ref)
	}
	began := time.Now()
	answer, err := x.Asker.Ask(ctx, question)
	result := "answered"
	if err != nil {
		result = "failed"
	}
	x.Metrics.MemoryCallDuration.WithLabelValues(question.Purpose, result).Observe(time.Since(began).Seconds())
	if err != nil {
		return "", fmt.Errorf("%s: %w", question.Purpose, err)
	}
	stats.Model = answer.Model
	stats.InputTokens += answer.InputTokens
	stats.OutputTokens += answer.OutputTokens
	x.Metrics.CountTokens(question.Purpose, answer.InputTokens, answer.CachedTokens, answer.OutputTokens)
	return answer.Text, nil
}
