// Package postgres stores chats, messages and briefs. It has connection pools, transactions with a user's rights,
// and the stores of chat, history, transfer, memory/brief and jobs. The queries are in /sql/queries, and dbsqlc is
// the code that sqlc generates from them; batch.go sends several of them in one round trip. The package makes no
// decisions: the rules are in the packages named above, and policies in the database decide who sees what.
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

// supavisorTransactionPort is the port of transaction mode in every Supabase project's pooler.
const supavisorTransactionPort = 6543

const (
	// connectTimeout bounds connecting, unless connect_timeout is in the connection string. A server that accepts
	// and then stays silent would otherwise occupy the pool for two minutes.
	connectTimeout = 5 * time.Second
	// pingTimeout bounds the ping of a connection that was idle. If it passes, the connection is replaced.
	pingTimeout = 2 * time.Second
)

// ParseDSN parses a connection string and reports whether it leads to a transaction pooler: by port 6543, or by
// the parameter pgbouncer=true, which it removes because Postgres does not know it. Such a pooler shares sessions
// between clients, so there are no prepared statements and no LISTEN.
func ParseDSN(dsn string) (config *pgxpool.Config, transactionPooler bool, err error) {
	dsn, marked := cutParameter(dsn, "pgbouncer")
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
		// Unlike QueryExecModeExec this asks Postgres for the types of parameters, once per query, so that a query
		// means the same with and without a pooler. Unlike the default it uses no named statements.
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	return config, transactionPooler, nil
}

// cutParameter removes a parameter of a URL, and reports whether it was true.
func cutParameter(dsn, parameter string) (rest string, isTrue bool) {
	parsed, err := url.Parse(dsn)
	if err != nil || !strings.HasPrefix(parsed.Scheme, "postgres") {
		return dsn, false
	}
	query := parsed.Query()
	isTrue = query.Get(parameter) == "true"
	query.Del(parameter)
	parsed.RawQuery = query.Encode()
	return parsed.String(), isTrue
}

// Open returns a pool. It does not connect: the first query does.
func Open(ctx context.Context, dsn string, maxConns int) (pool *pgxpool.Pool, transactionPooler bool, err error) {
	config, transactionPooler, err := poolConfig(dsn, maxConns)
	if err != nil {
		return nil, false, err
	}
	return newPool(ctx, config, transactionPooler)
}

// OpenForTurns is Open for a server that starts turns: it opens connections in the background, and keeps them open for
// these, unless pool_min_conns=0 is in the connection string.
func OpenForTurns(ctx context.Context, dsn string, maxConns int) (pool *pgxpool.Pool, transactionPooler bool, err error) {
	config, transactionPooler, err := poolConfig(dsn, maxConns)
	if err != nil {
		return nil, false, err
	}
	if !strings.Contains(dsn, "pool_min_conns") {
		config.MinConns = keptOpen(config.MaxConns)
	}
	if config.MinConns > 0 {
		keepWarm(config, transactionPooler)
	}
	return newPool(ctx, config, transactionPooler)
}

func poolConfig(dsn string, maxConns int) (config *pgxpool.Config, transactionPooler bool, err error) {
	config, transactionPooler, err = ParseDSN(dsn)
	if err != nil {
		return nil, false, err
	}
	if maxConns > 0 && !strings.Contains(dsn, "pool_max_conns") {
		config.MaxConns = int32(min(maxConns, 10_000))
	}
	config.ConnConfig.RuntimeParams["application_name"] = "throughline"
	config.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		registerTypes(conn.TypeMap())
		return nil
	}
	return config, transactionPooler, nil
}

func newPool(ctx context.Context, config *pgxpool.Config, transactionPooler bool) (*pgxpool.Pool, bool, error) {
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, false, fmt.Errorf("pool: %w", err)
	}
	return pool, transactionPooler, nil
}
