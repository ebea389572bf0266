// Package haproxy runs HAProxy, with deploy/haproxy/cells.cfg or a configuration of the caller's.
package haproxy

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/arcoscribe/throughline/internal/dev/localpg"
)

// Proxy is a running HAProxy. Stop it.
type Proxy struct {
	master *os.Process
	ended  <-chan struct{}
}

// Start writes a configuration into dir and starts HAProxy with it. It returns when something listens at address.
func Start(ctx context.Context, dir, config, address string) (*Proxy, error) {
	program, err := exec.LookPath("haproxy")
	if err != nil {
		program = "/usr/sbin/haproxy" // where Debian keeps it
	}
	file := filepath.Join(dir, "haproxy.cfg")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	command := exec.Command(program, "-W", "-dW", "-f", file) //nolint:gosec,noctx // the installed one, which takes no warning; Stop ends it
	log, err := os.Create(filepath.Join(dir, "haproxy.log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // it writes by itself
	command.Stderr = log
	ended, err := localpg.StartChild(command, syscall.SIGTERM)
	if err != nil {
		return nil, fmt.Errorf("start HAProxy, which scripts/setup cells installs: %w", err)
	}
	p := &Proxy{command.Process, ended}
	for p.listens(ctx, address) != nil {
		select {
		case <-ended:
			said, _ := os.ReadFile(log.Name()) // without it there is less to say
			return nil, fmt.Errorf("HAProxy does not start with %s: %s", file, said)
		case <-ctx.Done():
			p.Stop()
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return p, nil
}

func (p *Proxy) listens(ctx context.Context, address string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err == nil {
		err = conn.Close()
	}
	return err
}

// Reload has new requests go by the files as they are now. Open streams stay.
func (p *Proxy) Reload() error { return p.master.Signal(syscall.SIGUSR2) }

// Stop ends it and its connections. It may be called more than once.
func (p *Proxy) Stop() {
	_ = p.master.Signal(syscall.SIGTERM) // it may have ended
	<-p.ended
}

// Cells returns deploy/haproxy/cells.cfg, read from the repository at root, with its map and its sockets in dir, for one server
// of each cell. bind is an address, and TLS if it is to be.
func Cells(root, dir, bind, a, b string) (config string, err error) {
	deploy, err := filepath.Abs(filepath.Join(root, "deploy", "haproxy"))
	if err != nil {
		return "", err
	}
	shipped, err := os.ReadFile(filepath.Join(deploy, "cells.cfg"))
	if err != nil {
		return "", err
	}
	here, err := os.OpenFile(filepath.Join(dir, "cells.map"), os.O_CREATE, 0o600) // without one HAProxy does not start
	if err != nil {
		return "", err
	}
	return strings.NewReplacer(
		":443 ssl crt /etc/haproxy/certs/api.example.com.pem alpn h2,http/1.1", bind,
		"/etc/haproxy/not_ready.http", filepath.Join(deploy, "not_ready.http"),
		"/etc/haproxy/", dir+"/", "/run/haproxy/", dir+"/", "127.0.0.1:8081", a, "127.0.0.1:8082", b,
		"maxconn 40000", "maxconn 4000", "maxconn 35000", "maxconn 3500", "maxconn 15000", "maxconn 1500", // for a shell's file limit
	).Replace(string(shipped)), here.Close()
}
