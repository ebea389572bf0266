package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/google/uuid"
	"github.com/tidwall/gjson"
)

// The forms in which a server may be asked for JSON, the surest first.
const (
	bySchema    int32 = iota // it holds the model to the schema
	asJSON                   // it holds the model to JSON; the instructions show the schema
	asPlainText              // the instructions alone
)

// Ask makes one call whose answer has a form. Where the server refuses schemas, the instructions show the schema
// instead, then and in all later calls: the caller checks the answer in any case. Its deadline is that of ctx.
func (c *Client) Ask(ctx context.Context, question work.Question) (work.Answer, error) {
	schema, err := json.Marshal(question.Schema)
	if err != nil {
		return work.Answer{}, fmt.Errorf("schema %s: %w", question.SchemaName, err)
	}
	params := newParams(question.Purpose, question.Input, question.Instructions, question.CacheKey, question.UserID)
	if question.CacheKey == uuid.Nil || question.CacheKey == question.UserID {
		params.PromptCacheKey = params.SafetyIdentifier
	}
	params.Model = question.Model
	for form := c.form.Load(); ; {
		params.Text, params.Instructions = formOf(question, schema, form)
		answer, err := c.ask(ctx, params, question.UserID, question.CacheKey)
		switch {
		case form < asPlainText && refusesForm(err):
			form++
		case isAboutQuestion(ctx, err):
			return work.Answer{}, broken(upstreamError(ctx, err))
		case err != nil:
			return work.Answer{}, upstreamError(ctx, err)
		default:
			c.useForm(ctx, form)
			return answerOf(answer)
		}
	}
}

// Write makes one call whose answer is plain text. A refusal is no text, so it is "", as is an answer that was cut short.
// Its deadline is that of ctx.
func (c *Client) Write(ctx context.Context, question work.Question) (work.Answer, error) {
	params := newParams(question.Purpose, question.Input, question.Instructions, question.CacheKey, question.UserID)
	params.Model = question.Model
	response, err := c.ask(ctx, params, question.UserID, question.CacheKey)
	if err != nil {
		return work.Answer{}, upstreamError(ctx, err)
	}
	if err := unanswered(response, "The model failed to answer."); err != nil {
		return work.Answer{}, err
	}
	answer := textOf(response)
	answer.Text = withoutFence(answer.Text)
	if response.Get("status").String() == "incomplete" {
		answer.Text = ""
	}
	return answer, nil
}

// Summarize makes one summary call. Its deadline is that of ctx.
func (c *Client) Summarize(ctx context.Context, call brief.Call) (work.Answer, error) {
	params := newParams(string(call.Kind), call.Input, call.Instructions, call.ChatID, call.UserID)
	if call.Hosted != nil {
		params.Prompt = &hostedPrompt{call.Hosted.ID, call.Hosted.Version}
	} else {
		params.Model = call.Model
	}
	response, err := c.ask(ctx, params, call.UserID, call.ChatID)
	if err != nil {
		if call.Hosted != nil && isPromptGone(err) {
			return work.Answer{}, fmt.Errorf("%w: %w", brief.ErrPromptGone, upstreamError(ctx, err))
		}
		return work.Answer{}, upstreamError(ctx, err)
	}
	// The gate judges an incomplete answer like any other.
	if err := unanswered(response, "The model failed to summarize."); err != nil {
		return work.Answer{}, err
	}
	return textOf(response), nil
}

// unanswered is the error of a response that is neither whole nor cut short.
func unanswered(response gjson.Result, message string) error {
	status, code := response.Get("status").String(), response.Get("error.code").String()
	switch {
	case status == "completed", status == "incomplete":
		return nil
	case code != "":
		return reportedError(code)
	}
	return fault.Wrap(fault.UpstreamFailed, message, fmt.Errorf("status %s", word(status)))
}

// summaryText returns the parts of an answer, each a text of its own. No refusal is a summary.
func summaryText(response gjson.Result) string {
	var parts []string
	for _, item := range response.Get("output").Array() {
		for _, part := range item.Get("content").Array() {
			if said := part.Get("text").String(); said != "" && part.Get("type").String() == "output_text" {
				parts = append(parts, said)
			}
		}
	}
	return strings.Join(parts, partGap)
}

