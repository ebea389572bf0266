package httpapi

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/transfer"
)

const (
	// maxImport is the longest file, in bytes.
	maxImport = 100 << 20
	// importTimeout is how long a client may take to send it, as long as something comes every Config.BodyTimeout.
	importTimeout = 30 * time.Minute
)

// importTypes are what a file may be sent as; what it is, is seen from its content.
var importTypes = []string{mediaJSON, "application/x-ndjson", "application/jsonl", "text/plain", "application/octet-stream"}

// postImport takes chats in from a file, and answers with what became of them or with events on the way.
func (s *Server) postImport(c echo.Context) error {
	if err := checkImport(c.Request()); err != nil {
		return err
	}
	user := principal(c)
	place, err := s.transferPlace(user)
	if err != nil {
		return err
	}
	defer place.leave()
	body := s.newImportBody(c)
	if prefersEvents(c.Request().Header.Values(echo.HeaderAccept)) {
		return s.importEvents(c, body)
	}
	done, err := s.config.Transfer.Import(c.Request().Context(), user, body, func(transfer.Progress) {})
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, done)
}

func checkImport(request *http.Request) error {
	kind, _, err := mime.ParseMediaType(request.Header.Get(echo.HeaderContentType))
	if errors.Is(err, mime.ErrInvalidMediaParameter) {
		err = nil // the type itself was readable
	}
	if err != nil || !slices.Contains(importTypes, kind) {
		return fault.New(fault.UnsupportedMediaType, "The file must be sent with Content-Type: "+strings.Join(importTypes, ", ")+".")
	}
	encoding := request.Header.Get(echo.HeaderContentEncoding)
	if encoding != "" && !strings.EqualFold(encoding, "identity") {
		return fault.New(fault.UnsupportedMediaType, "The file must be sent without a Content-Encoding.")
	}
	if request.ContentLength > maxImport {
		return bodyTooLarge(maxImport)
	}
	return nil
}

// prefersEvents tells whether an Accept header names events, and JSON no more than them. Unlike a reply, an import
// is answered with one object where nothing is said.
func prefersEvents(accept []string) bool {
	ranges := mediaRanges(strings.Join(accept, ","))
	events := ranges.quality(mediaEventStream)
	return events.exactness == 3 && events.q > 0 && events.q >= ranges.quality(mediaJSON).q
}

// importBody is the file as it comes in, up to its longest. Its errors are *fault.Error.
type importBody struct {
	request *http.Request
	control *http.ResponseController
	left    int64
	pause   time.Duration // the longest between two pieces
	until   time.Time
	ended   bool
}

var _ io.Reader = (*importBody)(nil)

func (s *Server) newImportBody(c echo.Context) *importBody {
	return &importBody{
		request: c.Request(), control: http.NewResponseController(c.Response().Writer), left: maxImport,
		pause: s.config.BodyTimeout, until: time.Now().Add(importTimeout),
	}
}

// Read waits for the next piece, not for ever.
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
		return 0, bodyTooLarge(maxImport)
	case errors.Is(err, io.EOF):
		b.ended = true
		_ = b.control.SetReadDeadline(time.Time{}) // a deadline that passes would end the request
		return n, io.EOF
	case err != nil:
		return n, bodyBroken(b.request, err)
	}
	return n, nil
}
