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

const (
	// startTimeout bounds the loading of the model, which takes a fraction of a second on an idle machine.
	startTimeout = 30 * time.Second
	// The pauses before a process that ended is replaced; the first one again after a process that lived for a while.
	firstPause   = 100 * time.Millisecond
	longestPause = 30 * time.Second
)

// ErrNotInstalled reports that Node.js or the packages are missing.
var ErrNotInstalled = errors.New("Node.js or the packages of scripts/embedder are not installed")

// Embedder is a running embedder. Close it.
type Embedder struct {
	node   string
	dir    string
	port   int
	log    *slog.Logger
	ctx    context.Context // done when the embedder closes
	cancel context.CancelFunc
	ended  chan struct{}
}

// Start runs the embedder with the packages in root/.local/embedder and returns when it answers. A process that ends is
// replaced until Close, on the same port. ctx bounds only the start.
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
	e := &Embedder{node: node, dir: dir, port: port, log: logger, ended: make(chan struct{})}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	first, err := e.launch()
	if err != nil {
		e.cancel()
		return nil, fmt.Errorf("the embedder does not start: %w", err)
	}
	if err := first.awaitReady(ctx); err != nil {
		e.cancel()
		<-first.gone
		return nil, fmt.Errorf("the embedder does not start: %w", err)
	}
	go e.watch(first)
	return e, nil
}

// BaseURL is what clients take as their base URL; it ends in /v1.
func (e *Embedder) BaseURL() string { return "http://127.0.0.1:" + strconv.Itoa(e.port) + "/v1" }

// Close ends the process and waits until it is gone. It may be called more than once.
func (e *Embedder) Close() {
	e.cancel()
	<-e.ended
}

// watch replaces the process whenever it ends, until Close.
func (e *Embedder) watch(running *process) {
	defer close(e.ended)
	pause := firstPause
	for {
		started := time.Now()
		<-running.gone
		if e.ctx.Err() != nil {
			return
		}
		if time.Since(started) > longestPause {
			pause = firstPause
		}
		e.log.Warn("the embedder ended and is started again", "pause_ms", pause.Milliseconds(), "reason", running.reason())
		select {
		case <-e.ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, longestPause)
		next, err := e.launch()
		if err != nil {
			e.log.Warn("the embedder cannot be started", "error", err)
			continue
		}
		running = next
	}
}

// process is one Node process.
type process struct {
	gone   <-chan struct{}
	ready  chan struct{} // closed once it listens
	once   sync.Once
	errors bytes.Buffer // read it when the process is gone
}

// launch starts a process, which ends with e.ctx.
func (e *Embedder) launch() (*process, error) {
	p := &process{ready: make(chan struct{})}
	cmd := exec.CommandContext(e.ctx, e.node, "--input-type=module", "--eval", program, strconv.Itoa(e.port)) //nolint:gosec // the node of the developer's PATH
	cmd.Dir = e.dir                                                                                           // where its packages are looked for
	cmd.Env = []string{}
	cmd.Stdout, cmd.Stderr = p, &p.errors
	// Where the kernel does not end it with us, the end of its input does.
	if _, err := cmd.StdinPipe(); err != nil {
		return nil, err
	}
	var err error
	p.gone, err = localpg.StartChild(cmd, syscall.SIGKILL)
	return p, err
}

// Write receives the one line that the process prints when it listens.
func (p *process) Write(line []byte) (int, error) {
	p.once.Do(func() { close(p.ready) })
	return len(line), nil
}

func (p *process) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	select {
	case <-p.ready:
		return nil
	case <-p.gone:
		return errors.New(p.reason())
	case <-ctx.Done():
		return ctx.Err()
	}
}

// reason is the line of a process that is gone that says why; "" if it was killed.
func (p *process) reason() string {
	for line := range strings.Lines(p.errors.String()) {
		if strings.Contains(line, "Error") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}
