package chat

import (
	"context"
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/streaming"
	"github.com/google/uuid"
)

// followInterval is how often a reply that another server generates is looked up.
const followInterval = 250 * time.Millisecond

// open gives a reader of a reply that it did not start: of our own relay while it runs here,
// otherwise of what is stored, now or as soon as it is.
func (s *Service) open(user auth.Principal, stored StoredReply, after int) *Reply {
	reply := &Reply{Started: streaming.Started{
		ChatID: stored.ChatID, UserMessageID: stored.UserMessageID, MessageID: stored.MessageID,
		ModelVariant: stored.Metadata.ModelVariant, Resumed: true,
	}}
	relay := &streaming.Relay{}
	if g := s.find(stored.MessageID); g != nil {
		relay = &g.relay
	} else if stored.Status != memory.StatusStreaming {
		replay(relay, stored)
	} else {
		ctx, cancel := context.WithCancel(s.life)
		reply.release = cancel
		go s.poll(ctx, user, stored, relay)
	}
	reply.Started.Offset = after
	if _, said := relay.Text(); reply.release == nil {
		reply.Started.Offset = min(after, said) // a place past the end is the end
	}
	reply.reader = relay.Read(reply.Started.Offset)
	return reply
}

// poll waits until a reply that another server generates is stored. That server's death is no reason
// to wait for ever: the sweep marks its reply as interrupted.
func (s *Service) poll(ctx context.Context, user auth.Principal, stored StoredReply, relay *streaming.Relay) {
	relay.Open()
	ticker := time.NewTicker(followInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done(): // the reader has left, or the server stops: another one can be asked
			relay.End(failed(stored.MessageID, Failure{Code: string(fault.ShuttingDown), Message: shuttingDown().Message}))
			return
		case <-ticker.C:
		}
		now, ok, err := s.Store.FindReply(ctx, user, stored.ChatID, stored.MessageID)
		switch {
		case err != nil && fault.CodeOf(err) != fault.ChatNotFound:
			continue // Postgres is away; the reader's own patience decides
		case err != nil || !ok:
			relay.End(failed(stored.MessageID, Failure{Code: string(fault.MessageNotFound), Message: "The reply was deleted."}))
			return
		case now.Status != memory.StatusStreaming:
			replay(relay, now)
			return
		}
	}
}

// replay fills a relay with a reply that has ended.
func replay(relay *streaming.Relay, stored StoredReply) {
	relay.Append(stored.Content)
	reply := FinishedReply{ChatID: stored.ChatID, MessageID: stored.MessageID, Metadata: stored.Metadata}
	chars := utf8.RuneCountInString(stored.Content)
	switch stored.Status {
	case memory.StatusComplete:
		relay.End(completed(reply, chars))
	case memory.StatusCancelled:
		relay.End(streaming.Terminal{Cancelled: &streaming.Cancelled{MessageID: stored.MessageID, ContentLength: chars}})
	default:
		failure := stored.Metadata.Failure
		if failure == nil {
			failure = &interrupted
		}
		relay.End(failed(stored.MessageID, *failure))
	}
}

func completed(reply FinishedReply, chars int) streaming.Terminal {
	done := &streaming.Completed{
		MessageID: reply.MessageID, ChatID: reply.ChatID, FinishReason: reply.Metadata.FinishReason,
		ModelVariant: reply.Metadata.ModelVariant, ContentLength: chars, Memory: json.RawMessage("null"),
	}
	if done.FinishReason == "" {
		done.FinishReason = "stop" // a row that reached messages by another way
	}
	if reply.Metadata.Usage != nil {
		done.Usage = *reply.Metadata.Usage
	}
	if receipt, err := json.Marshal(reply.Metadata.Memory); err == nil {
		done.Memory = receipt
	}
	return streaming.Terminal{Completed: done}
}

func failed(messageID uuid.UUID, failure Failure) streaming.Terminal {
	return streaming.Terminal{Failed: &streaming.Failed{
		MessageID: messageID, Code: failure.Code, Message: failure.Message, Retryable: fault.Retryable(fault.Code(failure.Code)),
		RetryAfter: failure.RetryAfter,
	}}
}
