// Package transfer exports chats page by page and imports files of any format that bundle reads. It declares the [Store]
// that Postgres implements. Whatever the size of a chat or a file, only a page or a few hundred records are in memory.
package transfer

import (
	"log/slog"
	"time"

	"github.com/arcoscribe/throughline/internal/memory"
	"golang.org/x/sync/semaphore"
)

// Keys of log lines.
const (
	keyBytes      = "bytes"
	keyChats      = "chats"
	keyDurationMS = "duration_ms"
	keyFormat     = "format"
	keyMessages   = "messages"
	keySkipped    = "skipped"
	keyUserID     = "user_id"
)

// importsAtOnce is how many imports one process checks and writes at the same time. Each may need some 50 MB, for the ids
// of a file of very many messages.
const importsAtOnce = 4

// Config of a Service. Store and Logger are required.
type Config struct {
	Store  Store
	Logger *slog.Logger
	// ChatDefaults are the settings of chats from files that have none, which are those of other programs.
	ChatDefaults memory.ChatDefaults
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
	// TempDir is the directory of files that are being imported. Defaults to the system's.
	TempDir string
}

// Service exports and imports. It is safe for concurrent use.
type Service struct {
	Config
	imports, accounts *semaphore.Weighted
}

// New returns a service.
func New(config Config) *Service {
	if config.Now == nil {
		config.Now = time.Now
	}
	return &Service{Config: config, imports: semaphore.NewWeighted(importsAtOnce), accounts: semaphore.NewWeighted(accountsAtOnce)}
}
