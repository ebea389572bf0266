package longterm

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/google/uuid"
)

// comparison compares candidates with what is known.
type comparison struct {
	*extraction

	candidates []Candidate
	rules      Rules
	scale      recall.Scale
	vectors    map[string][]float32 // by text; empty without an embedder
	asked      string               // the input of the last consolidation
	answers    []Answer
}

// compare prepares the comparison.
func (x *extraction) compare(ctx context.Context, candidates []Candidate) *comparison {
	c := &comparison{extraction: x, candidates: candidates, rules: Rules{}, vectors: map[string][]float32{}}
	if x.Embedder == nil {
		return c
	}
	texts := make([]string, len(candidates))
	for n := range candidates {
		texts[n] = candidates[n].Fact
	}
	if scale, err := c.measure(ctx, texts); err != nil {
		c.wordsAlone(ctx, err)
	} else {
		c.change.VectorModel, c.scale = x.Embedder.Model(), scale
		c.rules.Similarity = func(cosine float64) float64 { return recall.Similarity(cosine, scale) }
	}
	return c
}

// measure embeds texts, and returns what their cosines mean.
func (c *comparison) measure(ctx context.Context, texts []string) (recall.Scale, error) {
	ctx, cancel := context.WithTimeout(ctx, c.EmbedTimeout)
	defer cancel()
	scale, err := c.Scales.Measured(ctx)
	if err != nil {
		return recall.Scale{}, err
	}
	vectors, err := c.Embedder.Embed(ctx, c.payer(), texts)
	if err != nil {
		return recall.Scale{}, err
	}
	for n, text := range texts {
		c.vectors[text] = vectors[n]
	}
	return scale, nil
}

func (c *comparison) payer() recall.For {
	return recall.For{UserID: c.change.Planned.UserID, ChatID: c.change.ChatID}
}

// wordsAlone goes on without vectors: embed_memories makes them later.
func (c *comparison) wordsAlone(ctx context.Context, err error) {
	c.vectors, c.rules.Similarity, c.change.VectorModel = map[string][]float32{}, nil, ""
	c.Logger.LogAttrs(ctx, slog.LevelWarn, "memories are compared by their words alone", slog.String("chat_id", c.change.ChatID.String()), slog.Any("error", err))
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
	question, decisions := Settle(c.candidates, known.Alike, c.rules)
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
	told := work.Instructions{Ref: DecideRef, Text: DecideInstructions()}.Or(c.Consolidate)
	again := ""
	for range 2 {
		answer, err := c.ask(ctx, work.Question{
			Purpose: "consolidate", Instructions: withCorrection(told.Text, again), Input: input,
			SchemaName: DecideSchemaName, Schema: DecideSchema(),
		}, told.Ref)
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

// operations returns what is to be written.
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
	if len(texts) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, c.EmbedTimeout)
	defer cancel()
	vectors, err := c.Embedder.Embed(ctx, c.payer(), texts)
	if err != nil {
		return // embed_memories makes them
	}
	for n, text := range texts {
		c.vectors[text] = vectors[n]
	}
	for n := range c.change.Operations {
		op := &c.change.Operations[n]
		if op.Action == Update {
			op.Vector = c.vectors[op.Content]
		}
	}
}
