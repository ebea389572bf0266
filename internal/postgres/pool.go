// Package postgres stores chats, messages and briefs. It has connection pools, transactions with a user's rights,
// and the stores of chat, history, transfer, memory/brief and jobs. The queries are in /sql/queries, and dbsqlc is
// generated from them; batch.go sends several of them in one round trip. The package makes no decisions: the rules
// are in the packages named above, and policies in the database decide who sees what.
package postgres

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
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
	if config.ConnConfig.ValidateConnect == nil {
		config.ConnConfig.ValidateConnect = notInRecovery
	}
	transactionPooler = marked || config.ConnConfig.Port == supavisorTransactionPort
	if transactionPooler {
		// Unlike QueryExecModeExec this asks Postgres for the types of parameters, once per query, so that a query
		// means the same with and without a pooler. Unlike the default it uses no named statements.
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	return config, transactionPooler, nil
}

// notInRecovery refuses a server that is a standby, or will be a primary in a moment, so that no connection to it is kept; of
// several hosts the next one is tried. A pooler may report what was true once, so only then the server is asked.
func notInRecovery(ctx context.Context, conn *pgconn.PgConn) error {
	if conn.ParameterStatus("in_hot_standby") != "on" {
		return nil
	}
	return pgconn.ValidateConnectTargetSessionAttrsPrimary(ctx, conn)
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
	return open(ctx, dsn, maxConns, false)
}

// OpenForTurns is Open for a server that starts turns: it opens connections in the background, and keeps them open for
// these, unless pool_min_conns=0 is in the connection string.
func OpenForTurns(ctx context.Context, dsn string, maxConns int) (pool *pgxpool.Pool, transactionPooler bool, err error) {
	return open(ctx, dsn, maxConns, true)
}

func open(ctx context.Context, dsn string, maxConns int, forTurns bool) (pool *pgxpool.Pool, transactionPooler bool, err error) {
	config, transactionPooler, err := ParseDSN(dsn)
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
	if forTurns && !strings.Contains(dsn, "pool_min_conns") {
		config.MinConns = keptOpen(config.MaxConns)
	}
	if forTurns && config.MinConns > 0 {
		keepWarm(config, transactionPooler)
	}
	pool, err = pgxpool.NewWithConfig(ctx, config)
	return pool, transactionPooler, failed("pool", err)
}

// The first turn on a new connection costs Postgres ten times what a later one does: it loads what it knows of tables,
// policies and triggers, and parses and plans every statement. When many turns begin at once, the pool would open a
// connection for each, and all would wait for that. So a pool for turns keeps some connections open, each has run the
// statements of a turn before it is used, and turns leave the rest of the pool to what must not wait for them: readers, the
// recorder, leases, jobs.

// keptOpen is how many connections a pool for turns keeps open.
func keptOpen(maxConns int32) int32 { return max(1, maxConns/3) }

// turnsAtOnce is how many transactions of turns run at once in a pool: more than one user may have streams, so that the
// turns of one whose chat is locked do not keep the others waiting.
func turnsAtOnce(maxConns int32) int32 { return max(1, maxConns/2) }

const (
	// Postgres plans a statement for its values five times before it may keep one plan for all values.
	runsUntilPlanned = 6
	// Through a transaction pooler no plan is kept. One run tells pgx the types of the parameters.
	runsUntilDescribed = 1
	// warmTimeout bounds the runs, and longestWarmStatement each statement: less, so that the connection survives if
	// somebody has locked a table.
	warmTimeout          = 5 * time.Second
	longestWarmStatement = "500" // milliseconds
)

// keepWarm makes a pool warm the connections that it keeps open. One that a request waits for is not: it may be for
// something else.
func keepWarm(config *pgxpool.Config, transactionPooler bool) {
	if config.MaxConnLifetimeJitter == 0 {
		config.MaxConnLifetimeJitter = config.MaxConnLifetime / 2 // opened together, they would be replaced together
	}
	runs := runsUntilPlanned
	if transactionPooler {
		runs = runsUntilDescribed
	}
	connected := config.AfterConnect
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		err := connected(ctx, conn)
		// Only what pgxpool does in the background has a deadline: see pgxpool.Config.MinConns.
		if _, background := ctx.Deadline(); err != nil || !background {
			return err
		}
		return warm(ctx, conn, runs)
	}
}

// warm makes a connection warm, unless Postgres refuses: tables may be locked, or not migrated yet. Then the connection is as
// good as any other.
func warm(ctx context.Context, conn *pgx.Conn, runs int) error {
	ctx, cancel := context.WithTimeout(ctx, warmTimeout)
	defer cancel()
	err := runTurnsOfNobody(ctx, conn, runs)
	if sqlState(err) != "" {
		return nil
	}
	return failed("warm up", err)
}

