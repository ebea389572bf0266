package httpapi

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/transfer"
	"github.com/arcoscribe/throughline/streaming"
)

// mediaLines is the media type of lines of JSON.
const mediaLines = "application/x-ndjson"

// exportBuffer is how many bytes are written at once. A client may take Config.WriteTimeout for each of these pieces.
const exportBuffer = 64 << 10

// transferStreams names the kind in a refusal: exports and imports count as streams.
const transferStreams = "replies, exports and imports"

// exportKinds has the media type and the file extension of each format.
var exportKinds = map[string]struct{ mediaType, extension string }{
	transfer.FormatLines:    {mediaLines, "jsonl"},
	transfer.FormatObject:   {mediaJSON, "json"},
	transfer.FormatMarkdown: {"text/markdown; charset=utf-8", "md"},
}

func transferRoutes() []route {
	return []route{
		exportRoute("/v1/chats/{chat_id}/export", "exportChat", object{
			mediaLines: object{}, mediaJSON: object{"schema": object{"type": "object"}}, "text/markdown": object{"schema": object{"type": "string"}},
		}, endpoint{serve: (*Server).exportChat, in: reflect.TypeFor[exportQuery]()}),
		importRoute("/v1/chats/import", "importChats", maxImport),
		exportRoute("/v1/export", "exportAccount", object{mediaLines: object{}}, endpoint{serve: (*Server).exportAccount}),
		importRoute("/v1/import", "importAccount", maxAccount),
	}
}

func exportRoute(path, id string, content object, serves endpoint) route {
	return route{
		method: http.MethodGet, path: path, id: id, answers: object{"200": answer("The file.", content, "Content-Disposition")},
		limits: []limit{(*Server).withoutBody}, endpoint: serves,
	}
}

func (s *Server) exportAccount(c echo.Context) error {
	return s.sendFile(c, func(ctx context.Context, user auth.Principal) (file, error) {
		return file{mediaLines, "throughline-" + time.Now().UTC().Format(time.DateOnly) + ".jsonl", func(out io.Writer) error {
			return s.config.Transfer.ExportAccount(ctx, user, out)
		}}, nil
	})
}

type exportQuery struct {
	Format string `query:"format" enum:"jsonl,json,markdown" default:"jsonl" description:"What the file is to be."`
}

func (s *Server) exportChat(c echo.Context) error {
	chatID, err := pathID(c)
	if err != nil {
		return err
	}
	var query exportQuery
	if err := s.readRequest(c, &query); err != nil {
		return err
	}
	return s.sendFile(c, func(ctx context.Context, user auth.Principal) (file, error) {
		export, err := s.config.Transfer.Export(ctx, user, chatID)
		if err != nil {
			return file{}, err
		}
		format := cmp.Or(query.Format, transfer.FormatLines)
		kind := exportKinds[format]
		return file{kind.mediaType, exportName(export) + "." + kind.extension, func(out io.Writer) error { return export.Write(ctx, out, format) }}, nil
	})
}

// file is the file of an export.
type file struct {
	mediaType, name string
	write           func(io.Writer) error
}

// sendFile opens a file in one of the user's stream slots, and writes it to the client as it is made. A failure before the first
// bytes is answered as an error; a later one breaks the connection, so that half a file is not taken for a whole one, and
// lines of JSON end with one that says why.
func (s *Server) sendFile(c echo.Context, open func(context.Context, auth.Principal) (file, error)) error {
	user := principal(c)
	release, err := s.streams.acquire(user.UserID, transferStreams)
	if err != nil {
		return err
	}
	defer release()
	sent, err := open(c.Request().Context(), user)
	if err != nil {
		return err
	}
	liftDeadline(c)
	header := c.Response().Header()
	header.Set(echo.HeaderContentType, sent.mediaType)
	header.Set(echo.HeaderContentDisposition, `attachment; filename="`+sent.name+`"`)
	header.Set(echo.HeaderCacheControl, "no-store")
	out := bufio.NewWriterSize(newEventWriter(c.Response()), exportBuffer)
	if err = sent.write(out); err == nil {
		err = out.Flush()
	}
	switch {
	case err == nil:
		return nil
	case !c.Response().Committed:
		header.Del(echo.HeaderContentDisposition)
		return err
	}
	s.tellCut(c, sent.mediaType, out, err)
	panic(http.ErrAbortHandler)
}

