package stack

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Describe says what something was measured on: the machine, and Postgres with what it trades for speed.
func Describe(ctx context.Context, postgres interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}) ([]string, error) {
	var version, settings string
	err := postgres.QueryRow(ctx, `select current_setting('server_version'), string_agg(name || ' ' || setting || coalesce(unit, ''), ', ' order by name)
		from pg_settings where name in ('fsync', 'synchronous_commit', 'full_page_writes', 'shared_buffers')`).Scan(&version, &settings)
	if err != nil {
		return nil, err
	}
	version, _, _ = strings.Cut(version, " ") // without the distribution's own
	return []string{
		fmt.Sprintf("%d cores, %s, %s/%s, load average %s", runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH, loadAverage()),
		fmt.Sprintf("Postgres %s: %s", version, settings),
	}, nil
}

func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 3 {
		return "unknown"
	}
	return strings.Join(fields[:3], " ")
}
