package testkit

import (
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// Log stores log lines and is safe for concurrent use. Its zero value is empty.
type Log struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write adds to the log.
func (l *Log) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

// String returns everything logged so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Logger writes JSON lines of every level into the log.
func (l *Log) Logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Lines returns the JSON lines with this message.
func (l *Log) Lines(t testing.TB, message string) []map[string]any {
	var found []map[string]any
	for line := range strings.Lines(l.String()) {
		var entry map[string]any
		check(t, json.Unmarshal([]byte(line), &entry))
		if entry["msg"] == message {
			found = append(found, entry)
		}
	}
	return found
}

// Measured returns the value of one counter or gauge, and the number of a histogram's observations. metric is a
// prometheus.Collector; members of a vector of histograms are only declared as less.
func Measured(t testing.TB, metric any) float64 {
	registry := prometheus.NewRegistry()
	registry.MustRegister(metric.(prometheus.Collector))
	families, err := registry.Gather()
	require.Truef(t, err == nil && len(families) == 1 && len(families[0].GetMetric()) == 1,
		"testkit: %d metrics, %v", len(families), err)
	value := families[0].GetMetric()[0]
	if histogram := value.GetHistogram(); histogram != nil {
		return float64(histogram.GetSampleCount())
	}
	return value.GetCounter().GetValue() + value.GetGauge().GetValue()
}
