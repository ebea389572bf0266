// Package postgres keeps chats, messages and briefs: connection pools, transactions that act as a
// user, and the stores that chat, fold and jobs ask for. The queries are in /sql/queries; dbsqlc is
// what sqlc makes of them. It decides nothing: rules are in chat, fold and memory, and who may see
// what is decided by the policies in the database.
package postgres

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// supavisorTransactionPort is where every Supabase project's pooler offers transaction mode.
const supavisorTransactionPort = 6543

const (
	// connectTimeout bounds the making of a connection, unless connect_timeout is in the connection string. A
	// server that accepts and says nothing would otherwise hold a place in the pool for two minutes.
	connectTimeout = 5 * time.Second
	// pingTimeout is how long a connection that was idle may take to show that it is alive. After that it is
	// dropped, and another one is taken.
	pingTimeout = 2 * time.Second
)

// ParseDSN reads a connection string and tells whether a transaction pooler is behind it: port 6543,
// or the parameter pgbouncer=true (which is taken out, Postgres does not know it). Through such a
// pooler a session is not ours: no prepared statements, no LISTEN.
func ParseDSN(dsn string) (config *pgxpool.Config, transactionPooler bool, err error) {
	dsn, marked := takeOut(dsn, "pgbouncer")
	config, err = pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, false, fmt.Errorf("connection string: %w", err)
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	if config.PingTimeout == 0 {
		config.PingTimeout = pingTimeout
	}
	transactionPooler = marked || config.ConnConfig.Port == supavisorTransactionPort
	if transactionPooler {
		// Unlike QueryExecModeExec it asks Postgres for the types of parameters, once per query, so every
		// query means the same with and without a pooler; unlike the default it names no statement.
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	return config, transactionPooler, nil
}

func takeOut(dsn, parameter string) (rest string, was bool) {
	parsed, err := url.Parse(dsn)
	if err != nil || !strings.HasPrefix(parsed.Scheme, "postgres") {
		return dsn, false
	}
	query := parsed.Query()
	was = query.Get(parameter) == "true"
	query.Del(parameter)
	parsed.RawQuery = query.Encode()
	return parsed.String(), was
}

// Open makes a pool. It does not wait for Postgres: the first query does.
func Open(ctx context.Context, dsn string, maxConns int) (pool *pgxpool.Pool, transactionPooler bool, err error) {
	config, transactionPooler, err := ParseDSN(dsn)
	if err != nil {
		return nil, false, err
	}
	if maxConns > 0 && !strings.Contains(dsn, "pool_max_conns") {
		config.MaxConns = int32(min(maxConns, 10_000))
	}
	config.ConnConfig.RuntimeParams["application_name"] = "throughline"
	pool, err = pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, false, fmt.Errorf("pool: %w", err)
	}
	return pool, transactionPooler, nil
}
