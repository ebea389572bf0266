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

// Whole is a reply in one piece, as far as it is.
type Whole struct {
	streaming.Completed
	Content string        `json:"content"`
	Parts   []memory.Part `json:"parts" nullable:"false" description:"What the reply holds beside its text, in order."`
	// Open and ExpiresAt are of a reply that waits.
	Open      []streaming.OpenCall `json:"open,omitempty" description:"Of a reply that waits: the calls without a result."`
	ExpiresAt *time.Time           `json:"expires_at,omitempty" nullable:"false" description:"Of a reply that waits: when it ends without its user."`
}

// finishToolCalls is the finish reason of a step that calls tools, and of a reply that waits for them.
const finishToolCalls = "tool_calls"

// Wait waits for the whole reply, or until it waits for its user. A failed reply is a *fault.Error; a cancelled one has the finish reason
// "cancelled".
func (r *Reply) Wait(ctx context.Context) (Whole, error) {
	var text []byte
	parts := []memory.Part{}
	for {
		chunk, err := r.Next(ctx)
		if errors.Is(err, streaming.ErrBroken) {
			return Whole{}, shuttingDown()
		}
		if err != nil {
			return Whole{}, err
		}
		text = append(text, chunk.Text...)
		if chunk.Part != nil {
			parts = append(parts, *chunk.Part)
		}
		if chunk.End != nil {
			return r.whole(string(text), parts, chunk.End)
		}
	}
}

func (r *Reply) whole(content string, parts []memory.Part, end *streaming.Terminal) (Whole, error) {
	whole := Whole{Content: content, Parts: parts, Completed: streaming.Completed{
		MessageID: r.Started.MessageID, ChatID: r.Started.ChatID, ModelVariant: r.Started.ModelVariant, Memory: []byte("null"),
	}}
	switch {
	case end.Completed != nil:
		whole.Completed = *end.Completed
	case end.Awaiting != nil:
		whole.FinishReason, whole.ContentLength = finishToolCalls, end.Awaiting.ContentLength
		whole.Open, whole.ExpiresAt = end.Awaiting.Open, &end.Awaiting.ExpiresAt
	case end.Cancelled != nil:
		whole.FinishReason, whole.ContentLength = "cancelled", end.Cancelled.ContentLength
	default:
		return Whole{}, r.fault(end.Failed)
	}
	return whole, nil
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
	if !ok || !stored.Status.Open() {
		return nil, ErrNothingToStream
	}
	return s.open(user, stored, streaming.Place{})
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
	place := cursor.place()
	if cursor.End || stored.Status == memory.StatusAwaiting && stored.isAt(place) {
		return nil, ErrNothingToStream
	}
	return s.open(user, stored, place)
}

// isAt reports whether nothing comes after a place.
func (r *StoredReply) isAt(place streaming.Place) bool {
	relay := &streaming.Relay{}
	fill(relay, r.Content, 0, r.Parts)
	_, chars := relay.Text()
	return relay.Place(place) == streaming.Place{Chars: chars, Parts: len(r.Parts)}
}

// open returns a reader of a reply that another request started. It reads the generation's relay while the reply is
// generated here, the recorded text while another server generates it, and the stored reply afterwards.
func (s *Service) open(user auth.Principal, stored StoredReply, at streaming.Place) (*Reply, error) {
	reply := &Reply{Started: streaming.Started{
		ChatID: stored.ChatID, UserMessageID: stored.UserMessageID, MessageID: stored.MessageID,
		ModelVariant: stored.Metadata.ModelVariant, Resumed: true,
	}}
	if g := s.find(stored.MessageID); g != nil {
		reply.read(&g.relay, at)
		return reply, nil
	}
	if stored.Status != memory.StatusStreaming {
		reply.read(replay(stored), at)
		return reply, nil
	}
	if s.stopping() {
		return nil, shuttingDown()
	}
	f := s.joinFollower(user, stored, at.Chars)
	reply.release = func() { s.leaveFollower(f) }
	// Not cut to the recorded text: the client may have read more than that. But all parts that it has are stored.
	reply.Started.Offset = at.Chars
	for n, part := range stored.Parts {
		if part.At < at.Chars || part.At == at.Chars && n < at.Parts {
			reply.Started.Parts = n + 1
		}
	}
	reply.reader = f.relay.Read(at)
	return reply, nil
}

// read reads a relay that holds all there is, so a position past the end means the end.
func (r *Reply) read(relay *streaming.Relay, at streaming.Place) {
	at = relay.Place(at)
	r.Started.Offset, r.Started.Parts = at.Chars, at.Parts
	r.reader = relay.Read(at)
}

// replay returns a relay of a reply that has ended, or waits.
func replay(stored StoredReply) *streaming.Relay {
	relay := &streaming.Relay{}
	fill(relay, stored.Content, 0, stored.Parts)
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
	readers int // guarded by Service.mu, as is ahead: the place of the reader that had most of the text before
	ahead   int
}

// joinFollower adds a reader that has so many characters to the follower of a running reply, and starts it for the first one. The caller
// calls leaveFollower when it has finished reading.
func (s *Service) joinFollower(user auth.Principal, stored StoredReply, has int) *follower {
	user.Begun = true
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.followers[stored.MessageID]
	if f == nil {
		ctx, cancel := context.WithCancel(s.lifetime)
		f = &follower{user: user, reply: stored, wake: make(chan struct{}, 1), cancel: cancel}
		f.relay.Open()
		f.add(stored.Content, stored.Parts)
		if ctx.Err() != nil { // the service is closed
			f.relay.Break()
			return f
		}
		s.followers[stored.MessageID] = f
		s.Metrics.FollowedReplies.Inc()
		s.following.Go(func() { s.follow(ctx, f) })
	}
	f.readers++
	f.ahead = max(f.ahead, has)
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
	if now.Status == memory.StatusStreaming && s.isBegunAnew(f, now.Server) {
		f.relay.End(failed(f.reply.MessageID, interrupted, f.chars))
		return true, nil
	}
	if now.Status == memory.StatusStreaming {
		f.add(now.Content, now.Parts)
		return false, nil
	}
	f.add(now.Content[min(len(f.relay.After(0)), len(now.Content)):], now.Parts)
	f.relay.End(terminalOf(now))
	return true, nil
}

// isBegunAnew reports whether another server goes on with the reply in other words than a reader has: it has some that the one before did
// not record. It has to read the reply from its beginning.
func (s *Service) isBegunAnew(f *follower, server uuid.UUID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := server != f.reply.Server
	f.reply.Server = server
	return changed && f.ahead > f.chars
}

// isChatGone reports whether err means that the whole chat was deleted.
func isChatGone(err error) bool { return fault.CodeOf(err) == fault.ChatNotFound }

func (f *follower) add(text string, parts []memory.Part) {
	fill(&f.relay, text, f.chars, parts)
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
