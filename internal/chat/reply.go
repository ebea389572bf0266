package chat

import (
	"context"
	"errors"
	"time"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/streaming"
	"github.com/google/uuid"
)

// Reply is one reader of a reply. One goroutine uses it, and closes it.
type Reply struct {
	Started streaming.Started
	reader  *streaming.Reader
	release func() // called by Close; nil for nothing
}

// WaitOpen waits until the model accepts the call, and returns its failure when it does not. It does not wait for a
// reply that this reader did not start: the failure of that one is an event like any other.
func (r *Reply) WaitOpen(ctx context.Context) error {
	if r.Started.Resumed {
		return nil
	}
	end, err := r.reader.WaitOpen(ctx)
	if err != nil || end == nil || end.Failed == nil {
		return err
	}
	return r.fault(end.Failed)
}

// Next waits for more text of the reply or its end. The error is the context's, or streaming.ErrBroken when this server
// stops and the reply continues on another one.
func (r *Reply) Next(ctx context.Context) (streaming.Chunk, error) {
	return r.reader.Next(ctx)
}

// Whole is a reply in one piece.
type Whole struct {
	streaming.Completed
	Content string `json:"content"`
}

// Wait waits for the whole reply. A failed reply is a *fault.Error; a cancelled one has the finish reason "cancelled".
func (r *Reply) Wait(ctx context.Context) (Whole, error) {
	var text []byte
	for {
		chunk, err := r.Next(ctx)
		if errors.Is(err, streaming.ErrBroken) {
			return Whole{}, shuttingDown()
		}
		if err != nil {
			return Whole{}, err
		}
		text = append(text, chunk.Text...)
		if chunk.End != nil {
			return r.whole(string(text), chunk.End)
		}
	}
}

func (r *Reply) whole(content string, end *streaming.Terminal) (Whole, error) {
	switch {
	case end.Completed != nil:
		return Whole{Completed: *end.Completed, Content: content}, nil
	case end.Cancelled != nil:
		return Whole{Content: content, Completed: streaming.Completed{
			MessageID: r.Started.MessageID, ChatID: r.Started.ChatID, ModelVariant: r.Started.ModelVariant,
			FinishReason: "cancelled", ContentLength: end.Cancelled.ContentLength, Memory: []byte("null"),
		}}, nil
	default:
		return Whole{}, r.fault(end.Failed)
	}
}

func (r *Reply) fault(failed *streaming.Failed) error {
	return &fault.Error{Code: fault.Code(failed.Code), Message: failed.Message, RetryAfter: failed.RetryAfter, Details: map[string]any{
		"chat_id": r.Started.ChatID, "user_message_id": r.Started.UserMessageID, "message_id": r.Started.MessageID,
	}}
}

// Close ends the reading. The reply continues without this reader.
func (r *Reply) Close() {
	r.reader.Close()
	if r.release != nil {
		r.release()
	}
}

// Resume returns a reader of a chat's reply from the cursor on. Without a cursor it reads the running reply; when there is
// none the error is ErrNothingToStream.
func (s *Service) Resume(ctx context.Context, user auth.Principal, chatID uuid.UUID, cursor *Cursor) (*Reply, error) {
	if cursor != nil {
		return s.readFrom(ctx, user, chatID, *cursor)
	}
	stored, ok, err := s.Store.FindReply(ctx, user, chatID, uuid.Nil, 0)
	if err != nil {
		return nil, err
	}
	if !ok || stored.Status != memory.StatusStreaming {
		return nil, ErrNothingToStream
	}
	return s.open(user, stored, 0)
}

// readFrom returns a reader of a reply from the cursor on.
func (s *Service) readFrom(ctx context.Context, user auth.Principal, chatID uuid.UUID, cursor Cursor) (*Reply, error) {
	stored, ok, err := s.Store.FindReply(ctx, user, chatID, cursor.MessageID, 0)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fault.New(fault.MessageNotFound, "This chat has no such reply.")
	}
	if cursor.End {
		return nil, ErrNothingToStream
	}
	return s.open(user, stored, cursor.After)
}

// open returns a reader of a reply that another request started. It reads the generation's relay while the reply is
// generated here, the recorded text while another server generates it, and the stored reply afterwards.
func (s *Service) open(user auth.Principal, stored StoredReply, after int) (*Reply, error) {
	reply := &Reply{Started: streaming.Started{
		ChatID: stored.ChatID, UserMessageID: stored.UserMessageID, MessageID: stored.MessageID,
		ModelVariant: stored.Metadata.ModelVariant, Resumed: true,
	}}
	if g := s.find(stored.MessageID); g != nil {
		reply.read(&g.relay, after)
		return reply, nil
	}
	if stored.Status != memory.StatusStreaming {
		reply.read(replay(stored), after)
		return reply, nil
	}
	if s.stopping() {
		return nil, shuttingDown()
	}
	f := s.joinFollower(user, stored)
	reply.release = func() { s.leaveFollower(f) }
	// Not cut to the recorded text: the client may have read more than that.
	reply.Started.Offset = after
	reply.reader = f.relay.Read(after)
	return reply, nil
}

