package jobs

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A server that is stopped logs no error, because nothing is wrong.
func TestQuietAtTheEnd(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	logger := quiet(slog.New(slog.NewJSONHandler(&log, nil))).With("a", 1)
	ended, end := context.WithCancel(t.Context())
	end()
	logger.InfoContext(t.Context(), "maintenance.JobCleaner: fine")
	logger.ErrorContext(ended, "maintenance.PeriodicJobEnqueuer: Error starting transaction", "error", "context canceled")
	logger.WarnContext(ended, "jobexecutor.JobExecutor: Job errored")
	logger.ErrorContext(t.Context(), "maintenance.PeriodicJobEnqueuer: Error starting transaction", "error", "too many clients")
	got := log.String()
	assert.Truef(t, strings.Count(got, "\n") == 2 && strings.Contains(got, "Job errored") && strings.Contains(got, "too many clients"),
		"logged %s", got)
}
