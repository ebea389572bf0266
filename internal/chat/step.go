package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/streaming"
	"github.com/google/uuid"
)

// A step is one call of the model. Without calls of tools it is the only one of its reply.

// compose builds the request of the next step, of the chat as it is now.
func (s *Service) compose(ctx context.Context, g *generation, chat memory.Chat, question prompt.Question) {
	question.Sources, question.Instructions = g.state.Sources, s.instructions(chat.SystemPrompt, g.state.Instructions)
	request := ModelRequest{
		Model: g.variant.Model, Variant: g.variant.Name, Instructions: question.Instructions, ChatID: g.started.ChatID, UserID: g.user.UserID,
		Once: g.mayFallBack(), Tools: g.state.Tools, Choice: g.nextChoice(), Steps: stepsOf(g.state.Steps, g.relay.Parts()),
	}
	variant := g.variant
	variant.Window -= request.beside()
	built := s.prompt(ctx, g.user, g.started.ChatID, chat, question, variant)
	s.reportMissing(ctx, g.started.ChatID, chat, built)
	request.Input, g.receipt, g.request = built.Input, built.Receipt, &request
}

// nextChoice is the request's for the first step; after the last one with tools the model has to answer.
func (g *generation) nextChoice() ToolChoice {
	switch steps := len(g.state.Steps); {
	case len(g.state.Tools) == 0:
		return ""
	case steps >= maxSteps:
		return ChoiceNone
	case steps == 0 && g.choice != "":
		return g.choice
	}
	return ChoiceAuto
}

// beside is an upper bound of the tokens that a request has beside its prompt: each has at least one byte of four.
func (r *ModelRequest) beside() int {
	bytes := 0
	for _, tool := range r.Tools {
		bytes += len(tool.Name) + len(tool.Description) + len(tool.Parameters)
	}
	tokens := bytes / 3
	for _, step := range r.Steps {
		for _, item := range step.Items {
			tokens += text.Tokens(item.Text) + text.Tokens(item.Arguments) + len(item.Encrypted)/4
		}
		for _, output := range step.Outputs {
			tokens += text.Tokens(output.Output)
		}
	}
	return tokens
}

// stepsOf pairs what the model said with the results.
func stepsOf(said [][]Item, parts []memory.Part) (steps []ModelStep) {
	results := memory.Results(parts)
	for _, items := range said {
		step := ModelStep{Items: items}
		for _, item := range items {
			if item.Type == ItemCall {
				step.Outputs = append(step.Outputs, ModelOutput{CallID: item.CallID, Output: prompt.Output(results[item.CallID])})
			}
		}
		steps = append(steps, step)
	}
	return steps
}

// step makes the next call of the model, and relays what it says. When it fails before it has said anything, the variant's fallback
// answers. The error is nil only when the model reported the end of its reply.
func (s *Service) step(ctx context.Context, g *generation) (ModelResult, error) {
	result, err := s.call(ctx, g)
	if err == nil || !isUpstream(err) || !g.mayFallBack() || ctx.Err() != nil {
		return result, err
	}
	fallback, unknown := s.variant(g.variant.Fallback)
	if unknown != nil {
		return result, err
	}
	g.variant, g.state.Variant, g.request = fallback, fallback.Name, nil
	return s.call(ctx, g)
}

func isUpstream(err error) bool { return strings.HasPrefix(string(fault.CodeOf(err)), "upstream_") }

// mayFallBack reports whether nothing was said yet, and the variant that was asked for has one in its place.
func (g *generation) mayFallBack() bool {
	_, chars := g.relay.Text()
	return g.variant.Fallback != "" && g.variant.Name == g.started.ModelVariant && chars == 0 && len(g.state.Steps) == 0
}

func (s *Service) call(ctx context.Context, g *generation) (ModelResult, error) {
	if err := context.Cause(ctx); err != nil {
		return ModelResult{}, err
	}
	if g.request == nil {
		chat, question, err := s.Store.ReadTurn(ctx, g.user, g.started.ChatID, g.started.UserMessageID, g.started.MessageID)
		if err != nil {
			return ModelResult{}, err
		}
		s.compose(ctx, g, chat, question)
	}
	if g.attempt == uuid.Nil && len(g.state.Steps) == 0 {
		s.Metrics.Overhead.Observe(time.Since(g.arrived).Seconds())
	}
	g.inputTokens, g.spokenFrom = (len(g.request.Instructions)+len(g.request.Input))/4+g.request.beside(), len(g.relay.After(0))
	stream, err := s.Model.Stream(ctx, *g.request)
	g.charged = err == nil || ctx.Err() != nil
	g.request = nil // it is large and no longer needed
	if err != nil {
		return ModelResult{}, err
	}
	defer func() { _ = stream.Close() }() // nothing can be lost with the connection
	g.relay.Open()
	first := true
	for stream.Next() {
		delta := stream.Delta()
		if first {
			first = false
			g.beginText(delta)
			s.Metrics.FirstDelta.WithLabelValues(g.started.ModelVariant).Observe(time.Since(g.arrived).Seconds())
		}
		g.relay.Append(delta)
		s.recorder.noteText(g)
	}
	result, err := stream.Result(), stream.Err()
	if err == nil && result.Usage == (streaming.Usage{}) {
		result.Usage = g.estimated(result.Items)
	}
	return result, err
}

