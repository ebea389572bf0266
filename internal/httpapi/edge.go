package httpapi

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

const (
	// maxHeader bounds a request's first line and headers together, in bytes; net/http adds 4 KiB to it. An access token
	// has some 2 KiB, and it is not yet checked when the headers are read.
	maxHeader = 64 << 10
	// maxPiece is the part of an answer, in bytes, for which a client may take Config.WriteTimeout.
	maxPiece = 64 << 10
)

// HTTPServer returns a server for the handler, with limits on connections. The caller starts it and shuts it down.
func (s *Server) HTTPServer() *http.Server {
	return &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: s.config.HeaderTimeout,
		ReadTimeout:       s.config.BodyTimeout, // handlers that read a body restart it
		IdleTimeout:       s.config.IdleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.config.Logger.Handler(), slog.LevelDebug),
		// No WriteTimeout: it would cut streams. A patientWriter bounds each piece of each answer.
	}
}

// patientWriter allows a client Config.WriteTimeout for each piece of an answer: a client that does not read holds neither
// a goroutine nor a connection, and one that reads slowly gets all of a long answer. It replaces the deadline of the
// connection's previous request.
type patientWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	set     time.Time // of the latest deadline
}

var _ http.ResponseWriter = (*patientWriter)(nil)

func newPatientWriter(to http.ResponseWriter, timeout time.Duration) *patientWriter {
	w := &patientWriter{ResponseWriter: to, control: http.NewResponseController(to), timeout: timeout}
	w.moveDeadline()
	return w
}

// Unwrap is for http.ResponseController.
func (w *patientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader begins the answer.
func (w *patientWriter) WriteHeader(status int) {
	w.moveDeadline()
	w.ResponseWriter.WriteHeader(status)
}

// Write writes one piece after the other.
func (w *patientWriter) Write(answer []byte) (int, error) {
	written := 0
	for {
		w.moveDeadline()
		n, err := w.ResponseWriter.Write(answer[written:min(written+maxPiece, len(answer))])
		written += n
		if err != nil || written >= len(answer) {
			return written, err
		}
	}
}

// moveDeadline extends the deadline, but not for each event of a fast reply: that would cost as much as encoding it.
func (w *patientWriter) moveDeadline() {
	if now := time.Now(); now.Sub(w.set) > w.timeout/16 {
		w.set = now
		_ = w.control.SetWriteDeadline(now.Add(w.timeout)) // recorders have none
	}
}

// withoutBody drains the body that a request should not have, while there is still a deadline for it: net/http would wait
// for its end when the answer begins, and the routes that stream have no deadline by then.
func (s *Server) withoutBody(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		n, err := io.Copy(io.Discard, io.LimitReader(c.Request().Body, maxBody+1))
		switch {
		case err != nil:
			return bodyBroken(c.Request(), err)
		case n > maxBody:
			return bodyTooLarge(maxBody)
		}
		return next(c)
	}
}

// limitLarge bounds how many large bodies of one user are in memory at once, to the number of streams that the user may
// have. A body of unknown length counts as large.
func (s *Server) limitLarge(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if length := c.Request().ContentLength; length >= 0 && length <= maxBody {
			return next(c)
		}
		release, err := s.large.acquire(principal(c).UserID, fmt.Sprintf("requests with bodies over %d MiB or of unknown length", maxBody>>20))
		if err != nil {
			return err
		}
		defer release()
		return next(c)
	}
}