// cutLine is the last line of a file that was cut.
type cutLine struct {
	Type string `json:"type"`
	errorBody
}

// tellCut tells the log and the client why a file ends before its time. A client that left was not cut.
func (s *Server) tellCut(c echo.Context, mediaType string, out *bufio.Writer, cause error) {
	status := statusOf(s.toFault(cause).Code)
	switch {
	case errors.Is(cause, os.ErrDeadlineExceeded):
		status = http.StatusServiceUnavailable // to the log: nothing is wrong with this server
		cause = fmt.Errorf("the client took longer than %s for %d KiB: %w", s.config.WriteTimeout, exportBuffer>>10, cause)
	case c.Request().Context().Err() != nil:
		return
	}
	s.logFailure(c, status, cause)
	if mediaType == mediaLines && json.NewEncoder(out).Encode(cutLine{"error", newErrorBody(s.toFault(cause))}) == nil {
		_ = out.Flush() // fails where the client takes no more
	}
}

// maxNamePart is how much of a chat's title goes into a file's name.
const maxNamePart = 40

// exportName consists of letters, digits and hyphens, which every system and every header accepts.
func exportName(export *transfer.Export) string {
	words := strings.FieldsFunc(strings.ToLower(export.Chat.Title), func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9')
	})
	name := strings.Join(append([]string{"chat"}, words...), "-")
	return strings.TrimRight(name[:min(len(name), maxNamePart)], "-") + "-" + export.Chat.ID[:8]
}

const (
	// maxImport is the longest file of chats, in bytes, maxAccount that of an account.
	maxImport  = 100 << 20
	maxAccount = 512 << 20
	// importTimeout is how long a client may take to send it, as long as something comes every Config.BodyTimeout.
	importTimeout = 30 * time.Minute
)

// importTypes are the media types of an import. The file's format is detected from its content.
var importTypes = []string{mediaJSON, mediaLines, "application/jsonl", "text/plain", "application/octet-stream"}

// importContent describes such a file.
func importContent() object {
	file := object{}
	for _, kind := range importTypes {
		file[kind] = object{"schema": object{}}
	}
	return file
}

func importRoute(path, id string, most int64) route {
	return route{
		method: http.MethodPost, path: path, id: id, parameters: parameters("Accept of an import"), content: importContent(),
		answers: object{"200": answer("What became of the file.", object{
			mediaJSON: object{"schema": schemaRef("ImportResult")}, mediaEventStream: object{"schema": object{"type": "string"}},
		})},
		endpoint: endpoint{serve: takeIn(most)},
	}
}

// beginImport begins to read a file of at most so many bytes, in one of the user's stream slots, which the caller releases.
func (s *Server) beginImport(c echo.Context, most int64) (file *importBody, release func(), err error) {
	if err := checkMediaType(c.Request().Header, "file", importTypes...); err != nil {
		return nil, nil, err
	}
	if c.Request().ContentLength > most {
		return nil, nil, bodyTooLarge(most)
	}
	release, err = s.streams.acquire(principal(c).UserID, transferStreams)
	return &importBody{
		request: c.Request(), control: http.NewResponseController(c.Response().Writer), most: most, left: most,
		pause: s.config.BodyTimeout, until: time.Now().Add(importTimeout),
	}, release, err
}

// takeIn imports a file of at most so many bytes, and answers with the result or with events.
func takeIn(most int64) func(*Server, echo.Context) error {
	return func(s *Server, c echo.Context) error {
		body, release, err := s.beginImport(c, most)
		if err != nil {
			return err
		}
		defer release()
		if prefersEvents(c.Request().Header.Values(echo.HeaderAccept)) {
			return s.importEvents(c, body)
		}
		done, err := s.config.Transfer.Import(c.Request().Context(), principal(c), body, func(transfer.Progress) {})
		if err != nil {
			return err
		}
		return writeJSON(c, http.StatusOK, done)
	}
}

