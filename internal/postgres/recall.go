package postgres

import (
	"context"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/memory/longterm"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Recall reads the index of turns, with the rights of the user who asks.
type Recall struct{ Pool *pgxpool.Pool }

var _ recall.Store = (*Recall)(nil)

// mostMatches is how many rows the words of a question may bring: enough for every word that tells turns apart.
const mostMatches = 1200

// IndexRest indexes what was said a moment ago.
func (r *Recall) IndexRest(ctx context.Context, user auth.Principal, in recall.Query) error {
	return sendLimited(ctx, r.Pool, user, in.ChatID, "index turns", func(batch *pgx.Batch) {
		dbsqlc.IndexRest.Queue(batch, dbsqlc.IndexRestParams{ChatID: nullID(in.ChatID)})
	})
}

// Matches returns the turns that hold words.
func (r *Recall) Matches(ctx context.Context, user auth.Principal, in recall.Query, words [][]string) (recall.Matches, error) {
	var found recall.Matches
	params := dbsqlc.RecallMatchesParams{
		ChatID: nullID(in.ChatID), TopicID: nullID(in.TopicID), AfterSeq: in.After, BeforeSeq: in.Before, Most: mostMatches,
		ExceptChat: nullID(in.Except),
	}
	for _, forms := range words {
		params.Words = append(params.Words, strings.Join(forms, "\n"))
	}
	err := sendLimited(ctx, r.Pool, user, in.ChatID, "find turns by their words", func(batch *pgx.Batch) {
		found = recall.Matches{}
		if in.Except != uuid.Nil {
			dbsqlc.IndexRest.Queue(batch, dbsqlc.IndexRestParams{ExceptChat: nullID(in.Except)})
		}
		size := dbsqlc.RecallSizeParams{ChatID: nullID(in.ChatID), AfterSeq: in.After, BeforeSeq: in.Before}
		dbsqlc.RecallSize.Read(batch, size, func(turns int64) { found.Turns = int(turns) })
		dbsqlc.RecallMatches.Read(batch, params, func(match recall.Match) {
			match.Own, match.Asked = timesFound(match.Own), timesFound(match.Asked)
			found.Found = append(found.Found, match)
		})
		queueTopicPlaces(batch, in, nil, &found.Topics)
	})
	return found, err
}

// sendLimited sends a batch about a chat, or about all chats of the user. Postgres ends it in time.
func sendLimited(ctx context.Context, pool *pgxpool.Pool, user auth.Principal, chatID uuid.UUID, doing string, fill func(*pgx.Batch)) error {
	limited := func(batch *pgx.Batch) {
		queueLimit(ctx, batch)
		fill(batch)
	}
	var err error
	if chatID == uuid.Nil {
		err = sendAs(ctx, pool, user, doing, limited)
	} else {
		err = sendAbout(ctx, pool, user, chatID, doing, limited)
	}
	if sqlState(err) == pgerrcode.QueryCanceled {
		return failed(doing, context.DeadlineExceeded)
	}
	return err
}

// queueLimit lets Postgres end what follows a little before ctx ends: a context that ends closes the connection.
func queueLimit(ctx context.Context, batch *pgx.Batch) {
	if deadline, ok := ctx.Deadline(); ok {
		most := max(time.Until(deadline)*9/10, time.Millisecond)
		dbsqlc.LimitStatements.Queue(batch, strconv.FormatInt(most.Milliseconds(), 10))
	}
}

// timesFound returns how often a word is in a text by its ts_rank, which is 1 + 1/4 + 1/9 + … by pi²/6: 1 for once, 2
// for twice, and then less and less. Of a phrase it is 1.
func timesFound(rank float64) float64 {
	if rank <= 0 {
		return 0
	}
	const rounding = .001
	sum := rank * math.Pi * math.Pi / 6
	whole := math.Floor(sum + rounding)
	return max(whole+4*max(sum-whole, 0), 1)
}

// mostNear is how many turns are found by the signs of their vectors: enough that the 200 nearest by their cosines are among them,
// but for a few of the farthest.
const mostNear = 400

// Nearness returns turns with a vector of the model, and the topics of the chat, with their cosines.
func (r *Recall) Nearness(ctx context.Context, user auth.Principal, in recall.Query, vector recall.Vector, known []recall.TurnID) (recall.Nearby, error) {
	params := dbsqlc.RecallNearnessParams{
		Question: vectorText(vector.Values), Model: vector.Model, ChatID: nullID(in.ChatID), TopicID: nullID(in.TopicID),
		AfterSeq: in.After, BeforeSeq: in.Before, ExceptChat: nullID(in.Except), Most: mostNear,
	}
	for _, turn := range known {
		params.Chats, params.Turns = append(params.Chats, turn.ChatID), append(params.Turns, turn.Seq)
	}
	var found recall.Nearby
	err := sendLimited(ctx, r.Pool, user, in.ChatID, "find turns by their meaning", func(batch *pgx.Batch) {
		dbsqlc.RecallNearness.Read(batch, params, all(&found.Turns))
		queueTopicPlaces(batch, in, &vector, &found.Topics)
	})
	return found, err
}

// Texts returns the messages of turns, and a topic.
func (r *Recall) Texts(ctx context.Context, user auth.Principal, turns []recall.Span, topicID uuid.UUID) (
	map[recall.TurnID][]recall.Message, *recall.Topic, error,
) {
	var params dbsqlc.ReadTurnsParams
	for _, turn := range turns {
		params.ChatIds = append(params.ChatIds, turn.ChatID)
		params.Turns, params.LastSeqs = append(params.Turns, turn.Seq), append(params.LastSeqs, turn.LastSeq)
	}
	found := map[recall.TurnID][]recall.Message{}
	var topic *recall.Topic
	err := sendLimited(ctx, r.Pool, user, uuid.Nil, "read turns", func(batch *pgx.Batch) {
		clear(found)
		dbsqlc.ReadTurns.Read(batch, params, func(row dbsqlc.ReadTurnsRow) {
			turn := recall.TurnID{ChatID: row.ChatID, Seq: row.Turn}
			found[turn] = append(found[turn], recall.Message{
				ID: row.ID, Seq: row.Seq, Role: row.Role, Content: row.Content, CreatedAt: row.CreatedAt, ChatTitle: row.Title,
			})
		})
		if topic = nil; topicID != uuid.Nil {
			dbsqlc.LookUpTopic.Read(batch, topicID, perhaps(&topic))
		}
	})
	return found, topic, err
}

// queueTopicPlaces adds the statement that reads the topics of a chat, where they are asked for: with their cosines if there is
// a vector.
func queueTopicPlaces(batch *pgx.Batch, in recall.Query, vector *recall.Vector, found *[]recall.TopicPlace) {
	if *found = nil; !in.Topics {
		return
	}
	params := dbsqlc.LookUpTopicsParams{ChatID: in.ChatID, AfterSeq: in.After, BeforeSeq: in.Before}
	if vector != nil {
		params.Model, params.Question = vector.Model, new(vectorText(vector.Values))
	}
	dbsqlc.LookUpTopics.Read(batch, params, all(found))
}

// Memories reads memories for prompts, with the rights of the user who asks.
type Memories struct{ Pool *pgxpool.Pool }

var _ longterm.Reader = (*Memories)(nil)

// Candidates returns the memories that a message may be about.
func (m *Memories) Candidates(ctx context.Context, user auth.Principal, ask longterm.Ask) ([]longterm.Found, error) {
	params := dbsqlc.FindMemoriesParams{
		Names: ask.Names, Relationships: ask.Relationships, Types: []string{}, Model: ask.Vector.Model, Most: ask.PerWay,
	}
	for _, t := range ask.Types {
		params.Types = append(params.Types, string(t))
	}
	for _, word := range ask.Words {
		params.Words, params.Telling = append(params.Words, strings.Join(word.Forms, "\n")), append(params.Telling, !word.Function)
	}
	if ask.Vector.Values != nil {
		params.Question = new(vectorText(ask.Vector.Values))
	}
	var found []longterm.Found
	err := sendLimited(ctx, m.Pool, user, uuid.Nil, "find memories", func(batch *pgx.Batch) {
		dbsqlc.FindMemories.Read(batch, params, all(&found))
	})
	return found, err
}
