package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/config"
)

// healthTimeout is below the one of the image's HEALTHCHECK, so that the reason is told.
const healthTimeout = 4 * time.Second

// health asks a process of this machine, for an image that has no shell and no curl.
func health(line *commandLine) runner {
	ready := line.Bool("ready", false, "ask an API whether it can serve, not only whether it lives")
	return func(ctx context.Context, stdout, _ io.Writer) error {
		cfg, err := config.Load(false)
		if err != nil {
			return err
		}
		path := "/healthz"
		if *ready {
			path = "/readyz" // only an API has it
		}
		return askHealth(ctx, "http://"+localAddress(cfg.HTTPAddr)+path, stdout)
	}
}

// localAddress is where to reach on this machine what listens at an address, which may be that of all interfaces.
func localAddress(listens string) string {
	host, port, _ := net.SplitHostPort(listens) // the configuration was checked
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost" // both 127.0.0.1 and ::1
	}
	return net.JoinHostPort(host, port)
}

func askHealth(ctx context.Context, url string, stdout io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // read as far as is wanted
	said, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s %s", url, response.Status, strings.TrimSpace(string(said)))
	}
	_, err = fmt.Fprintln(stdout, strings.TrimSpace(string(said)))
	return err
}
