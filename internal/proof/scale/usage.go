package main

import (
	"context"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/stack"
)

const selectUsage = `
select split_part(pg_read_file('postmaster.pid'), e'\n', 1), (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float8,
       sum(heap_blks_hit + coalesce(idx_blks_hit, 0))::float8, sum(heap_blks_read + coalesce(idx_blks_read, 0))::float8
  from pg_statio_user_tables where relid in (` + messageTables + `)`

// usage is what Postgres has used since it was started, and read of messages.
type usage struct {
	cpu         time.Duration
	wal         float64
	hits, reads float64
}

// usage looks at Postgres once the talker's connections have told what they did.
func (t *talker) usage(ctx context.Context, d *database) (usage, error) {
	if err := t.tell(ctx); err != nil {
		return usage{}, err
	}
	return d.usage(ctx)
}

// usage looks at Postgres. Where the system does not tell CPU times, they are 0.
func (d *database) usage(ctx context.Context) (usage, error) {
	var u usage
	var pid string
	err := d.do(ctx, "select pg_stat_clear_snapshot()")
	if err == nil {
		err = d.admin.QueryRow(ctx, selectUsage).Scan(&pid, &u.wal, &u.hits, &u.reads)
	}
	if err != nil {
		return u, err
	}
	u.cpu = stack.CPUOf(pid, false)
	for _, child := range stack.ChildrenOf(pid) {
		u.cpu += stack.CPUOf(child, false)
	}
	return u, nil
}
