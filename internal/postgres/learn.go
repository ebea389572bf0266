package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/arcoscribe/throughline/internal/memory/consolidate"
	"github.com/arcoscribe/throughline/internal/memory/extract"
	"github.com/arcoscribe/throughline/internal/memory/learn"
	"github.com/arcoscribe/throughline/internal/memory/lease"
	"github.com/arcoscribe/throughline/internal/memory/memories"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Learning is the store of extractions.
type Learning struct {
	pool *pgxpool.Pool
}

var _ learn.Store = (*Learning)(nil)

// NewLearning returns the store.
func NewLearning(pool *pgxpool.Pool) *Learning {
	return &Learning{pool: pool}
}

// Claim takes the lease of the chat's user, whose row it makes where there is none, and reads what an extraction needs.
func (l *Learning) Claim(ctx context.Context, chatID uuid.UUID, held lease.Lease, mostTurns int) (learn.Snapshot, lease.Claim, error) {
	s, claim, known, err := l.claim(ctx, chatID, held, mostTurns)
	if err != nil || claim != lease.Occupied || known {
		return s, claim, err
	}
	err = retry(ctx, l.pool, func() error { return dbsqlc.New(l.pool).MakeMemoryUser(ctx, chatID) })
	if sqlState(err) == foreignKeyViolation {
		return learn.Snapshot{}, lease.Gone, nil // the user was deleted meanwhile
	}
	if err != nil {
		return learn.Snapshot{}, lease.Occupied, failed("make memory user", err)
	}
	s, claim, _, err = l.claim(ctx, chatID, held, mostTurns)
	return s, claim, err
}

// claim also reports whether the user has a row.
func (l *Learning) claim(ctx context.Context, chatID uuid.UUID, held lease.Lease, mostTurns int) (s learn.Snapshot, claim lease.Claim, known bool, err error) {
	enabled, found := false, false
	owner, err := sendAsOwner(ctx, l.pool, chatID, "claim extraction", func(batch *pgx.Batch) {
		s, claim, enabled, found = learn.Snapshot{}, lease.Occupied, false, false
		params := dbsqlc.ClaimExtractionParams{LeaseToken: held.Token, LeaseSeconds: held.Duration.Seconds()}
		queueOne(batch, queries.ClaimExtraction, params, func(row dbsqlc.ClaimExtractionRow) {
			claim, enabled = lease.Taken, row.Enabled
			s.TimeZone, s.Language, s.Excluded = row.TimeZone, row.Language, row.Excluded
		})
		queueOne(batch, bare(queries.HasMemoryUser), struct{}{}, set(&known))
		queueOne(batch, queries.ReadExtraction, chatID, func(row dbsqlc.ReadExtractionRow) {
			found = true
			s.Wanted = enabled && row.Remember
			s.LastSeq, s.ExtractedSeq, s.ClearedSeq = row.LastSeq, row.ExtractedSeq, row.ClearedSeq
			s.Summary, s.DueNow, s.Rested = row.Summary, row.DueNow, time.Duration(row.Rested*float64(time.Second))
		})
		queueExec(batch, queries.ReadUnread, dbsqlc.ReadUnreadParams{ChatID: chatID, MostTurns: mostTurns}).Query(messages(&s.Messages))
		queueExec(batch, queries.ReadBefore, dbsqlc.ReadBeforeParams{ChatID: chatID, Most: extract.RecentMessages}).Query(messages(&s.Before))
		queueExec(batch, queries.ReadShown, chatID).Query(all(&s.Shown))
	})
	if err == nil && (owner == uuid.Nil || claim == lease.Taken && !found) {
		claim = lease.Gone
	}
	s.UserID = owner
	slices.Reverse(s.Before)
	return s, claim, known, err
}

