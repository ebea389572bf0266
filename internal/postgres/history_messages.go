package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// refusal returns why a chat cannot be read or changed, or nil. The zero value is a chat that does not exist.
func refusal(state dbsqlc.ChatStateRow) error {
	switch {
	case state.ID == uuid.Nil:
		return fault.NoChat()
	case state.Expired:
		return fault.Expired(state.ID, *state.ExpiresAt)
	}
	return nil
}

// ListMessages reads a page and one message more, which shows that there is a next page.
func (h *History) ListMessages(ctx context.Context, user auth.Principal, chatID uuid.UUID, query api.MessagesQuery) (api.MessagePage, error) {
	page := api.MessagePage{}
	err := sendAbout(ctx, h.pool, user, chatID, "list messages", func(batch *pgx.Batch) {
		readPage(batch, chatID, query, all(&page.Messages))
	})
	page.Messages, page.HasMore = cut(page.Messages, query.Limit)
	if query.AfterSeq == nil {
		slices.Reverse(page.Messages)
	}
	return page, err
}

func readPage(batch *pgx.Batch, chatID uuid.UUID, query api.MessagesQuery, take func(api.Message)) {
	if query.AfterSeq != nil {
		dbsqlc.ListMessagesAfter.Read(batch, dbsqlc.ListMessagesAfterParams{
			ChatID: chatID, AfterSeq: *query.AfterSeq, AllVersions: query.Versions != "", Most: query.Limit + 1,
		}, take)
		return
	}
	before := int64(math.MaxInt64)
	if query.BeforeSeq != nil {
		before = *query.BeforeSeq
	}
	dbsqlc.ListMessagesBefore.Read(batch, dbsqlc.ListMessagesBeforeParams{
		ChatID: chatID, BeforeSeq: before, AllVersions: query.Versions != "", Most: query.Limit + 1,
	}, take)
}

// ListFiles reads the files that came with a chat's messages.
func (h *History) ListFiles(ctx context.Context, user auth.Principal, chatID uuid.UUID, query api.FilesQuery) (api.Files, error) {
	var files api.Files
	err := sendAbout(ctx, h.pool, user, chatID, "list files", func(batch *pgx.Batch) {
		dbsqlc.ListFiles.Read(batch, dbsqlc.ListFilesParams{
			ChatID: chatID, Sha256: query.SHA256, WithContent: query.Content, MaxBytes: api.MaxFilesContent,
		}, all(&files.Files))
	})
	return files, err
}

// ClearChat is one transaction. It locks the chat and then the brief, in the order in which a turn does.
func (h *History) ClearChat(ctx context.Context, user auth.Principal, chatID uuid.UUID) (api.Cleared, error) {
	var found dbsqlc.LockChatRow
	var running uuid.UUID
	var cleared dbsqlc.ReadBriefStateRow
	err := sendAs(ctx, h.pool, user, "clear chat", func(batch *pgx.Batch) {
		dbsqlc.LockChat.Read(batch, chatID, set(&found))
		h.queueRelease(batch, chatID)
		dbsqlc.FindRunningReply.Read(batch, chatID, set(&running))
		dbsqlc.SkipChatsCalls.Queue(batch, chatID)
		dbsqlc.LockBrief.Queue(batch, chatID)
		dbsqlc.ClearBrief.Queue(batch, chatID)
		dbsqlc.ReadBriefState.Read(batch, chatID, set(&cleared))
	})
	if err == nil && found.ID == uuid.Nil {
		err = checkGone(ctx, h.pool, user, chatID)
	}
	err = cmp.Or(err, refusal(found.ChatStateRow))
	if err == nil && running != uuid.Nil {
		err = api.Busy(running)
	}
	return api.Cleared{ChatID: chatID, ClearedSeq: cleared.ClearedSeq, BriefVersion: cleared.Version}, err
}

// ChangeMessage changes a message's rating and reads the message.
func (h *History) ChangeMessage(ctx context.Context, user auth.Principal, messageID uuid.UUID, change api.MessageChange) (api.Message, error) {
	var chat dbsqlc.ChatStateRow
	var found api.Message
	params := dbsqlc.ChangeMessageParams{
		MessageID: messageID, Pinned: change.Pinned, SetImportance: change.Importance.Set, Importance: real32(change.Importance.Value),
	}
	var changed bool
	err := sendAs(ctx, h.pool, user, "change message", func(batch *pgx.Batch) {
		dbsqlc.FindMessagesChat.Read(batch, messageID, set(&chat))
		dbsqlc.ChangeMessage.Queue(batch, params).Exec(affects(1, &changed))
		dbsqlc.FindMessage.Read(batch, messageID, set(&found))
	})
	if err == nil && (chat.ID == uuid.Nil || found.ID == uuid.Nil) {
		err = api.NoMessage()
	}
	return found, cmp.Or(err, refusal(chat), allowed(changed, "messages"))
}

