package httpapi

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/arcoscribe/throughline/internal/transfer"
)

const (
	// maxImport is the longest file of chats, in bytes, maxAccount that of an account.
	maxImport  = 100 << 20
	maxAccount = 512 << 20
	// importTimeout is how long a client may take to send it, as long as something comes every Config.BodyTimeout.
	importTimeout = 30 * time.Minute
)

// importTypes are the media types of an import. The file's format is detected from its content.
var importTypes = []string{mediaJSON, "application/x-ndjson", "application/jsonl", "text/plain", "application/octet-stream"}

// importContent describes such a file.
func importContent() object {
	file := object{}
	for _, kind := range importTypes {
		file[kind] = object{"schema": object{}}
	}
	return file
}

// postImport imports chats from a file.
func (s *Server) postImport(c echo.Context) error { return s.takeIn(c, maxImport) }

// postAccount imports an account, or chats.
func (s *Server) postAccount(c echo.Context) error { return s.takeIn(c, maxAccount) }

// beginImport begins to read a file of at most so many bytes, in one of the user's stream slots, which the caller releases.
func (s *Server) beginImport(c echo.Context, most int64) (file *importBody, release func(), err error) {
	if err := checkMediaType(c.Request().Header, "file", importTypes...); err != nil {
		return nil, nil, err
	}
	if c.Request().ContentLength > most {
		return nil, nil, bodyTooLarge(most)
	}
	release, err = s.streams.acquire(principal(c).UserID, transferStreams)
	return s.newImportBody(c, most), release, err
}

// takeIn imports a file of at most so many bytes, and answers with the result or with events.
func (s *Server) takeIn(c echo.Context, most int64) error {
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

func (s *Server) newImportBody(c echo.Context, most int64) *importBody {
	return &importBody{
		request: c.Request(), control: http.NewResponseController(c.Response().Writer), most: most, left: most,
		pause: s.config.BodyTimeout, until: time.Now().Add(importTimeout),
	}
}

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
