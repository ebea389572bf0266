package app

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/arcoscribe/throughline/internal/httpapi"
	"github.com/arcoscribe/throughline/jobs"
	"riverqueue.com/riverui"
)

// riverUI returns the handler of /river/, nil when it is off. It asks for the user and password if they are
// set; config requires them except in dev. There it answers only by an address or as localhost: a page whose
// own name was made to point to this machine (DNS rebinding) is of the same origin for a browser.
func (a *App) riverUI(ctx context.Context, client *jobs.Client) (http.Handler, error) {
	if !a.config.RiverUI {
		return nil, nil
	}
	handler, err := riverui.NewHandler(&riverui.HandlerOpts{
		Endpoints: riverui.NewEndpoints(client, nil),
		Logger:    slog.New(slog.DiscardHandler), // each request is in our own log
		Prefix:    "/river",
	})
	if err != nil {
		return nil, fmt.Errorf("river ui: %w", err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	a.closers = append(a.closers, stop)
	if err := handler.Start(ctx); err != nil {
		return nil, fmt.Errorf("river ui: %w", err)
	}
	guarded := fromOwnPages(handler)
	if a.config.RiverUIUser == "" {
		return byLocalName(guarded), nil
	}
	return withPassword(guarded, a.config.RiverUIUser, a.config.RiverUIPassword), nil
}

// fromOwnPages refuses what a page of another site sends: a browser adds the operator's password to that, too. Nor may
// such a page show ours in a frame, where a click would be the operator's.
func fromOwnPages(next http.Handler) http.Handler {
	next = http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "frame-ancestors 'none'")
		w.Header().Set("X-Frame-Options", "DENY")
		next.ServeHTTP(w, r)
	})
}

func byLocalName(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !httpapi.IsLocalName(r.Host) {
			http.Error(w, "Without a password River UI answers only at an IP address or at localhost.", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// withPassword asks for one user and password (RFC 7617). It compares hashes, so that the time taken reveals
// neither their length nor their content.
func withPassword(next http.Handler, user, password string) http.Handler {
	want := sha256.Sum256([]byte(user + "\x00" + password))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		gotUser, gotPassword, _ := r.BasicAuth()
		got := sha256.Sum256([]byte(gotUser + "\x00" + gotPassword))
		if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="River UI", charset="UTF-8"`)
			http.Error(w, "Sign in to see the jobs.", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}
