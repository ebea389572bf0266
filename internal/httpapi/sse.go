package httpapi

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/streaming"
)

// The header that names the stream of Vercel's AI SDK, in a request and in its answer.
const (
	headerUIStream  = "X-Vercel-Ai-Ui-Message-Stream"
	uiStreamVersion = "v1"
)

const queryProtocol = "protocol"

// protocol is the format of a stream, and the value of ?protocol that asks for it.
type protocol string

const (
	protocolEvents protocol = "events" // our own, the default
	protocolUI     protocol = "ui"     // the AI SDK's UI message stream
)

// encoder writes the events of one reply in one protocol.
type encoder interface {
	Padding() error
	Started(started streaming.Started) error
	Chunk(chunk streaming.Chunk) error
}

var (
	_ encoder = (*streaming.Encoder)(nil)
	_ encoder = (*streaming.UIEncoder)(nil)
)

func (p protocol) encoder(w io.Writer, messageID uuid.UUID) encoder {
	if p == protocolUI {
		return streaming.NewUIEncoder(w)
	}
	return streaming.NewEncoder(w, messageID)
}

// namedProtocol reads ?protocol or else the AI SDK's header; "" without either.
func namedProtocol(request *http.Request) (protocol, error) {
	query := request.URL.Query()
	if query.Has(queryProtocol) {
		named := protocol(query.Get(queryProtocol))
		if named != protocolEvents && named != protocolUI {
			return "", fault.New(fault.BadRequest, `The query parameter protocol must be "events" or "ui".`)
		}
		return named, nil
	}
	switch request.Header.Get(headerUIStream) {
	case "":
		return "", nil
	case uiStreamVersion:
		return protocolUI, nil
	}
	return "", fault.New(fault.BadRequest, "The header x-vercel-ai-ui-message-stream must be v1: no other version is spoken here.")
}

const (
	mediaJSON        = "application/json"
	mediaEventStream = "text/event-stream"
)

// How specific a range of an Accept header is.
const (
	matchesNot = iota
	matchesAll
	matchesFamily
	matchesExactly
)

// prefersJSON reports whether an Accept header asks for one JSON object rather than for events (RFC 9110, section 12.5.1).
// Higher quality wins, then the more specific range, then events: no header, "*/*" and both by name mean events,
// "application/json, */*" means JSON.
func prefersJSON(accept []string) bool {
	object, objectMatch := quality(accept, mediaJSON)
	events, eventsMatch := quality(accept, mediaEventStream)
	if object != events {
		return object > events
	}
	return object > 0 && objectMatch > eventsMatch
}

// prefersEvents reports whether an Accept header names events, and does not prefer JSON. Unlike a reply, an import is
// answered with one object by default.
func prefersEvents(accept []string) bool {
	object, _ := quality(accept, mediaJSON)
	events, match := quality(accept, mediaEventStream)
	return match == matchesExactly && events > 0 && events >= object
}

// quality is that of the most specific range that matches the media type, and how specific it is. Malformed ranges are
// ignored; a malformed quality is 0.
func quality(accept []string, kind string) (q float64, match int) {
	family, _, _ := strings.Cut(kind, "/")
	matching := []string{matchesAll: "*/*", matchesFamily: family + "/*", matchesExactly: kind}
	for part := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		named, parameters, err := mime.ParseMediaType(part)
		specificity := slices.Index(matching, named)
		if err != nil || specificity <= match {
			continue
		}
		q, match = 1, specificity
		if given := parameters["q"]; given != "" {
			if q, err = strconv.ParseFloat(given, 64); err != nil || !(q >= 0 && q <= 1) {
				q = 0
			}
		}
	}
	return q, match
}

// answerEvents answers with the reply as server-sent events. A failure before the model has accepted the call is an HTTP
// error, a later one an event. A client that leaves or reads too slowly ends its stream, never the reply.
func (s *Server) answerEvents(c echo.Context, reply *chat.Reply, protocol protocol) (ended bool, err error) {
	if err := s.waitOpen(c.Request().Context(), reply); err != nil {
		return isFault(err), err
	}
	s.config.Metrics.OpenStreams.Inc()
	defer s.config.Metrics.OpenStreams.Dec()
	if s.stream(c, reply, protocol) {
		return true, nil
	}
	if c.Request().Context().Err() == nil {
		// Many clients, the AI SDK among them, take a body that ends in order for a whole reply. A broken connection
		// makes them resume.
		panic(http.ErrAbortHandler)
	}
	return false, nil
}