// textOf returns what a response says, and what it cost.
func textOf(response gjson.Result) work.Answer {
	usage := usageOf(response.Get("usage"), "input", "output")
	return work.Answer{
		Text: storable(summaryText(response)), Model: storable(response.Get("model").String()),
		InputTokens: usage.InputTokens, CachedTokens: usage.CachedTokens, OutputTokens: usage.OutputTokens,
	}
}

type textConfig struct {
	Format textFormat `json:"format"`
}

type textFormat struct {
	Type   string         `json:"type"`
	Name   string         `json:"name,omitempty"`
	Schema map[string]any `json:"schema,omitempty"`
	Strict bool           `json:"strict,omitempty"`
}

// formOf returns what a call says about the form of its answer.
func formOf(question work.Question, schema []byte, form int32) (text *textConfig, instructions string) {
	switch form {
	case bySchema:
		return &textConfig{textFormat{Type: "json_schema", Name: question.SchemaName, Schema: question.Schema, Strict: true}}, question.Instructions
	case asJSON:
		text = &textConfig{textFormat{Type: "json_object"}}
	}
	return text, question.Instructions + "\n\nAnswer with one JSON object that follows this JSON schema, and with nothing else:\n" + string(schema)
}

// useForm notes what the server has understood, and logs it once. A refusal alone may be about a text that names a form.
func (c *Client) useForm(ctx context.Context, form int32) {
	if known := c.form.Load(); known < form && c.form.CompareAndSwap(known, form) {
		c.settings.Logger.LogAttrs(ctx, slog.LevelWarn, "the model's server refuses the form of an answer, which the instructions describe from now on",
			slog.Bool("json_mode", form == asJSON))
	}
}

// refusesForm reports whether the server refused a call because of the form that its answer should have. Servers that do
// not say which field it was at least name it.
func refusesForm(err error) bool {
	refused, ok := errors.AsType[*refusal](err)
	if !ok || refused.status != http.StatusBadRequest && refused.status != http.StatusUnprocessableEntity {
		return false
	}
	if name, _, _ := strings.Cut(refused.param, "."); name != "" {
		return name == "text" || name == "response_format"
	}
	said := strings.ToLower(refused.code + " " + refused.message)
	names := []string{"json_schema", "json_object", "text.format", "response_format"}
	return slices.ContainsFunc(names, func(name string) bool { return strings.Contains(said, name) })
}

// isAboutQuestion reports whether the server failed or refused because of the question: neither because of who asks, nor
// because it is overloaded or away.
func isAboutQuestion(ctx context.Context, err error) bool {
	refused, ok := errors.AsType[*refusal](err)
	return ok && ctx.Err() == nil && refused.known() == nil && isAboutInput(refused)
}

func isAboutInput(refused *refusal) bool {
	switch refused.status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity, http.StatusInternalServerError:
		return true
	}
	return false
}

func broken(err error) error { return fmt.Errorf("%w: %w", work.ErrBroken, err) }

// answerOf returns the answer of a response that is whole.
func answerOf(response gjson.Result) (work.Answer, error) {
	status, code := response.Get("status").String(), response.Get("error.code").String()
	if status == "failed" && code != "" {
		return work.Answer{}, reportedError(code)
	}
	if status != "completed" {
		return work.Answer{}, broken(fault.Wrap(fault.UpstreamFailed, "The model did not finish its answer.",
			fmt.Errorf("status %s, reason %s", word(status), word(response.Get("incomplete_details.reason").String()))))
	}
	answer := textOf(response)
	if answer.Text = withoutFence(answer.Text); answer.Text == "" {
		return work.Answer{}, broken(fault.Wrap(fault.UpstreamFailed, "The model gave no answer.", errors.New("it refused, or said nothing")))
	}
	return answer, nil
}

// withoutFence removes the fence of a code block around a whole answer.
func withoutFence(answer string) string {
	answer = strings.TrimSpace(answer)
	inner, fenced := strings.CutPrefix(answer, "```")
	inner, closed := strings.CutSuffix(inner, "```")
	if !fenced || !closed {
		return answer
	}
	return strings.TrimSpace(strings.TrimPrefix(inner, "json"))
}
