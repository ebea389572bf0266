// Package loopback serves HTTP on a free port of this machine.
package loopback

import (
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// Serve serves a handler and returns its base URL. Streams may last as long as their callers stay; a connection without requests is kept
// for idle, 0 for ever. stop breaks all connections, and may be called more than once.
func Serve(handler http.Handler, idle time.Duration) (base string, stop func() error, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: idle}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	return "http://" + listener.Addr().String(), sync.OnceValue(func() error {
		err := server.Close()
		if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
			err = errors.Join(err, ended)
		}
		return err
	}), nil
}