// estimated is what the last call has used by our own count, which is near enough.
func (g *generation) estimated(items []Item) streaming.Usage {
	usage := streaming.Usage{InputTokens: g.inputTokens, OutputTokens: text.Tokens(string(g.relay.After(g.spokenFrom))), Estimated: true}
	for _, item := range items {
		usage.OutputTokens += text.Tokens(item.Name) + text.Tokens(item.Arguments)
	}
	return usage
}

// beginText puts a blank line between the texts of two steps, unless one of them has white space there.
func (g *generation) beginText(delta string) {
	before, _ := g.relay.Text()
	last, _ := utf8.DecodeLastRuneInString(before)
	next, _ := utf8.DecodeRuneInString(delta)
	if before != "" && !unicode.IsSpace(last) && !unicode.IsSpace(next) {
		g.relay.Append("\n\n")
	}
}

var callID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// partsOf returns what a step adds to the reply beside its text. Calls get an id that can be used, also in the result. Calls that cannot
// be made have failed.
func (s *Service) partsOf(g *generation, result *ModelResult) []memory.Part {
	var parts, failures []memory.Part
	earlier := g.relay.Parts()
	called := len(callsOf(earlier))
	for n := range result.Items {
		item := &result.Items[n]
		switch item.Type {
		case ItemReasoning:
			parts = append(parts, s.reasoning(g, item.Summary)...)
		case ItemCall:
			if len(g.state.Steps) >= maxSteps { // the model was told to make no more
				continue
			}
			called++
			taken := slices.ContainsFunc(slices.Concat(earlier, parts), func(p memory.Part) bool { return p.CallID == item.CallID })
			if taken || !callID.MatchString(item.CallID) {
				item.CallID = "call_" + strconv.Itoa(called)
			}
			call, problem := s.callOf(g, item)
			parts = append(parts, call)
			if called > maxCalls {
				problem = "This reply has made too many calls."
			}
			if problem != "" {
				failures = append(failures, failedCall(item.CallID, problem))
			}
		}
	}
	for _, source := range result.Sources {
		parts = append(parts, memory.Part{Type: memory.PartSource, URL: source.URL, Title: source.Title})
	}
	parts = append(parts, failures...)
	_, chars := g.relay.Text()
	return at(chars, parts)
}

// at puts parts at a place in the text.
func at(chars int, parts []memory.Part) []memory.Part {
	for n := range parts {
		parts[n].At = chars
	}
	return parts
}

func (s *Service) reasoning(g *generation, summary []string) (parts []memory.Part) {
	for _, said := range summary {
		if g.variant.ReasoningSummary && strings.TrimSpace(said) != "" {
			parts = append(parts, memory.Part{Type: memory.PartReasoning, Text: said})
		}
	}
	return parts
}

// callOf is the part of a call, and why it cannot be made; "" when it can.
func (s *Service) callOf(g *generation, item *Item) (call memory.Part, problem string) {
	call = memory.Part{Type: memory.PartCall, CallID: item.CallID, Name: item.Name, Run: memory.RunClient, Approval: new(false)}
	arguments, isObject := objectOf(item.Arguments)
	call.Arguments = arguments
	tool := s.serverTool(item.Name)
	if !slices.ContainsFunc(g.state.Tools, func(f Function) bool { return f.Name == item.Name }) {
		call.Run, problem = memory.RunServer, "There is no such tool."
	} else if tool != nil {
		call.Run, call.Approval = memory.RunServer, new(tool.Approval && isObject)
		if !isObject {
			problem = "The arguments are not a JSON object."
		}
	}
	return call, problem
}

// objectOf returns arguments as they are stored: an object, or else a string.
func objectOf(arguments string) (stored json.RawMessage, isObject bool) {
	stored, problem := memory.StorableJSON([]byte(cmp.Or(strings.TrimSpace(arguments), "{}")))
	if problem == "" && stored[0] == '{' {
		return stored, true
	}
	stored, _ = json.Marshal(strings.ReplaceAll(arguments, "\x00", "\uFFFD")) // a string can be encoded
	return stored, false
}

// toolsFor are the tools of a message that was admitted.
func (s *Service) toolsFor(message *Message, variant Variant) []Function {
	tools, _ := s.offered(message, variant.Name) // a variant to which it was downgraded may lack one
	return tools
}
