package llm

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/google/uuid"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
)

// refusedFields are fields of a call that the server does not know: a call does without them.
type refusedFields struct{ metadata, store atomic.Bool }

// send makes a call. When the server refuses one of the fields that only describe a call, the call is made once more
// without it, as are all later ones.
func (c *Client) send(ctx context.Context, params responses.ResponseNewParams, options ...option.RequestOption) (*responses.Response, error) {
	for {
		if c.refused.metadata.Load() {
			params.Metadata = nil
		}
		if c.refused.store.Load() {
			params.Store = param.Opt[bool]{}
		}
		response, err := c.api.New(ctx, params, options...)
		switch {
		case params.Metadata != nil && refusesField(err, "metadata"):
			c.leaveOut(ctx, &c.refused.metadata, "metadata")
		case params.Store.Valid() && refusesField(err, "store"):
			c.leaveOut(ctx, &c.refused.store, "store")
		default:
			return response, err
		}
	}
}

// ask is send for what is no reply, and records what it has cost. A call that broke off may be on the bill all the same: what
// was sent is estimated. One that was refused is not.
func (c *Client) ask(ctx context.Context, params responses.ResponseNewParams, userID, chatID uuid.UUID) (*responses.Response, error) {
	response, err := c.send(ctx, params)
	spent := work.Spent{Purpose: params.Metadata["purpose"], Model: params.Model, UserID: userID}
	if chatID != userID {
		spent.ChatID = chatID
	}
	_, refused := errors.AsType[*responses.Error](err)
	switch {
	case refused:
		return response, err
	case err != nil:
		spent.Estimated = true
		spent.InputTokens = text.Tokens(params.Instructions.Value) + text.Tokens(params.Input.OfString.Value)
	default:
		answer := textOf(response)
		spent.Model = cmp.Or(answer.Model, spent.Model)
		spent.InputTokens, spent.CachedTokens, spent.OutputTokens = answer.InputTokens, answer.CachedTokens, answer.OutputTokens
	}
	c.record(ctx, spent)
	return response, err
}

// leaveOut notes a refused field, and logs it once.
func (c *Client) leaveOut(ctx context.Context, refused *atomic.Bool, field string) {
	if refused.CompareAndSwap(false, true) {
		c.logger.LogAttrs(ctx, slog.LevelWarn, "the model's server refuses a field of calls, which are made without it from now on", slog.String("field", field))
	}
}

// refusesField reports whether the server refused a call because of a field, or of something in it.
func refusesField(err error, field string) bool {
	refused, ok := errors.AsType[*responses.Error](err)
	if !ok || refused.StatusCode != http.StatusBadRequest {
		return false
	}
	name, _, _ := strings.Cut(refused.Param, ".")
	return name == field
}