// read reads a relay that holds all text there is, so a position past the end means the end.
func (r *Reply) read(relay *streaming.Relay, after int) {
	_, chars := relay.Text()
	r.Started.Offset = min(after, chars)
	r.reader = relay.Read(r.Started.Offset)
}

// replay returns a relay of a reply that has ended.
func replay(stored StoredReply) *streaming.Relay {
	relay := &streaming.Relay{}
	relay.Append(stored.Content)
	relay.End(terminalOf(stored))
	return relay
}

// How often a follower reads without a notification: while notifications come, only for missed ones.
const (
	pollWhileListening = time.Second
	pollOtherwise      = 100 * time.Millisecond
)

// readsAtOnce is how many followers of a process read at the same time. One notification wakes many, and each read is short:
// in order they are done sooner than all at once, each on a connection of its own.
const readsAtOnce = 4

// follower copies a reply that another server generates from Postgres to a relay, for all of its readers in this
// process. It reads when a notification comes and, because it may miss one, now and then without a notification.
type follower struct {
	user   auth.Principal
	reply  StoredReply // as it was when following began
	relay  streaming.Relay
	wake   chan struct{}
	cancel context.CancelFunc

	chars   int // characters read; only the follower's goroutine uses it
	readers int // guarded by Service.mu
}

// joinFollower adds a reader to the follower of a running reply, and starts it for the first one. The caller calls
// leaveFollower when it has finished reading.
func (s *Service) joinFollower(user auth.Principal, stored StoredReply) *follower {
	user.Begun = true
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.followers[stored.MessageID]
	if f == nil {
		ctx, cancel := context.WithCancel(s.lifetime)
		f = &follower{user: user, reply: stored, wake: make(chan struct{}, 1), cancel: cancel}
		f.relay.Open()
		f.add(stored.Content)
		if ctx.Err() != nil { // the service is closed
			f.relay.Break()
			return f
		}
		s.followers[stored.MessageID] = f
		s.Metrics.FollowedReplies.Inc()
		s.following.Go(func() { s.follow(ctx, f) })
	}
	f.readers++
	return f
}

// leaveFollower removes a reader. The follower ends with its last one.
func (s *Service) leaveFollower(f *follower) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.readers--; f.readers == 0 {
		s.endFollower(f)
	}
}

// endFollower ends a follower, so that the next reader starts another one. The caller holds mu.
func (s *Service) endFollower(f *follower) {
	f.cancel()
	if s.followers[f.reply.MessageID] == f {
		delete(s.followers, f.reply.MessageID)
		s.Metrics.FollowedReplies.Dec()
	}
}

// follow reads until the reply has ended. When this server stops, or Postgres stays unavailable, the readers get no
// terminal event: the reply continues, and they can resume on another server or later.
func (s *Service) follow(ctx context.Context, f *follower) {
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.endFollower(f)
	}()
	lastRead := time.Now()
	for {
		ended, err := s.readMore(ctx, f)
		if ended {
			return
		}
		if err == nil {
			lastRead = time.Now()
		}
		if time.Since(lastRead) > s.SavePatience {
			f.relay.Break()
			return
		}
		select {
		case <-ctx.Done():
			f.relay.Break()
			return
		case <-f.wake:
		case <-time.After(s.pollInterval(err)):
		}
	}
}

func (s *Service) pollInterval(err error) time.Duration {
	if err == nil && !s.listening.Load() {
		return pollOtherwise
	}
	return pollWhileListening
}

// readMore copies the text that was stored since the last call.
func (s *Service) readMore(ctx context.Context, f *follower) (ended bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.SaveTimeout)
	defer cancel()
	if err := s.reads.Acquire(ctx, 1); err != nil {
		return false, err
	}
	now, ok, err := s.Store.FindReply(ctx, f.user, f.reply.ChatID, f.reply.MessageID, f.chars)
	s.reads.Release(1)
	switch {
	case isChatGone(err) || err == nil && !ok:
		f.relay.End(failed(f.reply.MessageID, deleted, 0))
		return true, nil
	case err != nil:
		return false, err
	}
	if now.Status == memory.StatusStreaming {
		f.add(now.Content)
		return false, nil
	}
	f.add(now.Content[min(len(f.relay.After(0)), len(now.Content)):])
	f.relay.End(terminalOf(now))
	return true, nil
}

// isChatGone reports whether err means that the whole chat was deleted.
func isChatGone(err error) bool { return fault.CodeOf(err) == fault.ChatNotFound }

func (f *follower) add(text string) {
	f.relay.Append(text)
	f.chars += utf8.RuneCountInString(text)
}

// RepliesChanged notifies the service that Postgres may hold more of these replies; of all replies when none is named.
func (s *Service) RepliesChanged(messageIDs ...uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range messageIDs {
		if f := s.followers[id]; f != nil {
			notify(f.wake)
		}
	}
	if len(messageIDs) > 0 {
		return
	}
	for _, f := range s.followers {
		notify(f.wake)
	}
}

// notify wakes the one goroutine that receives from a channel with room for one; if it is about to wake, once is enough.
func notify(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// Listening sets whether notifications come. Until then the service polls.
func (s *Service) Listening(now bool) {
	s.listening.Store(now)
	s.Metrics.Listening.Set(0)
	if now {
		s.Metrics.Listening.Set(1)
	}
}
