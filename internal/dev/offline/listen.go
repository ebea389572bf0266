package offline

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Listening is a server on a loopback port of its own. Close it.
type Listening struct {
	// Server is the model, for Requests, Refused and Await.
	*Server

	http   *http.Server
	base   string
	served chan error
	once   sync.Once
	err    error // of the first Close
}

// Start makes a server and lets it listen on 127.0.0.1 at a free port.
func Start(options Options) (*Listening, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("offline model: %w", err)
	}
	l := &Listening{
		Server: New(options),
		base:   "http://" + listener.Addr().String() + "/v1",
		served: make(chan error, 1),
	}
	// No write timeout: streams may last as long as the caller stays.
	l.http = &http.Server{Handler: l.Server, ReadHeaderTimeout: 10 * time.Second}
	go func() { l.served <- l.http.Serve(listener) }()
	return l, nil
}

// BaseURL is what clients take as their base URL; it ends in /v1.
func (l *Listening) BaseURL() string { return l.base }

// Close ends running requests, closes all connections and waits until everything stopped. It may be
// called more than once.
func (l *Listening) Close() error {
	l.once.Do(func() {
		l.shut()
		l.err = l.http.Close()
		l.Server.Close()
		if served := <-l.served; !errors.Is(served, http.ErrServerClosed) {
			l.err = errors.Join(l.err, served)
		}
	})
	return l.err
}
