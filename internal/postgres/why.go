package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// ListBriefRevisions reads a page and one version more, which shows that there is a next page.
func (h *History) ListBriefRevisions(
	ctx context.Context, user auth.Principal, chatID uuid.UUID, query history.BriefRevisionsQuery,
) (history.BriefRevisionPage, error) {
	params := dbsqlc.ListBriefRevisionsParams{ChatID: chatID, BeforeVersion: math.MaxInt64, Most: query.Limit + 1}
	if query.BeforeVersion != nil {
		params.BeforeVersion = *query.BeforeVersion
	}
	var page history.BriefRevisionPage
	err := sendAbout(ctx, h.pool, user, chatID, "list revisions", func(batch *pgx.Batch) {
		queueExec(batch, queries.ListBriefRevisions, params).Query(all(&page.Revisions))
	})
	if err != nil {
		return history.BriefRevisionPage{}, err
	}
	page.Revisions, page.HasMore = cut(page.Revisions, query.Limit)
	return page, nil
}

// WhyReply reads a reply's receipt, and then what that names.
func (h *History) WhyReply(ctx context.Context, user auth.Principal, messageID uuid.UUID) (history.Why, error) {
	const doing = "read why"
	var state chatState
	var reply dbsqlc.FindWhyReplyRow
	err := sendAs(ctx, h.pool, user, doing, func(batch *pgx.Batch) {
		queueExec(batch, queries.FindMessagesChat, messageID).Query(one(&state))
		queueOne(batch, queries.FindWhyReply, messageID, set(&reply))
	})
	switch {
	case err != nil:
		return history.Why{}, err
	case state.ID == uuid.Nil:
		return history.Why{}, history.NoMessage()
	}
	if err := refusal(state); err != nil {
		return history.Why{}, err
	}
	if reply.ID == uuid.Nil {
		return history.Why{}, history.NoReply()
	}
	var metadata chat.ReplyMetadata
	if err := json.Unmarshal(reply.Metadata, &metadata); err != nil {
		return history.Why{}, fmt.Errorf("metadata of message %s: %w", reply.ID, err)
	}
	why := history.Why{
		ChatID: reply.ChatID, MessageID: reply.ID, Seq: reply.Seq, Status: reply.Status, Receipt: metadata.Memory,
		Memories: []history.WhyMemory{}, Recalled: []history.WhyTurn{}, Recent: []history.WhyMessage{},
	}
	if reply.UserMessageID.Valid {
		why.UserMessageID = &reply.UserMessageID.UUID
	}
	if why.Receipt == nil {
		return why, nil
	}
	return why, sendAs(ctx, h.pool, user, doing, func(batch *pgx.Batch) { queueShown(batch, &why, reply.AskedSeq, why.Receipt) })
}

// recalledMessage is a row of ReadWhyRecalled.
type recalledMessage struct {
	Turn int64
	history.WhyMessage
}

// queueShown adds the statements that read what a receipt names.
func queueShown(batch *pgx.Batch, why *history.Why, askedSeq int64, receipt *prompt.Receipt) {
	why.Brief, why.Topic = nil, nil
	why.Memories, why.Recalled, why.Recent = []history.WhyMemory{}, []history.WhyTurn{}, []history.WhyMessage{}
	if len(receipt.Memories) > 0 {
		queueExec(batch, queries.ReadWhyMemories, receipt.Memories).Query(all(&why.Memories))
	}
	if receipt.BriefVersion > 0 {
		queueExec(batch, queries.ReadWhyBrief, dbsqlc.ReadWhyBriefParams{ChatID: why.ChatID, Version: receipt.BriefVersion}).Query(perhaps(&why.Brief))
	}
	if receipt.Topic != uuid.Nil {
		queueExec(batch, queries.ReadWhyTopic, dbsqlc.ReadWhyTopicParams{TopicID: receipt.Topic, ChatID: why.ChatID}).Query(perhaps(&why.Topic))
	}
	if len(receipt.Recalled) > 0 {
		recalled := dbsqlc.ReadWhyRecalledParams{Seqs: receipt.Recalled, ChatID: why.ChatID}
		queueExec(batch, queries.ReadWhyRecalled, recalled).Query(each(func(row recalledMessage) {
			if n := len(why.Recalled); n == 0 || why.Recalled[n-1].Seq != row.Turn {
				why.Recalled = append(why.Recalled, history.WhyTurn{Seq: row.Turn})
			}
			turn := &why.Recalled[len(why.Recalled)-1]
			turn.Messages = append(turn.Messages, row.WhyMessage)
		}))
	}
	if turns := receipt.BridgeTurns + receipt.TailTurns; turns > 0 {
		queueExec(batch, queries.ReadWhyRecent, dbsqlc.ReadWhyRecentParams{
			ChatID: why.ChatID, AskedSeq: askedSeq, CoveredSeq: receipt.CoveredThroughSeq, Turns: min(turns, maxBufferRows),
		}).Query(all(&why.Recent))
	}
}