// runTurnsOfNobody runs the statements of turns of a user and a chat that do not exist, and rolls them back.
func runTurnsOfNobody(ctx context.Context, conn *pgx.Conn, runs int) error {
	begin := &pgx.Batch{}
	begin.BeginTx(pgx.TxOptions{}) // in a batch, as a save does
	dbsqlc.LimitStatements.Queue(begin, longestWarmStatement)
	sent := conn.SendBatch(ctx, begin)
	tx := sent.Tx()
	defer func() { _ = tx.Rollback(ctx) }() // a connection that fails here is closed
	if err := sent.Close(); err != nil {
		return err
	}
	for range runs {
		batch := &pgx.Batch{}
		queueTurnOfNobody(batch)
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return err
		}
	}
	if err := tx.Rollback(ctx); err != nil {
		return err
	}
	empty := &pgx.Batch{} // the end of a batch is a statement, too
	empty.Queue("begin")
	empty.Queue("commit")
	return conn.SendBatch(ctx, empty).Close()
}

func queueTurnOfNobody(batch *pgx.Batch) {
	queueActAs(batch, auth.Principal{Claims: `{"sub":"00000000-0000-0000-0000-000000000000","role":"authenticated"}`})
	start := &turnStart{userMetadata: emptyObject, replyMetadata: emptyObject, turn: chat.NewTurn{
		ChatID: uuid.New(), UserMessageID: uuid.New(), MessageID: uuid.New(), ClientMessageID: uuid.New(),
	}}
	start.fill(batch)
	dbsqlc.SaveReply.Queue(batch, dbsqlc.SaveReplyParams{ID: uuid.New(), Metadata: emptyObject})
	dbsqlc.ReadCounters.Read(batch, dbsqlc.ReadCountersParams{ChatID: uuid.New()}, func(dbsqlc.ReadCountersRow) {})
	queueActAsServer(batch)
}

var emptyObject = []byte("{}")

// registerTypes sets how a connection reads and writes types of which pgx does not know enough.
func registerTypes(types *pgtype.Map) {
	types.RegisterType(&pgtype.Type{Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: newDates()})
	id := &pgtype.Type{Name: "uuid", OID: pgtype.UUIDOID, Codec: ids{}}
	types.RegisterType(id)
	types.RegisterType(&pgtype.Type{Name: "_uuid", OID: pgtype.UUIDArrayOID, Codec: &pgtype.ArrayCodec{ElementType: id}})
}

// ids is the codec of uuid. A uuid.UUID is what Postgres sends and takes, but pgx would make text of each of them, and
// bytes of the text.
type ids struct{ pgtype.UUIDCodec }

// PlanEncode plans for one type of value.
func (c ids) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.(uuid.UUID); ok && format == pgtype.BinaryFormatCode {
		return idPlan{}
	}
	return c.UUIDCodec.PlanEncode(m, oid, format, value)
}

// PlanScan plans for one type of target.
func (c ids) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	if _, ok := target.(*uuid.UUID); ok && format == pgtype.BinaryFormatCode {
		return idPlan{}
	}
	return c.UUIDCodec.PlanScan(m, oid, format, target)
}

type idPlan struct{}

// Encode appends an id.
func (idPlan) Encode(value any, buf []byte) ([]byte, error) {
	id, ok := value.(uuid.UUID)
	if !ok {
		return nil, fmt.Errorf("%T is no id", value)
	}
	return append(buf, id[:]...), nil
}

// Scan reads an id; null is uuid.Nil.
func (idPlan) Scan(src []byte, target any) error {
	into, ok := target.(*uuid.UUID)
	if !ok || src != nil && len(src) != len(into) {
		return fmt.Errorf("%d bytes are no id for %T", len(src), target)
	}
	*into = uuid.Nil
	copy(into[:], src)
	return nil
}

// dates is the codec of timestamptz. Times come in UTC, which is what answers have, and not in the server's own zone. A
// date that JSON cannot have becomes the nearest one that it can: constraints refuse such dates, but without one of them a
// single row would keep a user from all of the chats.
type dates struct{ *pgtype.TimestamptzCodec }

func newDates() dates { return dates{&pgtype.TimestamptzCodec{ScanLocation: time.UTC}} }

var (
	firstDate = time.Date(1, time.January, 1, 0, 0, 0, 0, time.UTC)
	lastDate  = time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)
)

// PlanScan plans for one type of target. Of a **time.Time pgx takes care itself, with the plan for *time.Time.
func (d dates) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	if _, ok := target.(*time.Time); !ok {
		return d.TimestamptzCodec.PlanScan(m, oid, format, target)
	}
	return scanDate{d.TimestamptzCodec.PlanScan(m, oid, format, new(pgtype.Timestamptz))}
}

type scanDate struct{ pgtype.ScanPlan }

// Scan reads a date; null is the zero time.
func (s scanDate) Scan(src []byte, target any) error {
	var read pgtype.Timestamptz
	if err := s.ScanPlan.Scan(src, &read); err != nil {
		return err
	}
	into, ok := target.(*time.Time)
	if !ok {
		return fmt.Errorf("%T is no date", target)
	}
	switch *into = read.Time; {
	case !read.Valid:
	case read.InfinityModifier == pgtype.Infinity || into.After(lastDate):
		*into = lastDate
	case read.InfinityModifier == pgtype.NegativeInfinity || into.Before(firstDate):
		*into = firstDate
	}
	return nil
}