// waitOpen waits until the model has accepted the call, up to OpenTimeout: clients that get no header for long give up, so
// a slow model's stream begins before that.
func (s *Server) waitOpen(ctx context.Context, reply *chat.Reply) error {
	waiting, cancel := context.WithTimeout(ctx, s.config.OpenTimeout)
	defer cancel()
	err := reply.WaitOpen(waiting)
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// stream writes the events and reports whether it reached the terminal one.
func (s *Server) stream(c echo.Context, reply *chat.Reply, protocol protocol) (ended bool) {
	if protocol == protocolUI {
		c.Response().Header().Set(headerUIStream, uiStreamVersion)
	}
	out := newEventWriter(c.Response())
	out.begin()
	encoder := protocol.encoder(out, reply.Started.MessageID)
	if encoder.Padding() != nil || encoder.Started(reply.Started) != nil {
		return false
	}
	ctx, cancel := context.WithCancel(c.Request().Context())
	defer cancel()
	out.keepAlive(s.config.PingInterval, cancel)
	defer out.endPings()
	for {
		chunk, err := reply.Next(ctx)
		if err != nil {
			return false
		}
		out.hold = chunk.More
		if encoder.Chunk(chunk) != nil {
			return false
		}
		if chunk.End != nil {
			return true
		}
	}
}

// eventWriter flushes each write. The writer beneath it fails for a client that does not read. Its methods are safe for
// concurrent use.
type eventWriter struct {
	response *echo.Response
	control  *http.ResponseController
	// hold leaves the next write to be sent with the one after it, which follows at once: for a busy server, sending
	// is most of the cost of an event. It belongs to the goroutine that writes.
	hold bool

	mu    sync.Mutex
	pause time.Duration
	pings *time.Timer // nil while none are sent
}

var _ http.ResponseWriter = (*eventWriter)(nil)

func newEventWriter(response *echo.Response) *eventWriter {
	// The controller uses the writer beneath echo's, whose Flush would hide errors.
	return &eventWriter{response: response, control: http.NewResponseController(response.Writer)}
}

func (w *eventWriter) begin() {
	header := w.Header()
	header.Set(echo.HeaderContentType, "text/event-stream; charset=utf-8")
	header.Set(echo.HeaderCacheControl, "no-cache, no-transform")
	header.Set(headerBuffering, "no")
	w.WriteHeader(http.StatusOK)
}

// headerBuffering tells nginx not to hold a stream back.
const headerBuffering = "X-Accel-Buffering"

// Header is the answer's.
func (w *eventWriter) Header() http.Header { return w.response.Header() }

// WriteHeader begins the answer.
func (w *eventWriter) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.response.WriteHeader(status)
}

// Write writes one event, and flushes it unless it is held.
func (w *eventWriter) Write(event []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.write(event, w.hold)
}

func (w *eventWriter) write(event []byte, hold bool) (int, error) {
	if w.pings != nil {
		w.pings.Reset(w.pause)
	}
	n, err := w.response.Write(event)
	if err != nil || hold {
		return n, err
	}
	return n, w.control.Flush()
}

// Flush does nothing: Write flushes.
func (w *eventWriter) Flush() {}

// ping is a comment, which clients ignore.
var ping = []byte(": ping\n\n")

// keepAlive sends a ping after each pause without an event, for proxies that close silent streams, until endPings. It
// calls gone when the client does not take one, and then sends no more.
func (w *eventWriter) keepAlive(pause time.Duration, gone func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pause = pause
	w.pings = time.AfterFunc(pause, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.pings == nil {
			return
		}
		if _, err := w.write(ping, false); err != nil {
			w.pings.Stop()
			gone()
		}
	})
}

// endPings returns when no ping is being written, and none will be.
func (w *eventWriter) endPings() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pings != nil {
		w.pings.Stop()
		w.pings = nil
	}
}

func (s *Server) getStream(c echo.Context) error {
	chatID, err := pathID(c)
	if err != nil {
		return err
	}
	protocol, err := namedProtocol(c.Request())
	if err != nil {
		return err
	}
	cursor, err := resumeCursor(c.Request())
	if err != nil {
		return err
	}
	open := func() (*chat.Reply, error) {
		return s.config.Chat.Resume(c.Request().Context(), principal(c), chatID, cursor)
	}
	return s.answerReply(c, open, func(reply *chat.Reply) (bool, error) { return s.answerEvents(c, reply, protocol) })
}

// resumeCursor reads the Last-Event-ID header or else ?after; nil without either.
func resumeCursor(request *http.Request) (*chat.Cursor, error) {
	if cursor, err := lastEventID(request.Header); cursor != nil || err != nil {
		return cursor, err
	}
	query := request.URL.Query()
	if !query.Has("after") {
		return nil, nil //nolint:nilnil // no cursor means to follow the running reply
	}
	cursor, err := chat.ParsePosition(query.Get("after"))
	if err != nil {
		return nil, err
	}
	return &cursor, nil
}

// answerReply opens a reply in one of the user's stream slots, and answers with it or, when nothing of it is left to send,
// with 204. answer reports whether the reply has ended.
func (s *Server) answerReply(c echo.Context, open func() (*chat.Reply, error), answer func(*chat.Reply) (ended bool, err error)) error {
	release, err := s.streams.acquire(principal(c).UserID, "replies")
	if err != nil {
		return err
	}
	finish := release
	defer func() { finish() }()
	reply, err := open()
	switch {
	case errors.Is(err, chat.ErrNothingToStream):
		return c.NoContent(http.StatusNoContent)
	case err != nil:
		return err
	}
	ended := false
	finish = func() { s.release(reply, ended, release) }
	liftDeadline(c)
	ended, err = answer(reply)
	return err
}

// answerWhole answers with the whole reply as one object.
func answerWhole(c echo.Context, reply *chat.Reply) (ended bool, err error) {
	whole, err := reply.Wait(c.Request().Context())
	if err != nil {
		return isFault(err), err
	}
	return true, writeJSON(c, http.StatusOK, whole)
}

// liftDeadline removes the deadline for reading, because a reply may take longer: when it passes, net/http cancels the
// request.
func liftDeadline(c echo.Context) {
	_ = http.NewResponseController(c.Response().Writer).SetReadDeadline(time.Time{}) // recorders have none
}

// release closes the reader and frees its slot. If the client left early, the slot is held until the generation ends; otherwise
// disconnecting would bypass MaxStreamsPerUser.
func (s *Server) release(reply *chat.Reply, ended bool, free func()) {
	if ended || reply.Started.Resumed || s.config.MaxStreamsPerUser <= 0 {
		reply.Close()
		free()
		return
	}
	go func() {
		defer free()
		defer reply.Close()
		for {
			// Every reply ends, at the latest by its own timeout.
			if chunk, err := reply.Next(context.Background()); err != nil || chunk.End != nil {
				return
			}
		}
	}()
}
