package dev

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// What is printed, pasted as it is, moves a user, whom the same token then finds in the other cell.
func TestCells(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithTimeout(context.Background(), 2*testkit.Patience) // with whose end the lines end
	read, write := io.Pipe()
	ended := make(chan error, 1)
	root, program := t.TempDir(), filepath.Join(t.TempDir(), "throughline")
	deploy, err := filepath.Abs("../../deploy")
	require.NoError(t, err)
	require.NoError(t, os.Symlink(deploy, filepath.Join(root, "deploy")))
	require.NoError(t, kit.Build(ctx, "../..", program))
	cfg := configured(t, map[string]string{"HTTP_ADDR": testkit.FreeAddress(t), "EMBEDDING_MODEL": "none", "RECALL": "off"})
	go func() {
		err := Cells(ctx, cfg, root, write, slog.New(slog.DiscardHandler))
		_ = write.CloseWithError(io.EOF)
		ended <- err
	}()
	t.Cleanup(func() {
		stop()
		go func() { _, _ = io.Copy(io.Discard, read) }()
		assert.NoError(t, testkit.Receive(t, "it ends", ended))
	})
	lines, printed := bufio.NewScanner(read), ""
	until := func(text string) {
		for !strings.Contains(printed, text) {
			require.Truef(t, lines.Scan(), "no %q in %s", text, printed)
			printed += lines.Text() + "\n"
		}
	}
	talks := func(lines string) {
		testkit.Eventually(t, "ann is answered", func() bool {
			text := pasted(t, lines)
			return text != ""
		})
	}
	until("  cem -")
	_, paste, _ := strings.Cut(printed, "as ann:\n")
	talk, move, _ := strings.Cut(paste, "Then move")
	_, move, _ = strings.Cut(move, ":\n")
	move, _, _ = strings.Cut(move, "Who is")
	talks(talk)
	until("  ann a, turns: 1 ")
	shell(t, strings.NewReplacer(".local/bin/throughline", program, "deploy/haproxy", deploy+"/haproxy").Replace(move))
	until("  ann b, turns: 1 ")
	talks(talk)
	until("  ann b, turns: 2 ")
}