// Renew extends the lease. It reports whether the lease was still held.
func (l *Learning) Renew(ctx context.Context, chatID uuid.UUID, held lease.Lease) (bool, error) {
	return changeAsOwner(ctx, l.pool, chatID, "renew extraction", queries.RenewExtraction, dbsqlc.RenewExtractionParams{
		LeaseSeconds: held.Duration.Seconds(), LeaseToken: held.Token,
	})
}

// Release ends the lease.
func (l *Learning) Release(ctx context.Context, chatID uuid.UUID, held lease.Lease) error {
	_, err := sendAsOwner(ctx, l.pool, chatID, "release extraction", func(batch *pgx.Batch) {
		queueExec(batch, queries.ReleaseExtraction, held.Token)
	})
	return err
}

// Settle ends the lease, and notes that nothing is due if nothing was said since.
func (l *Learning) Settle(ctx context.Context, chatID uuid.UUID, held lease.Lease) error {
	_, err := sendAsOwner(ctx, l.pool, chatID, "settle extraction", func(batch *pgx.Batch) {
		queueExec(batch, queries.SettleExtraction, chatID)
		queueExec(batch, queries.ReleaseExtraction, held.Token)
	})
	return err
}

// PutOff ends the lease, and lets the chat be due after a wait.
func (l *Learning) PutOff(ctx context.Context, chatID uuid.UUID, held lease.Lease, wait time.Duration) error {
	_, err := sendAsOwner(ctx, l.pool, chatID, "put off extraction", func(batch *pgx.Batch) {
		queueExec(batch, queries.PutOffExtraction, dbsqlc.PutOffExtractionParams{WaitSeconds: wait.Seconds(), ChatID: chatID})
		queueExec(batch, queries.ReleaseExtraction, held.Token)
	})
	return err
}

// Similar returns the memories that resemble each text. The version is read before them: what changes meanwhile is noticed.
func (l *Learning) Similar(ctx context.Context, chatID uuid.UUID, texts []learn.Text, model string) (learn.Known, error) {
	params := dbsqlc.SimilarMemoriesParams{Model: model, Most: consolidate.MostAlike}
	for _, text := range texts {
		params.Contents = append(params.Contents, text.Content)
		vector := ""
		if text.Vector != nil {
			vector = vectorText(text.Vector)
		}
		params.Embeddings = append(params.Embeddings, vector)
	}
	var known learn.Known
	_, err := sendAsOwner(ctx, l.pool, chatID, "find similar memories", func(batch *pgx.Batch) {
		known = learn.Known{Alike: make([][]consolidate.Known, len(texts))}
		queueOne(batch, bare(queries.ReadMemoryVersion), struct{}{}, set(&known.Version))
		queueMany(batch, queries.SimilarMemories, params, func(row dbsqlc.SimilarMemoriesRow) {
			known.Alike[row.Candidate-1] = append(known.Alike[row.Candidate-1], knownFrom(row))
		})
	})
	return known, err
}

func knownFrom(row dbsqlc.SimilarMemoriesRow) consolidate.Known {
	return consolidate.Known{
		Memory: memories.Memory{
			ID: row.ID, Content: row.Content, Type: memories.Type(row.MemoryType), Confidence: row.Confidence, Durable: row.Durable,
			Pinned: row.Pinned, Edited: row.Edited, Status: memories.Status(row.Status), Origin: memories.Origin(row.Origin), Version: row.Version,
			Lang: row.Lang, ValidFrom: zeroNull(row.ValidFrom), ValidTo: zeroNull(row.ValidTo), Precision: memories.Precision(row.ValidPrecision),
			RecordedAt: row.RecordedAt, RetractedAt: zeroNull(row.RetractedAt), SupersededBy: row.SupersededBy.UUID,
			Sources: []memories.Source{{SaidAt: row.SaidAt}},
		},
		SameKey: row.SameKey, Cosine: row.Cosine, HasCosine: row.HasCosine,
		VectorPlace: row.VectorRank, WordsPlace: row.WordsRank,
	}
}