// importBody reads the file, up to most bytes. Its errors are *fault.Error or the context's.
type importBody struct {
	request *http.Request
	control *http.ResponseController
	most    int64
	left    int64
	pause   time.Duration // the longest between two pieces
	until   time.Time
	ended   bool
}

var _ io.Reader = (*importBody)(nil)

// Read waits at most pause for the next piece.
func (b *importBody) Read(into []byte) (int, error) {
	next := time.Now().Add(b.pause)
	if next.After(b.until) {
		next = b.until
	}
	_ = b.control.SetReadDeadline(next) // recorders have none
	n, err := b.request.Body.Read(into)
	b.left -= int64(n)
	switch {
	case b.left < 0:
		return 0, bodyTooLarge(b.most)
	case errors.Is(err, io.EOF):
		b.ended = true
		_ = b.control.SetReadDeadline(time.Time{}) // a deadline that passes would end the request
		return n, io.EOF
	case err != nil:
		return n, bodyBroken(b.request, err)
	}
	return n, nil
}

// The events of an import.
const (
	eventImportProgress  = "import.progress"
	eventImportCompleted = "import.completed"
	eventImportFailed    = "import.failed"
)

// progressInterval is the shortest time between two events of one phase.
const progressInterval = 250 * time.Millisecond

// importEvents answers with events: progress, and at the end the result or the failure.
func (s *Server) importEvents(c echo.Context, body *importBody) error {
	if err := s.admit(c); err != nil { // while it can be a status
		return err
	}
	ctx, cancel := context.WithCancel(c.Request().Context())
	defer cancel()
	out := newEventWriter(c.Response())
	// Without it HTTP/1 reads the whole body before the first event. HTTP/2 is always full duplex.
	_ = out.control.EnableFullDuplex()
	out.begin()
	s.config.Metrics.OpenStreams.Inc()
	defer s.config.Metrics.OpenStreams.Dec()

	giveUp := func() { // for a client that does not read
		cancel()
		_ = body.control.SetReadDeadline(time.Now()) // ends a read that waits for the client
	}
	if streaming.NewEncoder(out, uuid.Nil).Padding() != nil {
		panic(http.ErrAbortHandler)
	}
	out.keepAlive(s.config.PingInterval, giveUp)
	result, err := s.config.Transfer.Import(ctx, principal(c), body, progressEvents(out, giveUp))
	out.endPings()
	switch {
	case ctx.Err() != nil:
		panic(http.ErrAbortHandler)
	case err != nil:
		return s.endFailedImport(c, out, body, err)
	}
	return writeEvent(out, eventImportCompleted, result)
}

// progressEvents writes the first progress of each phase, and then at most one per progressInterval.
func progressEvents(out *eventWriter, giveUp func()) func(transfer.Progress) {
	var phase transfer.Phase
	var last time.Time
	return func(progress transfer.Progress) {
		if progress.Phase == phase && time.Since(last) < progressInterval {
			return
		}
		phase, last = progress.Phase, time.Now()
		if writeEvent(out, eventImportProgress, progress) != nil {
			giveUp()
		}
	}
}

// endFailedImport writes the last event. When the body was not read to its end, it drains some more of it, because most
// clients read an answer only after they have sent everything.
func (s *Server) endFailedImport(c echo.Context, out *eventWriter, body *importBody, cause error) error {
	failure := s.toFault(cause)
	s.logFailure(c, statusOf(failure.Code), cause)
	if err := writeEvent(out, eventImportFailed, newErrorBody(failure)); err != nil {
		return err
	}
	if !body.ended {
		_ = body.control.SetReadDeadline(time.Now().Add(drainTimeout))
		_, _ = io.CopyN(io.Discard, c.Request().Body, maxDrain) // how it ends makes no difference
	}
	return nil
}

func writeEvent(out *eventWriter, name string, payload any) error {
	data, err := json.Marshal(payload)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	_, err = fmt.Fprintf(out, "event: %s\ndata: %s\n\n", name, data)
	return err
}
