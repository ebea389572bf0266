// Package app assembles the server from its parts: it is the one package that imports all of them. New makes
// an App from a Config (app.go). Run serves until its context ends and then stops in order (run.go): no new
// messages, running replies finish or are stored as interrupted, workers finish or are cancelled, connections
// close.
package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"syscall"
	"time"
	_ "time/tzdata" // so that the users' time zones are known on any machine

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/config"
	"github.com/arcoscribe/throughline/internal/httpapi"
	"github.com/arcoscribe/throughline/internal/judge"
	"github.com/arcoscribe/throughline/internal/llm"
	"github.com/arcoscribe/throughline/internal/mcptools"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/toolcall"
	"github.com/arcoscribe/throughline/internal/transfer"
	"github.com/arcoscribe/throughline/internal/webui"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/arcoscribe/throughline/jobs"
	"github.com/arcoscribe/throughline/supabase"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Role is what an App does.
type Role struct {
	API     bool
	Workers bool
}

// The sizes of the pools: apiConns for the API, riverConns beside one connection per concurrent job.
const (
	apiConns   = 24
	riverConns = 8
)

// App is a server, a worker or both. Run it once.
type App struct {
	config  config.Config
	role    Role
	doubles Doubles
	logger  *slog.Logger
	metrics *metrics.Metrics

	pool     *pgxpool.Pool // of DATABASE_URL
	workPool *pgxpool.Pool // of DATABASE_DIRECT_URL; may be the same
	pollOnly bool          // River polls for jobs, because the workers' pool cannot LISTEN

	model    *llm.Client                 // of memory's jobs, and of variants without a server of their own
	embedder *llm.Embedder               // nil for recall by words alone, or for none
	keys     func(context.Context) error // fails while tokens cannot be checked; nil without an API
	worker   *jobs.Client                // nil without workers
	chat     *chat.Service               // nil without an API, as is server
	server   *http.Server                // the API, served by Run
	notices  *postgres.Listener          // passes what other servers did to chat; nil behind a transaction pooler
	listener net.Listener                // of the API or, without one, of the metrics; nil for neither

	isolation isolation
	bypasses  atomic.Bool // row-level security does not bind the connection of pool
	stopping  atomic.Bool // makes /readyz refuse
	warmed    atomic.Bool // the pool has opened what it keeps open
	closers   []func()    // called by Close, last one first
}

// Doubles replace parts of an App in tests, and say so in dev. The zero value replaces nothing.
type Doubles struct {
	// Turns and Folder wrap or replace the real one.
	Turns  func(chat.Store) chat.Store
	Folder func(jobs.Folder) jobs.Folder
	// SavePatience replaces chat.Config's, and Drain how long running replies may go on.
	SavePatience, Drain time.Duration
	// OfflineModel has the page say that the model of `make run` answers.
	OfflineModel bool
}

const (
	// gcPercent is how far the heap may grow between garbage collections. Go's own 100 takes a sixth more memory at 1000
	// streams and saves hardly any CPU time; GOMEMLIMIT still bounds it.
	gcPercent = 50
	// foldsPerUser is how many chats of one user are folded at once, on all processes together: enough for who talks in
	// several, and a third of a process's places for an import of thousands. Imports leave one of them to the chats that
	// somebody talks in.
	foldsPerUser = 3
	// drainTimeout is how long running replies may go on after SIGTERM before they are stored as interrupted: most replies
	// end within it, and with the rest of a stop it fits into the 30 s that Kubernetes and others give by default.
	drainTimeout = 15 * time.Second
	// expiredDays is how many days an expired chat is kept: whoever comes back late finds it.
	expiredDays = 30
)

