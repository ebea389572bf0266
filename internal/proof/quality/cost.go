package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/dev/demo"
	"github.com/arcoscribe/throughline/internal/dev/offline"
)

// countCost plays the demo's conversation, with replies of a usual length. Extractions come by themselves, every six turns.
// What is to be kept is what the offline model finds by its rules, as in make peers; and then, for comparison, the first
// sentence of every message.
func countCost(ctx context.Context, s *system, size int) ([]figure, error) {
	lines, err := demo.BuiltinConversation()
	if err != nil {
		return nil, err
	}
	var messages []string
	for _, one := range lines {
		if one.Role == fromUser {
			messages = append(messages, one.Content)
		}
	}
	messages = messages[:min(size, len(messages))]
	usual, err := s.costOf(ctx, messages, canned{byRule: true})
	if err != nil {
		return nil, err
	}
	most, err := s.costOf(ctx, messages, canned{extract: firstSentences})
	return []figure{
		informs("turns", float64(len(messages))),
		informs("memories", float64(usual.memories)),
		informs("calls for extraction", float64(usual.extract)),
		informs("calls for consolidation", float64(usual.consolidate)),
		atMost("model calls a turn for memories", usual.calls, .25, "", "mem0 v3: 1"),
		atMost("input tokens a turn for memories", usual.input, 700, "", "mem0 v3: 7 600"),
		informs("output tokens a turn for memories", usual.output),
		informs("a fact of every message: memories", float64(most.memories)),
		informs("a fact of every message: model calls a turn", most.calls),
		atMost("a fact of every message: input tokens a turn", most.input, 700, "", ""),
	}, err
}

// cost is what a conversation cost.
type cost struct {
	memories, extract, consolidate int
	calls, input, output           float64 // a turn
}

func (s *system) costOf(ctx context.Context, messages []string, now canned) (c cost, err error) {
	now.reply = func(r *offline.Request) string { return adviceOn(len(r.Current)) }
	if err := s.settle(ctx); err != nil { // what other suites have begun costs calls as well
		return c, err
	}
	s.model.play(now)
	p, err := s.person(ctx)
	if err != nil {
		return c, err
	}
	chat := uuid.Nil
	for n, content := range messages {
		reply, err := p.say(ctx, chat, content)
		if err != nil {
			return c, fmt.Errorf("turn %d: %w", n+1, err)
		}
		chat = reply.Started.ChatID
		if (n+1)%6 == 0 { // a person takes longer to write than a worker to notice
			if err := s.settle(ctx); err != nil {
				return c, err
			}
		}
	}
	if err := p.learn(ctx, chat); err != nil {
		return c, err
	}
	bills, turns := s.model.bills(), float64(len(messages))
	c.extract, c.consolidate = bills[forExtract].calls, bills[forConsolidate].calls
	for _, one := range bills {
		c.calls += float64(one.calls) / turns
		c.input += float64(one.input) / turns
		c.output += float64(one.output) / turns
	}
	stored, err := p.memories(ctx)
	if c.memories = len(stored); c.memories == 0 {
		err = errors.Join(err, errors.New("nothing was remembered"))
	}
	return c, err
}

// ofTheDay are words of what will not matter tomorrow.
var ofTheDay = regexp.MustCompile(`(?i)\b(?:today|tonight|yesterday|tomorrow|this (?:morning|evening|afternoon|week)|last (?:night|week)|next ` +
	`week|heute|morgen|gestern)\b`)

// firstSentences makes a fact of each message of the user: what it says first. As the instructions have it, a question is
// none, and what is about the day is for the moment.
func firstSentences(asked *extraction) (facts []fact) {
	for _, one := range asked.messages {
		if one.alias[0] != 'U' {
			continue
		}
		sentence := one.text
		if end := strings.IndexAny(sentence, ".!?\n"); end >= 0 {
			sentence = sentence[:end+1]
		}
		sentence = strings.TrimSpace(sentence)
		if len(sentence) < 20 || len(sentence) > 300 || strings.HasSuffix(sentence, "?") {
			continue
		}
		proposed := keep(sentence, sentence).from(one.alias)
		if ofTheDay.MatchString(sentence) {
			proposed.Horizon = "moment"
		}
		facts = append(facts, proposed)
	}
	return facts
}

// adviceOn returns a reply as long as real ones, without anything to remember.
func adviceOn(n int) string {
	sentences := []string{
		"A slow beginning often pays, because attention is freshest then and mistakes have not settled yet.",
		"It may help to stop before it becomes tiring and to come back after a short pause.",
		"Working on small portions and joining them later tends to hold better than long stretches.",
		"What matters most is to notice the moment in which the movement becomes tense.",
		"An even pulse is easier to keep when the breath goes along with it.",
	}
	const length = 9
	chosen := make([]string, length)
	for i := range chosen {
		chosen[i] = sentences[(n+i)%len(sentences)]
	}
	return strings.Join(chosen, " ")
}
