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
	if *found = nil; !in.Topics {
		return
	}
	params := dbsqlc.LookUpTopicsParams{ChatID: in.ChatID, AfterSeq: in.After, BeforeSeq: in.Before}
	if vector != nil {
		params.Model, params.Question = vector.Model, new(vectorText(vector.Values))
	}
	queueExec(batch, queries.LookUpTopics, params).Query(all(found))
}

// queueKnownTopic adds the statement that reads what a prompt shows of a topic; none for uuid.Nil.
func queueKnownTopic(batch *pgx.Batch, id uuid.UUID, found **recall.Topic) {
	if *found = nil; id != uuid.Nil {
		queueExec(batch, queries.LookUpTopic, id).Query(perhaps(found))
	}
}
