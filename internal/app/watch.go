package app

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// makeWatched lets a process that only works be watched, at METRICS_ADDR. One with an API has the same there.
func (a *App) makeWatched(ctx context.Context) error {
	if a.config.MetricsAddr == "" {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", a.config.MetricsAddr)
	if err != nil {
		return fmt.Errorf("METRICS_ADDR: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.metrics.Registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: time.Minute}
	a.watched = listener.Addr().String()
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener) // says only that it was closed
	}()
	a.closers = append(a.closers, func() { _ = server.Close(); <-served })
	return nil
}
