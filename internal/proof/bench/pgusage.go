package main

import (
	"context"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/stack"
)

// postgresUsage reads what Postgres has used since it was started: CPU time of all its processes, those that
// have ended included, and bytes written ahead. Where the system does not tell, the CPU time is 0.
func (e *environment) postgresUsage(ctx context.Context) (cpu time.Duration, wal int64, err error) {
	var pid string
	err = e.admin.QueryRow(ctx, "select split_part(pg_read_file('postmaster.pid'), e'\\n', 1), pg_current_wal_lsn() - '0/0'::pg_lsn").Scan(&pid, &wal)
	if err != nil {
		return 0, 0, err
	}
	// Of its ended children the postmaster knows; the living ones are asked one by one.
	cpu = stack.CPUOf(pid, true)
	for _, child := range stack.ChildrenOf(pid) {
		cpu += stack.CPUOf(child, false)
	}
	return cpu, wal, nil
}

// watchPostgres gives the CPU time that Postgres uses within a time.
func (e *environment) watchPostgres(ctx context.Context, from, to time.Time) (time.Duration, error) {
	if err := sleepUntil(ctx, from); err != nil {
		return 0, err
	}
	before, _, err := e.postgresUsage(ctx)
	if err != nil {
		return 0, err
	}
	if err := sleepUntil(ctx, to); err != nil {
		return 0, err
	}
	after, _, err := e.postgresUsage(ctx)
	return after - before, err
}
