package postgres

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/arcoscribe/throughline/internal/memory/assign"
	"github.com/arcoscribe/throughline/internal/memory/topics"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// givenTopic is an element of conversation_briefs.imported_topics.
type givenTopic struct {
	TopicID    *uuid.UUID `json:"topic_id"`
	Title      *string    `json:"title"`
	Tags       []string   `json:"tags"`
	Importance float64    `json:"importance"`
	Rated      bool       `json:"rated"`
	Turns      []int64    `json:"turns"`
}

// readGiven reads the topics of an imported file, and gives them to their turns.
func readGiven(imported json.RawMessage, s *assign.Snapshot) error {
	var rows []givenTopic
	if err := json.Unmarshal(imported, &rows); err != nil {
		return fmt.Errorf("read imported topics: %w", err)
	}
	by := map[int64]*topics.Given{}
	for _, row := range rows {
		given := &assign.Given{
			Given: topics.Given{TopicID: zeroNull(row.TopicID), Renamed: row.Title != nil, Importance: row.Importance, Rated: row.Rated},
			Title: row.Title, Tags: row.Tags, Turns: row.Turns,
		}
		s.Given = append(s.Given, given)
		for _, seq := range row.Turns {
			by[seq] = &given.Given
		}
	}
	for n := range s.Turns {
		s.Turns[n].Given = by[s.Turns[n].Seq]
	}
	return nil
}

// queueGiven gives the topics that were made now what a person chose for them, and keeps what is left to do.
func queueGiven(batch *pgx.Batch, chatID uuid.UUID, change *assign.Change, given []*assign.Given) error {
	if len(given) == 0 {
		return nil
	}
	rows := make([]givenTopic, len(given))
	last := int64(0)
	for n, g := range given {
		rows[n] = givenTopic{nil, g.Title, g.Tags, g.Importance, g.Rated, g.Turns}
		last = max(last, slices.Max(append(g.Turns, 0)))
		if g.TopicID == uuid.Nil {
			continue
		}
		rows[n].TopicID, rows[n].Title, rows[n].Tags = &g.TopicID, nil, []string{}
		if slices.ContainsFunc(change.New, func(t assign.Titled) bool { return t.ID == g.TopicID }) {
			queueExec(batch, queries.AssignGive, dbsqlc.AssignGiveParams{ID: g.TopicID, ChatID: chatID, Title: g.Title, Tags: g.Tags})
		}
	}
	encoded, err := json.Marshal(rows)
	if err != nil {
		return fmt.Errorf("keep imported topics: %w", err)
	}
	queueExec(batch, queries.AssignKeepImported, dbsqlc.AssignKeepImportedParams{ChatID: chatID, LastSeq: last, Imported: encoded})
	return nil
}