// New assembles an App. It opens the API's listener but does not connect to Postgres: it fails when the
// address is taken or a value is wrong. Only tests and dev pass doubles, and at most one.
func New(ctx context.Context, cfg config.Config, role Role, logger *slog.Logger, doubles ...Doubles) (*App, error) {
	a := &App{config: cfg, role: role, logger: logger, metrics: metrics.New()}
	debug.SetGCPercent(gcPercent)
	go text.Tokens("reads the token table, which no reply then waits for")
	a.metrics.ReportBuild(Version, revision, runtime.Version(), cfg.Cell.Name)
	for _, d := range doubles {
		a.doubles = d
	}
	if err := a.assemble(ctx); err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

// Close releases what New opened. Run calls it at its end; only an App that is never run needs it.
func (a *App) Close() {
	for _, closer := range slices.Backward(a.closers) {
		closer()
	}
}

// Addr is where the API listens or, without an API, where the metrics are served; "" for nowhere.
func (a *App) Addr() string {
	if a.listener == nil {
		return ""
	}
	return a.listener.Addr().String()
}

func (a *App) assemble(ctx context.Context) error {
	if err := a.openPools(ctx); err != nil {
		return err
	}
	a.model = llm.New(llm.Settings{
		APIKey: a.config.OpenAIAPIKey, BaseURL: a.config.OpenAIBaseURL, IdleTimeout: a.config.ModelIdleTimeout,
		Meter: &postgres.Usage{Pool: a.workPool, Logger: a.logger}, Logger: a.logger,
	})
	a.closers = append(a.closers, a.model.Close)
	a.makeEmbedder()
	a.reportBacklog()
	inserter, err := jobs.NewInserter(a.pool, a.logger)
	if err != nil {
		return err
	}
	if a.role.Workers {
		if err := a.makeWorker(); err != nil {
			return err
		}
	}
	if a.role.API {
		return a.makeServer(ctx, inserter)
	}
	return a.serveMetrics(ctx)
}

func (a *App) makeEmbedder() {
	if !a.config.Recall && !a.config.LongTerm.On || a.config.EmbeddingModel == "" {
		return
	}
	a.embedder = llm.NewEmbedder(llm.Settings{
		APIKey: a.config.OpenAIAPIKey, BaseURL: cmp.Or(a.config.EmbeddingBaseURL, a.config.OpenAIBaseURL),
		Metrics: a.metrics, Meter: &postgres.Usage{Pool: a.workPool, Logger: a.logger},
	}, a.config.EmbeddingModel)
	a.closers = append(a.closers, a.embedder.Close)
}

func (a *App) openPools(ctx context.Context) error {
	conns := apiConns
	shared := a.config.DatabaseURL == a.config.DatabaseDirectURL
	if shared {
		conns += a.config.WorkerConcurrency + riverConns
	}
	open := postgres.Open
	if a.role.API {
		open = postgres.OpenForTurns
	}
	var err error
	if a.pool, a.pollOnly, err = open(ctx, a.config.DatabaseURL, conns); err != nil {
		return fmt.Errorf("DATABASE_URL: %w", err)
	}
	a.closers = append(a.closers, a.pool.Close)
	a.workPool = a.pool
	if !a.role.Workers {
		return nil
	}
	if shared {
		return mayWork(a.pool.Config().ConnConfig.User)
	}
	if a.workPool, a.pollOnly, err = postgres.Open(ctx, a.config.DatabaseDirectURL, a.config.WorkerConcurrency+riverConns); err != nil {
		return fmt.Errorf("DATABASE_DIRECT_URL: %w", err)
	}
	a.closers = append(a.closers, a.workPool.Close)
	return mayWork(a.workPool.Config().ConnConfig.User)
}

func (a *App) makeWorker() error {
	inserter, err := jobs.NewInserter(a.workPool, a.logger)
	if err != nil {
		return err
	}
	insert := jobs.Insert(inserter)
	var folder jobs.Folder = brief.New(brief.Config{
		Store: &postgres.Briefs{Pool: a.workPool, Insert: insert}, Leases: &postgres.Work{Pool: a.workPool}, Summarizer: a.model, Prompt: a.config.Summary,
		Limits: a.config.Memory, FoldsPerUser: foldsPerUser, Logger: a.logger, Metrics: a.metrics,
	})
	if a.doubles.Folder != nil {
		folder = a.doubles.Folder(folder)
	}
	turns, remembered := a.makeVectors()
	maintenance := postgres.NewMaintenance(a.workPool, a.config.Memory)
	config := jobs.WorkerConfig{
		Folder: folder, Embedder: turns, MemoryEmbedder: remembered,
		Store:       jobStore{maintenance, &postgres.Work{Pool: a.workPool}, &postgres.TurnIndex{Pool: a.workPool}},
		ExpiredDays: expiredDays, PruneDays: a.config.AutoPruneDays,
		Metrics: a.metrics, Logger: a.logger, Concurrency: a.config.WorkerConcurrency,
		PollOnly: a.pollOnly, StopTimeout: a.drain(),
	}
	a.keepMemories(&config, maintenance, insert)
	a.keepTopics(&config, maintenance, insert)
	a.keepTitles(&config)
	a.worker, err = jobs.NewWorker(a.workPool, config)
	return err
}

// jobStore is what jobs need of Postgres.
type jobStore struct {
	*postgres.Maintenance
	*postgres.Work
	*postgres.TurnIndex
}

// makeVectors returns what gives turns and memories their vectors; nil for what needs none.
func (a *App) makeVectors() (turns, remembered *recall.Vectors) {
	if a.embedder == nil {
		return nil, nil
	}
	store, rest := &postgres.Embeddings{Pool: a.workPool}, recall.NewRest(0, 0, a.logger)
	scales := []*recall.Scales{recall.NewScales(store, a.embedder)}
	if a.config.LongTerm.On {
		remembered = &recall.Vectors{
			Things: "memories", Store: &postgres.MemoryVectors{Pool: a.workPool}, Embedder: a.embedder, Scales: scales, Logger: a.logger, Rest: rest,
		}
	}
	if a.toldApart() { // turns are compared with each other
		scales = append(scales, recall.NewTurnScales(store, a.embedder))
	}
	if a.config.Recall {
		turns = &recall.Vectors{
			Things: "turns", Store: &postgres.TurnVectors{Pool: a.workPool}, Embedder: a.embedder, Scales: scales, Logger: a.logger, Rest: rest,
			Count: func(turns int) { a.metrics.EmbeddedTurns.Add(float64(turns)) },
		}
	}
	return turns, remembered
}

func (a *App) makeServer(ctx context.Context, inserter *jobs.Client) error {
	logins, err := a.logins()
	if err != nil {
		return err
	}
	verifier, err := a.verifier(ctx, logins)
	if err != nil {
		return err
	}
	a.keys = verifier.Ready
	insert := postgres.Insert(jobs.Insert(inserter))
	enqueue := postgres.Enqueue{
		Fold:  insert.OfChat(work.FoldBrief, work.Now),
		Index: insert.OfChat(work.IndexTurns, work.Repair),
	}
	if a.config.Recall {
		enqueue.Topics = a.config.Topics.Mode
	}
	enqueueImported := enqueue
	enqueueImported.Fold = insert.OfChat(work.FoldBrief, work.Later) // no user is talking there yet
	if a.config.ChatTitles > 0 {
		enqueue.Title = insert.Title(a.config.ChatTitles)
	}
	a.readForMemories(&enqueue, insert)
	extracts := postgres.NewExtracts(a.pool, enqueue)
	var turns chat.Store = postgres.NewTurns(a.pool, a.config.Memory, enqueue)
	if a.doubles.Turns != nil {
		turns = a.doubles.Turns(turns)
	}
	stored := postgres.NewHistory(a.pool, a.config.Memory, enqueue)
	questions := a.makeQuestions()
	found := a.makeFinder(stored, questions)
	runner := toolcall.New(toolcall.Settings{Logger: a.logger, Metrics: a.metrics})
	a.closers = append(a.closers, runner.Close)
	a.chat = chat.New(chat.Config{
		Store: turns, Model: a.makeModels(), Tools: a.config.Tools, Runner: runner, SavePatience: a.doubles.SavePatience, Begun: extracts.EnqueueSoon,
		Retrievers: retrievers(a.makeRememberer(questions), found), RetrieveTimeout: a.config.RecallDeadline,
		Logger: a.logger, Metrics: a.metrics, Variants: a.config.Variants, Instructions: a.config.MainInstructions,
		Limits: a.config.Memory, ChatDefaults: a.config.ChatDefaults, ReplyTimeout: a.config.ModelTimeout,
	})
	a.closers = append(a.closers, a.abandonReplies)
	if a.notices, err = postgres.NewListener(a.config.DatabaseDirectURL, audience{a.chat, extracts}, a.logger); err != nil {
		return fmt.Errorf("DATABASE_DIRECT_URL: %w", err)
	}
	ui, err := a.riverUI(ctx, inserter)
	if err != nil {
		return err
	}
	remembering := postgres.UserMemoriesOptions{Off: !a.config.LongTerm.On}
	if a.embedder != nil {
		remembering.Embed = insert.Embed
	}
	transfers := transfer.New(transfer.Config{
		Store: postgres.NewTransfer(a.pool, a.config.Memory, enqueueImported, remembering), Logger: a.logger, ChatDefaults: a.config.ChatDefaults,
	})
	memories, graph := listsByMeaning{&postgres.UserMemories{Pool: a.pool, Options: remembering}, questions}, &postgres.Graph{Pool: a.pool}
	topics := a.makeUserTopics(insert)
	tools := mcptools.New(mcptools.Config{
		Chat: a.chat, History: stored, Memories: memories, Graph: graph, Recall: found, Logger: a.logger, Version: Version,
	})
	store := &postgres.Accounts{Pool: a.pool}
	api := httpapi.New(httpapi.Config{
		Chat: a.chat, History: stored, Memories: memories, Extracts: extracts, Recall: found, Graph: graph, Tools: tools, Transfer: transfers, Auth: verifier,
		Accounts: accounts{store, logins},
		Topics:   topics, Rewriter: a.makeStandalone(topics),
		Logger: a.logger, Metrics: a.metrics, Ready: a.ready, Isolated: a.isolated, Admit: store.Admit, Cell: a.config.Cell.Name,
		Version: Version, ChatDefaults: a.config.ChatDefaults,
		MessagesPerMinute: a.config.MessagesPerMinute, MaxStreamsPerUser: a.config.MaxStreamsPerUser,
		CORSOrigins: a.config.CORSOrigins, RiverUI: ui,
		Page: webui.New(webui.Settings{
			Version: Version, SupabaseURL: a.config.SupabaseURL, SupabaseKey: a.config.SupabaseAnonKey, Models: variantNames(a.config.Variants),
			Offline: a.doubles.OfflineModel,
		}),
		AuthServer: verifier.Issuer(), PublicURL: a.config.PublicURL, OAuthAPIClients: a.config.OAuthAPIClients,
	})
	a.server = api.HTTPServer()
	if err := a.listen(ctx, a.config.HTTPAddr); err != nil {
		return fmt.Errorf("HTTP_ADDR: %w", err)
	}
	return nil
}

// makeModels returns the models that reply.
func (a *App) makeModels() *llm.Models {
	variants := make(map[string]llm.Variant, len(a.config.Servers))
	for name, server := range a.config.Servers {
		variants[name] = llm.Variant(server)
	}
	models := llm.NewModels(a.model, variants)
	a.closers = append(a.closers, models.Close)
	return models
}

// audience is told what other servers did.
type audience struct {
	*chat.Service
	*postgres.Extracts
}

func (a *App) listen(ctx context.Context, address string) (err error) {
	a.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("another program has %s: stop it, or choose another address", address)
	}
	if err != nil {
		return err
	}
	a.closers = append(a.closers, func() { _ = a.listener.Close() }) // a stopped server has closed it already
	return nil
}