// DeleteMessage deletes a message. If the brief covers it, a fold may be due then.
func (h *History) DeleteMessage(ctx context.Context, user auth.Principal, messageID uuid.UUID) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return failed("delete message", retry(ctx, h.pool, func() error { return h.deleteMessage(ctx, user, messageID) }))
}

func (h *History) deleteMessage(ctx context.Context, user auth.Principal, messageID uuid.UUID) error {
	var chatID uuid.UUID
	var deleted bool
	var status string
	batch := &pgx.Batch{}
	batch.BeginTx(pgx.TxOptions{})
	queueActAs(batch, user)
	dbsqlc.LockMessagesChat.Read(batch, messageID, set(&chatID))
	dbsqlc.DeleteMessage.Queue(batch, messageID).Exec(affects(1, &deleted))
	dbsqlc.MessageStatus.Read(batch, messageID, set(&status))
	return sendInTx(ctx, h.pool, batch, func(tx pgx.Tx) error {
		switch {
		case deleted && chatID != uuid.Nil:
			return h.enqueueLast(ctx, tx, chatID)
		case memory.Status(status) == memory.StatusStreaming:
			return api.Busy(messageID)
		case status != "":
			return notAllowed("messages")
		}
		return api.NoMessage()
	})
}

// Search finds messages in one round trip.
func (h *History) Search(ctx context.Context, user auth.Principal, query api.SearchQuery) ([]api.SearchResult, error) {
	var found []api.SearchResult
	fill := func(batch *pgx.Batch) {
		found = []api.SearchResult{}
		readSearch(batch, query, func(row dbsqlc.SearchMessagesRow) {
			row.Snippet = api.ReadSnippet(row.Headline)
			found = append(found, row.SearchResult)
		})
	}
	var err error
	if query.ChatID == uuid.Nil {
		err = sendAs(ctx, h.pool, user, "search", fill)
	} else {
		err = sendAbout(ctx, h.pool, user, query.ChatID, "search", fill)
	}
	return found, err
}

// readSearch adds the statement of the query's mode.
func readSearch(batch *pgx.Batch, query api.SearchQuery, take func(dbsqlc.SearchMessagesRow)) {
	if query.Mode != api.ModeAny {
		dbsqlc.SearchMessages.Read(batch, dbsqlc.SearchMessagesParams{
			Query: api.WebSearch(query.Text), AsQuestion: api.IsQuestion(query.Text),
			ChatID: nullID(query.ChatID), Role: nullZero(query.Role), Since: query.After, Until: query.Before,
			Candidates: api.SearchCandidates, Most: query.Limit,
		}, take)
		return
	}
	terms, without := api.AnyTerms(query.Text)
	dbsqlc.SearchAnyWord.Read(batch, dbsqlc.SearchAnyWordParams{
		Terms: terms, Without: without,
		ChatID: nullID(query.ChatID), Role: nullZero(query.Role), Since: query.After, Until: query.Before,
		Candidates: api.SearchCandidates, Most: query.Limit,
	}, take)
}

// CountUsage counts in one round trip.
func (h *History) CountUsage(ctx context.Context, user auth.Principal) (api.Stats, error) {
	var counted api.Stats
	err := sendAs(ctx, h.pool, user, "count usage", func(batch *pgx.Batch) {
		dbsqlc.CountUsage.Read(batch, struct{}{}, set(&counted))
	})
	return counted, err
}

// ListBriefRevisions reads a page and one version more, which shows that there is a next page.
func (h *History) ListBriefRevisions(
	ctx context.Context, user auth.Principal, chatID uuid.UUID, query api.BriefRevisionsQuery,
) (api.BriefRevisionPage, error) {
	params := dbsqlc.ListBriefRevisionsParams{ChatID: chatID, BeforeVersion: math.MaxInt64, Most: query.Limit + 1}
	if query.BeforeVersion != nil {
		params.BeforeVersion = *query.BeforeVersion
	}
	var page api.BriefRevisionPage
	err := sendAbout(ctx, h.pool, user, chatID, "list revisions", func(batch *pgx.Batch) {
		dbsqlc.ListBriefRevisions.Read(batch, params, all(&page.Revisions))
	})
	page.Revisions, page.HasMore = cut(page.Revisions, query.Limit)
	return page, err
}

