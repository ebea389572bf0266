package postgres

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Usage keeps what calls of models cost, and asks the app what users may spend.
type Usage struct {
	Pool   *pgxpool.Pool
	Logger *slog.Logger
}

var _ work.Meter = (*Usage)(nil)

// recordTimeout is how long a call waits for its row at most: nothing depends on it.
const recordTimeout = 2 * time.Second

// Record stores what a call has cost, also when who asked has gone. It reports a failure to the log alone. A user who was
// deleted meanwhile has spent nothing.
func (u *Usage) Record(ctx context.Context, spent work.Spent) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	err := explained(dbsqlc.InsertUsage.Run(ctx, u.Pool, usageRow(spent)))
	if err != nil && fault.CodeOf(err) != fault.UserNotFound {
		u.Logger.LogAttrs(ctx, slog.LevelWarn, "what a call of the model has cost is not recorded",
			slog.String("purpose", spent.Purpose), slog.Int("input_tokens", spent.InputTokens), slog.Int("output_tokens", spent.OutputTokens), slog.Any("error", err))
	}
}

func usageRow(spent work.Spent) dbsqlc.InsertUsageParams {
	return dbsqlc.InsertUsageParams{
		ID: nullID(spent.ID), UserID: spent.UserID, ChatID: nullID(spent.ChatID), MessageID: nullID(spent.MessageID), Purpose: spent.Purpose, Model: spent.Model,
		ModelVariant: nullZero(spent.Variant), InputTokens: spent.InputTokens, CachedTokens: spent.CachedTokens, OutputTokens: spent.OutputTokens,
		MicroUsd: spent.MicroUSD, Estimated: spent.Estimated,
	}
}

// longestDenial is when a call is asked about again for which the app names no time.
const longestDenial = time.Hour

// Allow asks throughline.allow_turn, as the user. There is no downgrade of what is no reply.
func (u *Usage) Allow(ctx context.Context, userID uuid.UUID, purpose string) error {
	var said api.Quota
	user := auth.Principal{UserID: userID, Claims: `{"sub":"` + userID.String() + `","role":"authenticated"}`}
	err := sendAs(ctx, u.Pool, user, "ask for the quota", func(batch *pgx.Batch) {
		dbsqlc.AskQuota.Read(batch, dbsqlc.AskQuotaParams{UserID: userID, Purpose: purpose}, set(&said))
	})
	if err != nil {
		return err
	}
	if said.Verdict != "deny" {
		return nil
	}
	until := zeroNull(said.ResetsAt)
	denied := &work.DeniedError{Until: until, Err: fault.Quota(said.Reason, until)}
	if least := time.Now().Add(time.Second); until.Before(least) {
		denied.Until = least
	}
	if said.ResetsAt == nil {
		denied.Until = time.Now().Add(longestDenial)
	}
	return denied
}

// ReadUsage sums up what a user's calls have cost.
func (h *History) ReadUsage(ctx context.Context, user auth.Principal, query api.UsageQuery) (api.Spending, error) {
	var found api.Spending
	err := sendAs(ctx, h.pool, user, "read usage", func(batch *pgx.Batch) {
		dbsqlc.SumUsage.Read(batch, dbsqlc.SumUsageParams{By: query.By, Since: query.Since, Until: query.Until}, all(&found.Usage))
		dbsqlc.AskQuota.Read(batch, dbsqlc.AskQuotaParams{UserID: user.UserID, Purpose: work.PurposeReply, Variant: query.Variant}, set(&found.Quota))
	})
	return found, err
}

// quotaExceeded is an SQLSTATE of our own, which throughline.admit_turn raises.
const quotaExceeded = "TL003"

// deniedTurn is the fault of a turn that was denied. The detail was written by admit_turn.
func deniedTurn(detail string) error {
	var said struct {
		Reason   string
		ResetsAt time.Time `json:"resets_at"`
	}
	if err := json.Unmarshal([]byte(detail), &said); err != nil {
		return failed("read the quota", err)
	}
	return fault.Quota(said.Reason, said.ResetsAt)
}
