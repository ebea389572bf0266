package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// statements are those of a turn that a division of the table touches most, written out: the buffer's read, and the
// save, which knows the reply by its id alone; and the same save if it named the chat as well.
var statements = []struct{ what, sql string }{
	{"read a chat's tail", `select m.id, m.seq, m.role, m.content, m.token_count from public.messages m
		where m.chat_id = '%[1]s' and m.seq > %[2]d order by m.seq desc limit 1000`},
	{"save by id", `update public.messages set content = 'x', status = 'complete', token_count = 1
		where id = '%[3]s' and superseded_by is null and status in ('streaming', 'interrupted', 'complete')`},
	{"save by chat and id", `update public.messages set content = 'x', status = 'complete', token_count = 1
		where chat_id = '%[1]s' and id = '%[3]s' and superseded_by is null and status in ('streaming', 'interrupted', 'complete')`},
}

// plan is what EXPLAIN says of one statement.
type plan struct {
	Plan struct {
		Hits  float64 `json:"Shared Hit Blocks"`
		Reads float64 `json:"Shared Read Blocks"`
	} `json:"Plan"`
	Planning float64 `json:"Planning Time"`
}

// measurePlans explains the statements as the user, in the first of the ordinary chats and in the long one's tail, and tells
// what a connection keeps in memory afterwards.
func measurePlans(ctx context.Context, d *database, s size) ([]figure, error) {
	if err := d.do(ctx, "grant pg_read_all_stats to postgres"); err != nil { // to see its own connection's memory
		return nil, err
	}
	conn, err := pgx.Connect(ctx, d.server)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // nothing was committed
	long := s.rows / longShare
	var found []figure
	for i, statement := range statements {
		reply := named("message-1", 2*(i+1)) // another one each time: what was taken back leaves dead rows
		p, err := explain(ctx, conn, s, 1, fmt.Sprintf(statement.sql, named("chat", 1), coveredUpTo, reply))
		if err != nil {
			return nil, err
		}
		found = append(found, figure{statement.what + ": planning", "ms", p.Planning}, figure{statement.what + ": pages touched", "", p.Plan.Hits + p.Plan.Reads})
	}
	p, err := explain(ctx, conn, s, 0, fmt.Sprintf(statements[0].sql, named("chat", 0), long-(chatMessages-coveredUpTo), ""))
	if err != nil {
		return nil, err
	}
	found = append(found, figure{"read the long chat's tail: pages touched", "", p.Plan.Hits + p.Plan.Reads})
	var kept float64
	if err := conn.QueryRow(ctx, "select sum(total_bytes) / 1e6 from pg_backend_memory_contexts").Scan(&kept); err != nil {
		return nil, err
	}
	return append(found, figure{"memory of a connection after that", "MB", kept}), nil
}

// explain runs a statement as a chat's owner a few times, and takes it back. Pages are those of the first time
// and planning that of the quickest: the rest is what else the machine does.
func explain(ctx context.Context, conn *pgx.Conn, s size, chat int, statement string) (plan, error) {
	owner, err := s.ownerOf(chat)
	if err != nil {
		return plan{}, err
	}
	var found []plan
	for range 5 {
		var answer []plan
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "select set_config('role', 'throughline_app', true), set_config('request.jwt.claims', $1, true)", owner.Claims); err != nil {
				return err
			}
			var raw string
			if err := tx.QueryRow(ctx, "explain (analyze, buffers, format json) "+statement).Scan(&raw); err != nil {
				return err
			}
			if err := json.Unmarshal([]byte(raw), &answer); err != nil {
				return err
			}
			return errTakeBack
		})
		if err != nil && !errors.Is(err, errTakeBack) {
			return plan{}, err
		}
		found = append(found, answer...)
	}
	for _, p := range found {
		found[0].Planning = min(found[0].Planning, p.Planning)
	}
	return found[0], nil
}

var errTakeBack = errors.New("it was only to be explained")