// WhyReply reads a reply's receipt, and then what that names.
func (h *History) WhyReply(ctx context.Context, user auth.Principal, messageID uuid.UUID) (api.Why, error) {
	const doing = "read why"
	var state dbsqlc.ChatStateRow
	var reply dbsqlc.FindWhyReplyRow
	err := sendAs(ctx, h.pool, user, doing, func(batch *pgx.Batch) {
		dbsqlc.FindMessagesChat.Read(batch, messageID, set(&state))
		dbsqlc.FindWhyReply.Read(batch, messageID, set(&reply))
	})
	switch {
	case err != nil:
		return api.Why{}, err
	case state.ID == uuid.Nil:
		return api.Why{}, api.NoMessage()
	}
	if err := refusal(state); err != nil {
		return api.Why{}, err
	}
	if reply.ID == uuid.Nil {
		return api.Why{}, api.NoReply()
	}
	var metadata chat.ReplyMetadata
	if err := json.Unmarshal(reply.Metadata, &metadata); err != nil {
		return api.Why{}, fmt.Errorf("metadata of message %s: %w", reply.ID, err)
	}
	why := api.Why{
		ChatID: reply.ChatID, MessageID: reply.ID, Seq: reply.Seq, Status: reply.Status, Receipt: metadata.Memory,
	}
	clearShown(&why)
	if reply.UserMessageID.Valid {
		why.UserMessageID = &reply.UserMessageID.UUID
	}
	if why.Receipt == nil {
		return why, nil
	}
	return why, sendAs(ctx, h.pool, user, doing, func(batch *pgx.Batch) { queueShown(batch, &why, reply.AskedSeq, why.Receipt) })
}

func clearShown(why *api.Why) {
	why.Brief, why.Topic = nil, nil
	why.Memories, why.Recalled, why.Recent = []api.WhyMemory{}, []api.WhyTurn{}, []api.WhyMessage{}
	why.Elsewhere = []api.WhyElsewhere{}
}

// addRecalled adds a message to the turns of its chat.
func addRecalled(why *api.Why, m dbsqlc.ReadWhyRecalledRow) {
	var turn *api.WhyTurn
	if m.ChatID == why.ChatID {
		if n := len(why.Recalled); n == 0 || why.Recalled[n-1].Seq != m.Turn {
			why.Recalled = append(why.Recalled, api.WhyTurn{Seq: m.Turn})
		}
		turn = &why.Recalled[len(why.Recalled)-1]
	} else {
		if n := len(why.Elsewhere); n == 0 || why.Elsewhere[n-1].ChatID != m.ChatID || why.Elsewhere[n-1].Seq != m.Turn {
			why.Elsewhere = append(why.Elsewhere, api.WhyElsewhere{ChatID: m.ChatID, Title: m.Title, WhyTurn: api.WhyTurn{Seq: m.Turn}})
		}
		turn = &why.Elsewhere[len(why.Elsewhere)-1].WhyTurn
	}
	turn.Messages = append(turn.Messages, m.WhyMessage)
}

// queueShown adds the statements that read what a receipt names.
func queueShown(batch *pgx.Batch, why *api.Why, askedSeq int64, receipt *prompt.Receipt) {
	clearShown(why)
	if len(receipt.Memories) > 0 {
		dbsqlc.ReadWhyMemories.Read(batch, receipt.Memories, all(&why.Memories))
	}
	if receipt.BriefVersion > 0 {
		dbsqlc.ReadWhyBrief.Read(batch, dbsqlc.ReadWhyBriefParams{ChatID: why.ChatID, Version: receipt.BriefVersion}, perhaps(&why.Brief))
	}
	if receipt.Topic != uuid.Nil {
		dbsqlc.ReadWhyTopic.Read(batch, dbsqlc.ReadWhyTopicParams{TopicID: receipt.Topic, ChatID: why.ChatID}, perhaps(&why.Topic))
	}
	if len(receipt.Recalled)+len(receipt.RecalledElsewhere) > 0 {
		var recalled dbsqlc.ReadWhyRecalledParams
		for _, seq := range receipt.Recalled {
			recalled.ChatIds, recalled.Seqs = append(recalled.ChatIds, why.ChatID), append(recalled.Seqs, seq)
		}
		for _, turn := range receipt.RecalledElsewhere {
			recalled.ChatIds, recalled.Seqs = append(recalled.ChatIds, turn.ChatID), append(recalled.Seqs, turn.Seq)
		}
		dbsqlc.ReadWhyRecalled.Read(batch, recalled, func(row dbsqlc.ReadWhyRecalledRow) { addRecalled(why, row) })
	}
	if turns := receipt.BridgeTurns + receipt.TailTurns; turns > 0 {
		dbsqlc.ReadWhyRecent.Read(batch, dbsqlc.ReadWhyRecentParams{
			ChatID: why.ChatID, AskedSeq: askedSeq, CoveredSeq: receipt.CoveredThroughSeq, Turns: min(turns, maxBufferRows),
		}, all(&why.Recent))
	}
}
