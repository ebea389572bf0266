package offline

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// bodyLimit is the largest request body in bytes that is read.
const bodyLimit = 16 << 20

// Options configure a server. The zero value is right for a local run.
type Options struct {
	// Logger logs once that this is the offline model, and each request at debug level (sizes and
	// ids, never content). nil logs nothing.
	Logger *slog.Logger
	// Models are the names that requests may use, embedding models too. nil accepts any name.
	Models []string
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
	cache   promptCache

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
	s.mux.HandleFunc("/v1/responses", s.allow(http.MethodPost, s.responses))
	s.mux.HandleFunc("/v1/embeddings", s.allow(http.MethodPost, s.embeddings))
	s.mux.HandleFunc("/v1/models", s.allow(http.MethodGet, s.listModels))
	s.mux.HandleFunc("/", s.notFound)
	s.log.Info("offline model: replies are made from the prompt alone, no provider is asked")
	return s
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		s.refuse(w, r, nil, &apiError{Status: http.StatusServiceUnavailable, Message: "The offline model is closed.", Type: "service_unavailable"})
		return
	}
	defer s.running.Done()
	w.Header().Set("X-Throughline-Model", "offline")
	r.Body = http.MaxBytesReader(w, r.Body, bodyLimit)
	if err := authorized(r); err != nil {
		s.refuse(w, r, nil, err)
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

// authorized accepts any bearer token, but requires one.
func authorized(r *http.Request) *apiError {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") && strings.TrimSpace(token) != "" {
		return nil
	}
	return &apiError{
		Status: http.StatusUnauthorized,
		Message: "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth (i.e. Authorization: Bearer " +
			"YOUR_KEY).",
		Type: invalidRequest,
	}
}

// allow refuses other methods as the API does.
func (s *Server) allow(method string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == method {
			next(w, r)
			return
		}
		w.Header().Set("Allow", method)
		s.refuse(w, r, nil, &apiError{
			Status:  http.StatusMethodNotAllowed,
			Message: "Not allowed to " + r.Method + " on " + r.URL.Path + ".",
			Type:    invalidRequest,
			Code:    "method_not_supported",
		})
	}
}

func (s *Server) notFound(w http.ResponseWriter, r *http.Request) {
	s.refuse(w, r, nil, &apiError{
		Status:  http.StatusNotFound,
		Message: "Invalid URL (" + r.Method + " " + r.URL.Path + ")",
		Type:    invalidRequest,
	})
}
