package postgres

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The channels of our notifications. A payload has the ids of messages or chats, not their content. It is a hint to read
// them, so a lost or forged one does no harm.
const (
	channelReplies = "throughline_replies"
	channelCancels = "throughline_cancels"
	channelRead    = "throughline_read"
)

// Audience receives the notifications of other servers.
type Audience interface {
	// RepliesChanged is called when these replies may have more text or have ended; all replies, if none is named.
	RepliesChanged(messageIDs ...uuid.UUID)
	// CancelsRequested is called when a user has asked to stop a reply.
	CancelsRequested()
	// ChatsRead is called when these chats were read for memories.
	ChatsRead(chatIDs ...uuid.UUID)
	// Listening is called with true when a connection hears its first notification, and with false when it is lost or deaf.
	Listening(now bool)
}

// Listener holds the one connection that listens. It needs a session, so there is none behind a transaction
// pooler: the server then polls.
type Listener struct {
	config   *pgx.ConnConfig
	audience Audience
	logger   *slog.Logger
}

// NewListener returns a listener that connects to dsn, or nil if that is a transaction pooler.
func NewListener(dsn string, audience Audience, logger *slog.Logger) (*Listener, error) {
	config, transactionPooler, err := ParseDSN(dsn)
	if err != nil || transactionPooler {
		return nil, err
	}
	config.ConnConfig.RuntimeParams["application_name"] = "throughline listener"
	return &Listener{config: config.ConnConfig, audience: audience, logger: logger}, nil
}

const (
	// listenRetry is the pause before reconnecting.
	listenRetry = time.Second
	// listenSilence is after how long the listener notifies itself, and hearWithin how long it waits to hear that. Both together
	// are less than the 10 s within which it must have heard to count as listening.
	listenSilence = 5 * time.Second
	hearWithin    = 2 * time.Second
	// notifyItself names no reply, and so means nothing to those that hear it.
	notifyItself = "notify " + channelReplies
)

// Run listens until ctx ends. Notifications lost with a connection do not matter: after each reconnect the
// audience is told that everything may have changed.
func (l *Listener) Run(ctx context.Context) {
	for logged := false; ; {
		listened, err := l.listen(ctx)
		l.audience.Listening(false)
		if ctx.Err() != nil {
			return
		}
		if !logged {
			l.logger.LogAttrs(ctx, slog.LevelWarn, "notifications are lost until Postgres is back", slog.Any("error", err))
		}
		if logged = !listened; !pause(ctx, listenRetry) {
			return
		}
	}
}

// listen listens until the connection is lost or deaf. It reports whether the connection worked for a while.
func (l *Listener) listen(ctx context.Context) (listened bool, err error) {
	conn, err := pgx.ConnectConfig(ctx, l.config)
	if err != nil {
		return false, failed("listen", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // it has nothing left to send
	if err := l.hear(ctx, conn, "listen "+channelReplies+"; listen "+channelCancels+"; listen "+channelRead+"; "+notifyItself); err != nil {
		return false, failed("listen", err)
	}
	l.audience.Listening(true)
	l.audience.RepliesChanged()
	l.audience.CancelsRequested()
	for {
		if err := l.next(ctx, conn); err != nil {
			return true, failed("connection lost", err)
		}
	}
}

// next waits for one notification and forwards it. It returns nil after a silence, if the connection hears.
func (l *Listener) next(ctx context.Context, conn *pgx.Conn) error {
	waiting, cancel := context.WithTimeout(ctx, listenSilence)
	defer cancel()
	notification, err := conn.WaitForNotification(waiting)
	if err == nil {
		l.forward(notification)
		return nil
	}
	if ctx.Err() != nil || waiting.Err() == nil {
		return err
	}
	return l.hear(ctx, conn, notifyItself)
}

// hear sends a statement, and returns nil if a notification is heard after it. An answer alone proves nothing: a pooler or
// a proxy may answer on a connection whose session that listened is gone.
func (l *Listener) hear(ctx context.Context, conn *pgx.Conn, statement string) error {
	ctx, cancel := context.WithTimeout(ctx, hearWithin)
	defer cancel()
	if _, err := conn.Exec(ctx, statement); err != nil {
		return err
	}
	notification, err := conn.WaitForNotification(ctx)
	if err == nil {
		l.forward(notification)
	}
	return err
}

func (l *Listener) forward(notification *pgconn.Notification) {
	if notification.Channel == channelCancels {
		l.audience.CancelsRequested()
		return
	}
	var ids []uuid.UUID
	for text := range strings.SplitSeq(notification.Payload, ",") {
		if id, err := uuid.Parse(text); err == nil {
			ids = append(ids, id)
		}
	}
	switch {
	case len(ids) == 0:
	case notification.Channel == channelRead:
		l.audience.ChatsRead(ids...)
	default:
		l.audience.RepliesChanged(ids...)
	}
}
