package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/arcoscribe/throughline/internal/fault"
)

const (
	// maxBody is the longest body, in bytes.
	maxBody = 1 << 20
	// After an error, so much of the body is still read, for so long: most clients read an answer only after they have
	// sent everything, and would otherwise see a broken connection.
	maxDrain     = 16 << 20
	drainTimeout = 3 * time.Second
	// A large body may take this many times BodyTimeout: a phone on a slow network sends 12 MiB in two minutes. limitLarge
	// bounds how many of them a user may send at once.
	largeBodyTimes = 4
	// readByNetHTTP is how much net/http itself reads of a body that a handler left.
	readByNetHTTP = 256 << 10
)

// readBody returns the whole body of a JSON request, which may have so many bytes.
func (s *Server) readBody(c echo.Context, most int64) ([]byte, error) {
	request := c.Request()
	if err := checkMediaType(request.Header, "body", mediaJSON); err != nil {
		return nil, err
	}
	if request.ContentLength > most {
		return nil, bodyTooLarge(most)
	}
	control := http.NewResponseController(c.Response().Writer)
	_ = control.SetReadDeadline(time.Now().Add(s.timeFor(request.ContentLength))) // recorders have none
	body, err := io.ReadAll(io.LimitReader(request.Body, most+1))
	switch {
	case err != nil:
		return nil, bodyBroken(request, err)
	case int64(len(body)) > most:
		return nil, bodyTooLarge(most)
	}
	// The deadline would end the stream that follows. After a failure it stays, because net/http waits for the rest of a
	// body before it answers.
	_ = control.SetReadDeadline(time.Time{})
	return body, nil
}

// timeFor is how long a client may take to send a body of that length, -1 for an unknown one.
func (s *Server) timeFor(length int64) time.Duration {
	if length > maxBody {
		return largeBodyTimes * s.config.BodyTimeout
	}
	return s.config.BodyTimeout
}

// bodyBroken is the error for a body that ended too early. For net/http, a client that is too slow is gone.
func bodyBroken(request *http.Request, err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fault.Wrap(fault.BadRequest, "The body did not arrive in time.", err)
	case request.Context().Err() != nil:
		return request.Context().Err()
	}
	return fault.Wrap(fault.BadRequest, "The body could not be read to its end.", err)
}

// checkMediaType accepts the media types with any parameters, uncompressed. The name is that of the body in errors.
func checkMediaType(header http.Header, name string, accepted ...string) error {
	kind, _, err := mime.ParseMediaType(header.Get(echo.HeaderContentType))
	if errors.Is(err, mime.ErrInvalidMediaParameter) {
		err = nil // the type itself was readable
	}
	if err != nil || !slices.Contains(accepted, kind) {
		return fault.New(fault.UnsupportedMediaType, "The "+name+" must be sent with Content-Type: "+strings.Join(accepted, ", ")+".")
	}
	encoding := header.Get(echo.HeaderContentEncoding)
	if encoding != "" && !strings.EqualFold(encoding, "identity") {
		return fault.New(fault.UnsupportedMediaType, "The "+name+" must be sent without a Content-Encoding.")
	}
	return nil
}

func bodyTooLarge(most int64) error {
	return fault.With(fault.BodyTooLarge, fmt.Sprintf("The body is larger than %d MiB.", most>>20), map[string]any{"max_bytes": most})
}

// refuse answers a request that failed. When much of its body may be unread, it then drains some of the rest.
func (s *Server) refuse(c echo.Context, refusal error) {
	length := c.Request().ContentLength
	if length >= 0 && length <= readByNetHTTP || c.Response().Committed {
		s.writeError(refusal, c)
		return
	}
	control := http.NewResponseController(c.Response().Writer)
	_ = control.EnableFullDuplex() // HTTP/2 always is; a recorder has no connection
	c.Response().Header().Set(echo.HeaderConnection, "close")
	s.writeError(refusal, c)
	_ = control.Flush()
	if c.Request().Header.Get("Expect") != "" {
		return // such a client sends its body only when it is asked to, and reading would ask
	}
	_ = control.SetReadDeadline(time.Now().Add(drainTimeout))
	_, _ = io.CopyN(io.Discard, c.Request().Body, maxDrain) // how it ends makes no difference
}

func writeJSON(c echo.Context, status int, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	return writeRaw(c, status, append(body, '\n'))
}

func writeRaw(c echo.Context, status int, body []byte) error {
	header := c.Response().Header()
	header.Set(echo.HeaderContentType, mediaJSON)
	header.Set(echo.HeaderCacheControl, "no-store")
	if c.Request().Method == http.MethodGet && status == http.StatusOK && isKnown(c, body) {
		return c.NoContent(http.StatusNotModified)
	}
	header.Set(echo.HeaderContentLength, strconv.Itoa(len(body))) // so that the client has the whole answer before refuse drains the body
	c.Response().WriteHeader(status)
	if _, err := c.Response().Write(body); err != nil {
		return fmt.Errorf("write answer: %w", err)
	}
	return nil
}

// isKnown tags an answer by its bytes, and tells whether the client has them: it asks every few seconds whether something has
// changed. A proxy that compresses makes the tag a weak one.
func isKnown(c echo.Context, body []byte) bool {
	sum := sha256.Sum256(body)
	tag := fmt.Sprintf("%q", hex.EncodeToString(sum[:12]))
	c.Response().Header().Set("ETag", tag)
	return strings.TrimPrefix(c.Request().Header.Get("If-None-Match"), "W/") == tag
}
