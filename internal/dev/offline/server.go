package offline

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Hashing is the name of this model's own embeddings, which know only whether words are the same.
const Hashing = "hashing"

// bodyLimit is the largest request body in bytes that is read.
const bodyLimit = 16 << 20

// Options configure a server. The zero value is right for a local run.
type Options struct {
	// Logger logs once that this is the offline model, and each request at debug level (sizes and
	// ids, never content). nil logs nothing.
	Logger *slog.Logger
	// Embedder is the name that /v1/models lists for the vectors of meaning that there are; "" is Hashing.
	Embedder string
	// PieceDelay is the pause before each piece (word) of a streamed text; 0 is as fast as possible.
	PieceDelay time.Duration
	// Script decides the answer of a request. It runs on the request's goroutine and may be called
	// from several at once. The zero Answer falls through to the built-in model, as does a nil Script.
	Script func(*Request) Answer
}

// Server is the offline model as an http.Handler. Make one with New and Close it at the end.
type Server struct {
	options Options
	log     *slog.Logger
	mux     *http.ServeMux
	journal journal

	// idPrefix and nextID make response ids that are unique across servers.
	idPrefix string
	nextID   atomic.Uint64

	closing context.Context // done when the server closes
	shut    context.CancelFunc
	running sync.WaitGroup
	// gate keeps new requests from starting while Close waits for the running ones.
	gate sync.RWMutex
}

var _ http.Handler = (*Server)(nil)

// New makes a server. It does not listen; see Start for that.
func New(options Options) *Server {
	s := &Server{
		options:  options,
		log:      options.Logger,
		mux:      http.NewServeMux(),
		idPrefix: strings.ToLower(rand.Text()),
	}
	s.closing, s.shut = context.WithCancel(context.Background())
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.mux.HandleFunc("POST /v1/responses", s.responses)
	s.mux.HandleFunc("POST /v1/embeddings", s.embeddings)
	s.mux.HandleFunc("GET /v1/models", s.listModels)
	s.log.Info("offline model: replies are made from the prompt alone, no provider is asked")
	return s
}

// ServeHTTP answers one request. Any bearer token is good, but there has to be one.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		s.sendError(w, &apiError{Status: http.StatusServiceUnavailable, Message: "The offline model is closed.", Type: "service_unavailable"})
		return
	}
	defer s.running.Done()
	w.Header().Set("X-Throughline-Model", "offline")
	r.Body = http.MaxBytesReader(w, r.Body, bodyLimit)
	if !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") {
		s.sendError(w, &apiError{Status: http.StatusUnauthorized, Message: "You didn't provide an API key.", Type: invalidRequest})
		return
	}
	s.mux.ServeHTTP(w, r)
}

// Close ends every request that waits, also those that hang on purpose, and waits for all of them. It does not close
// connections: the owner of a connection must cut off a caller that does not read. Later requests are refused. It may
// be called more than once.
func (s *Server) Close() {
	s.gate.Lock()
	s.shut()
	s.gate.Unlock()
	s.running.Wait()
}

// enter registers a request. It returns false when the server is closed.
func (s *Server) enter() bool {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.closing.Err() != nil {
		return false
	}
	s.running.Add(1)
	return true
}

// read decodes the body of a request into what this model reads of it. Our own client builds requests, so nothing else
// is checked of them; one that cannot be read is refused, and recorded as that.
func (s *Server) read(w http.ResponseWriter, r *http.Request, into any) (raw []byte, ok bool) {
	raw, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err == nil {
		return raw, true
	}
	s.journal.refused(r.Method + " " + r.URL.Path + ": " + err.Error())
	s.sendError(w, &apiError{Status: http.StatusBadRequest, Message: "We could not parse the JSON body of your request.", Type: invalidRequest})
	return raw, false
}

// listModels answers GET /v1/models.
func (s *Server) listModels(w http.ResponseWriter, _ *http.Request) {
	var models []object
	for _, name := range []string{"gpt-5.6-terra", "gpt-5.6-sol", hostedModel, "text-embedding-3-small", cmp.Or(s.options.Embedder, Hashing)} {
		models = append(models, object{"id": name, "object": "model", "created": 0, "owned_by": "throughline-offline"})
	}
	s.sendJSON(w, http.StatusOK, object{"object": "list", "data": models})
}

const invalidRequest = "invalid_request_error"

// apiError is an error in the API's shape: {"error": {"message", "type", "param", "code"}}.
type apiError struct {
	Status  int
	Message string
	Type    string
	// Param and Code are null on the wire when empty.
	Param, Code string
}

func (s *Server) sendError(w http.ResponseWriter, e *apiError) {
	s.sendJSON(w, e.Status, object{"error": object{"message": e.Message, "type": e.Type, "param": orNull(e.Param), "code": orNull(e.Code)}})
}

// sendJSON writes one JSON answer. A failed write means that the caller is gone; it is only logged.
func (s *Server) sendJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if _, err := w.Write(mustJSON(value)); err != nil {
		s.log.Debug("offline model: the caller is gone", "error", err)
	}
}

func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
