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

	base  string
	close func() error
}

// Start makes a server and lets it listen on 127.0.0.1 at a free port.
func Start(options Options) (*Listening, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("offline model: %w", err)
	}
	model := New(options)
	// No write timeout: streams may last as long as the caller stays.
	server := &http.Server{Handler: model, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	stop := sync.OnceValue(func() error {
		model.shut()
		err := server.Close()
		model.Close()
		if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
			err = errors.Join(err, ended)
		}
		return err
	})
	return &Listening{Server: model, base: "http://" + listener.Addr().String() + "/v1", close: stop}, nil
}

// BaseURL is what clients take as their base URL; it ends in /v1.
func (l *Listening) BaseURL() string { return l.base }

// Close ends running requests, closes all connections and waits until everything stopped. It may be
// called more than once.
func (l *Listening) Close() error { return l.close() }