// abandonReplies closes chat without a drain. After Run there is nothing left to close.
func (a *App) abandonReplies() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	a.chat.Close(ctx)
}

func (a *App) verifier(ctx context.Context, logins *supabase.Client) (*auth.Verifier, error) {
	settings := auth.Settings{
		ProjectURL: a.config.SupabaseURL, JWTSecret: []byte(a.config.SupabaseJWTSecret), Issuers: a.config.AuthIssuers, Cell: a.config.Cell,
		Logger: a.logger,
	}
	if logins != nil && a.config.SupabaseJWTSecret == "" {
		settings.LookupUser = logins.GetUser
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a.closers = append(a.closers, cancel)
	verifier, err := auth.New(ctx, settings)
	if err != nil {
		return nil, fmt.Errorf("SUPABASE_URL: %w", err)
	}
	return verifier, nil
}

// Judge tells what the configured models are worth on labelled cases; see package judge. It needs no database.
func Judge(ctx context.Context, cfg config.Config, cases []judge.Case) (*judge.Report, error) {
	model := llm.New(llm.Settings{APIKey: cfg.OpenAIAPIKey, BaseURL: cfg.OpenAIBaseURL, IdleTimeout: cfg.ModelIdleTimeout})
	defer model.Close()
	return judge.Judge(ctx, model, judge.Settings{
		Prompt: cfg.Summary, Limits: cfg.Memory, Extract: cfg.Instructions["extract"], Consolidate: cfg.Instructions["consolidate"],
	}, cases)
}

func variantNames(variants []chat.Variant) (names []string) {
	for _, variant := range variants {
		names = append(names, variant.Name)
	}
	return names
}
