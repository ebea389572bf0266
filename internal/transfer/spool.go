package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
)

// spool is the imported file on disk, where it is read twice. It is unlinked as soon as it is open, so that nothing
// remains even when the process is killed.
type spool struct {
	file   *os.File
	size   int64
	digest hash.Hash
}

// receive copies the body to a new spool. It returns the body's errors as they are.
func receive(ctx context.Context, dir string, body io.Reader, received func(bytes int64)) (*spool, error) {
	file, err := os.CreateTemp(dir, "throughline-import-*")
	if err != nil {
		return nil, fmt.Errorf("keep import: %w", err)
	}
	s := &spool{file: file, digest: sha256.New()}
	if err := os.Remove(file.Name()); err != nil {
		s.close()
		return nil, fmt.Errorf("keep import: %w", err)
	}
	_, err = io.Copy(io.MultiWriter(file, s.digest, writer(func(part []byte) (int, error) {
		s.size += int64(len(part))
		received(s.size)
		return len(part), ctx.Err()
	})), body)
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// writer is an io.Writer.
type writer func(part []byte) (int, error)

func (w writer) Write(part []byte) (int, error) { return w(part) }

// sum is the SHA-256 of the content in hexadecimal digits.
func (s *spool) sum() string { return hex.EncodeToString(s.digest.Sum(nil)) }

func (s *spool) close() {
	_ = s.file.Close() // its content is no longer needed
}
