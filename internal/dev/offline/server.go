package offline

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/arcoscribe/throughline/internal/dev/loopback"
)

// bodyLimit is the largest request body in bytes that is read.
const bodyLimit = 16 << 20

// Options configure a server. The zero value is right for a local run.
type Options struct {
	// Logger logs once that this is the offline model, and each request at debug level (sizes and
	// ids, never content). nil logs nothing.
	Logger *slog.Logger
	// PieceDelay is the pause before each piece (word) of a streamed text; 0 is as fast as possible.
	PieceDelay time.Duration
	// Script decides the answer of a request. It runs on the request's goroutine and may be called
	// from several at once. The zero Answer falls through to the built-in model, as does a nil Script.
	Script func(*Request) Answer
	// Embed makes the vector of a text, of so many dimensions if it can; nil makes one of the words.
	Embed func(text string, dimensions int) []float32
	// Refuses are parameters that are refused as unknown, as servers do that do not know them. "strict" is that of a tool.
	Refuses []string
	// NoUsage reports no usage of replies.
	NoUsage bool
	// Keyless takes requests without a key.
	Keyless bool
	// Idle is how long Start keeps a connection without requests; 0 for ever.
	Idle time.Duration
}

// Server is the offline model as an http.Handler. Make one with New and Close it at the end.
type Server struct {
	options Options
	log     *slog.Logger
	mux     *http.ServeMux
	journal journal
	steps   sync.Map // that were said: see shape

	// idPrefix and nextID make response ids that are unique across servers.
	idPrefix string
	nextID   atomic.Uint64

	closing context.Context // done when the server closes
	shut    context.CancelFunc
	running sync.RWMutex // requests read it, Close writes it

	base string       // where it listens
	stop func() error // ends that
}

// New makes a server that does not listen; see Start for that.
func New(options Options) *Server {
	if options.Embed == nil {
		options.Embed = embed
	}
	s := &Server{options: options, log: cmp.Or(options.Logger, slog.New(slog.DiscardHandler)), mux: http.NewServeMux(), idPrefix: strings.ToLower(rand.Text())}
	s.stop = func() error { return nil }
	s.closing, s.shut = context.WithCancel(context.Background())
	s.mux.HandleFunc("POST /v1/responses", func(w http.ResponseWriter, r *http.Request) {
		s.take(w, r, Request{API: APIResponses, Store: true}, s.readResponses)
	})
	s.mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) { s.take(w, r, Request{API: APIChat}, s.readChat) })
	s.mux.HandleFunc("POST /v1/embeddings", s.embeddings)
	s.log.Info("offline model: replies are made from the prompt alone, no provider is asked")
	return s
}

// ServeHTTP answers one request. Any bearer token is good, but there has to be one unless the options say otherwise.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.running.RLock()
	defer s.running.RUnlock()
	r.Body = http.MaxBytesReader(w, r.Body, bodyLimit)
	switch {
	case s.closing.Err() != nil:
		s.sendError(w, apiError{Status: http.StatusServiceUnavailable, Message: "The offline model is closed.", Type: "service_unavailable"})
	case !s.options.Keyless && !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer "):
		s.sendError(w, apiError{Status: http.StatusUnauthorized, Message: "You didn't provide an API key.", Type: invalidRequest})
	default:
		s.mux.ServeHTTP(w, r)
	}
}

// Start makes a server and lets it listen on 127.0.0.1 at a free port.
func Start(options Options) (*Server, error) {
	s := New(options)
	base, stop, err := loopback.Serve(s, options.Idle)
	if err != nil {
		return nil, fmt.Errorf("offline model: %w", err)
	}
	s.base, s.stop = base+"/v1", stop
	return s, nil
}

// BaseURL is what clients of a started server take as their base URL; it ends in /v1.
func (s *Server) BaseURL() string { return s.base }

// Close ends every request that waits, also the ones that hang on purpose, closes all connections of a started server, and waits until
// everything stopped. Later requests are refused. It may be called more than once.
func (s *Server) Close() error {
	s.shut()
	err := s.stop()
	s.running.Lock()
	defer s.running.Unlock()
	return err
}

// read decodes the body of a request into what this model reads of it. One that is no JSON is refused, and recorded as that. Of
// one that its sender broke off nothing is said.
func (s *Server) read(w http.ResponseWriter, r *http.Request, into any) (raw []byte, ok bool) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, false
	}
	if err = json.Unmarshal(raw, into); err == nil {
		return raw, true
	}
	s.journal.refused(r.Method + " " + r.URL.Path + ": " + err.Error())
	s.sendError(w, apiError{Status: http.StatusBadRequest, Message: "We could not parse the JSON body of your request.", Type: invalidRequest})
	return raw, false
}

const invalidRequest = "invalid_request_error"

// apiError is an error in the API's shape: {"error": {"message", "type", "param", "code"}}.
type apiError struct {
	Status        int
	Message, Type string
	Param, Code   string // null on the wire when empty
}

// serverError is what goes wrong in the middle.
var serverError = apiError{
	Status: http.StatusInternalServerError, Message: "The server had an error while processing your request.", Type: "server_error",
}

func (s *Server) sendError(w http.ResponseWriter, e apiError) { s.sendJSON(w, e.Status, e.object()) }

func (e apiError) object() object {
	fields := object{"message": e.Message, "type": e.Type, "param": nil, "code": nil}
	if e.Param != "" {
		fields["param"] = e.Param
	}
	if e.Code != "" {
		fields["code"] = e.Code
	}
	return object{"error": fields}
}

// sendJSON writes one JSON answer. A failed write means that the caller is gone.
func (s *Server) sendJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(mustJSON(value))
}
