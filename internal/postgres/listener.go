package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The channels of our notifications. A payload names messages, never what they say; it is a hint to look
// at them, so one that is lost or made up does no harm.
const (
	channelReplies = "throughline_replies"
	channelCancels = "throughline_cancels"
)

// Audience is told what other servers did.
type Audience interface {
	// RepliesChanged tells that there may be more to read of these replies; of all when none is named.
	RepliesChanged(messageIDs ...uuid.UUID)
	// CancelsRequested tells that somebody asked for a reply to be stopped.
	CancelsRequested()
	// Listening tells whether the others are told from now on.
	Listening(now bool)
}

// Listener holds the one connection that listens. It needs a session of its own, so behind a transaction
// pooler there is none: whoever waits for something then looks for it.
type Listener struct {
	config   *pgx.ConnConfig
	audience Audience
	logger   *slog.Logger
}

// NewListener reads the connection string. Without sessions behind it, there is no listener: nil.
func NewListener(dsn string, audience Audience, logger *slog.Logger) (*Listener, error) {
	config, transactionPooler, err := ParseDSN(dsn)
	if err != nil || transactionPooler {
		return nil, err
	}
	config.ConnConfig.RuntimeParams["application_name"] = "throughline listener"
	return &Listener{config: config.ConnConfig, audience: audience, logger: logger}, nil
}

const (
	// listenRetry is the pause before a lost connection is made anew.
	listenRetry = time.Second
	// listenCheck is the silence after which the connection is tried: one whose other end vanished
	// without a word would be silent for ever.
	listenCheck        = 20 * time.Second
	listenCheckTimeout = 5 * time.Second
)

// Run listens until ctx ends. What is lost with a connection does not matter: with each new one the
// audience is told to look at everything.
func (l *Listener) Run(ctx context.Context) {
	for said := false; ; {
		err := l.listen(ctx)
		l.audience.Listening(false)
		if ctx.Err() != nil {
			return
		}
		if !said {
			l.logger.LogAttrs(ctx, slog.LevelWarn, "notifications are lost until Postgres is back", slog.Any("error", err))
		}
		said = !errors.Is(err, errListened)
		select {
		case <-ctx.Done():
			return
		case <-time.After(listenRetry):
		}
	}
}

// errListened tells that the connection was good for a while.
var errListened = errors.New("connection lost")

func (l *Listener) listen(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, l.config)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // nothing is sent on it any more
	if err := l.subscribe(ctx, conn); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	l.audience.Listening(true)
	l.audience.RepliesChanged()
	l.audience.CancelsRequested()
	for {
		if err := l.next(ctx, conn); err != nil {
			return errors.Join(errListened, err)
		}
	}
}

func (l *Listener) subscribe(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, listenCheckTimeout)
	defer cancel()
	_, err := conn.Exec(ctx, "listen "+channelReplies+"; listen "+channelCancels)
	return err
}

// next waits for one notification and passes it on. Silence is no error while the connection lives.
func (l *Listener) next(ctx context.Context, conn *pgx.Conn) error {
	waiting, cancel := context.WithTimeout(ctx, listenCheck)
	defer cancel()
	notification, err := conn.WaitForNotification(waiting)
	if err == nil {
		l.tell(notification)
		return nil
	}
	if ctx.Err() != nil || waiting.Err() == nil {
		return err
	}
	checking, cancel := context.WithTimeout(ctx, listenCheckTimeout)
	defer cancel()
	return conn.Ping(checking)
}

func (l *Listener) tell(notification *pgconn.Notification) {
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
	if len(ids) > 0 {
		l.audience.RepliesChanged(ids...)
	}
}
