package postgres

import (
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
)

// queueTopicPlaces adds the statement that reads the topics of a chat, where they are asked for: with their cosines if there is
// a vector.
func queueTopicPlaces(batch *pgx.Batch, in recall.Scope, vector *recall.Vector, found *[]recall.TopicPlace) {
	*found = nil
	if !in.Topics {
		return
	}
	params := dbsqlc.LookUpTopicsParams{ChatID: in.ChatID, AfterSeq: in.After, BeforeSeq: in.Before}
	if vector != nil {
		params.Model, params.Question = vector.Model, new(vectorText(vector.Values))
	}
	queueMany(batch, queries.LookUpTopics, params, func(row dbsqlc.LookUpTopicsRow) {
		*found = append(*found, recall.TopicPlace{
			ID: row.ID, Latest: row.Latest, Left: row.Left, Cosine: float64(row.Cosine), HasCosine: row.HasCosine,
		})
	})
}

// queueKnownTopic adds the statement that reads what a prompt shows of a topic; none for uuid.Nil.
func queueKnownTopic(batch *pgx.Batch, id uuid.UUID, found **recall.Topic) {
	*found = nil
	if id == uuid.Nil {
		return
	}
	queueMany(batch, queries.LookUpTopic, id, func(row dbsqlc.LookUpTopicRow) {
		*found = &recall.Topic{ID: row.ID, Title: row.Title, Summary: row.Summary, Since: row.CreatedAt, Turns: row.Turns}
	})
}
