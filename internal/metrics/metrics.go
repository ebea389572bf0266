// Package metrics declares every Prometheus metric of the server in one place, so that their names and units can
// be compared. It imports nothing of ours; packages that count something receive a *Metrics.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are the instruments of one server. Their help texts in New define them. Durations are in seconds.
type Metrics struct {
	Registry *prometheus.Registry

	Requests        *prometheus.CounterVec   // by method, route and status code
	RequestDuration *prometheus.HistogramVec // by route
	OpenStreams     prometheus.Gauge

	Overhead       prometheus.Histogram     // what the server itself adds to a reply's latency
	FirstDelta     *prometheus.HistogramVec // by model variant
	Replies        *prometheus.CounterVec   // by model variant and final status
	RunningReplies prometheus.Gauge

	// ToolCallDuration is by tool and by how the call ended (done, failed).
	ToolCallDuration *prometheus.HistogramVec

	FollowedReplies prometheus.Gauge
	Listening       prometheus.Gauge // 0 while the connection for notifications is down
	RecordDuration  prometheus.Histogram
	RecordFailures  prometheus.Counter

	Tokens           *prometheus.CounterVec // by purpose (reply, fold, extract, consolidate, entities, topic, rewrite) and direction (input, cached, output)
	DroppedTurns     prometheus.Counter
	TruncatedPrompts *prometheus.CounterVec // by section (brief, kept, recent)
	Retrievals       *prometheus.CounterVec // by section of the prompt and result (found, nothing, late, failed)
	UnreadableBriefs prometheus.Counter

	Folds        *prometheus.CounterVec // by result (done, paused, lost, refused, failed, elsewhere, nothing)
	FoldDuration prometheus.Histogram
	// SummaryDuration is by result (answered, failed); a fold makes one call or more, and one commit.
	SummaryDuration *prometheus.HistogramVec
	CommitDuration  prometheus.Histogram
	GateRefusals    *prometheus.CounterVec // by reason
	PromptFallbacks prometheus.Counter
	// EmbeddingDuration is by result (answered, failed); a call has the vector of a question, or those of many turns.
	EmbeddingDuration *prometheus.HistogramVec
	EmbeddedTurns     prometheus.Counter

	MemoryExtractions        *prometheus.CounterVec // by result (done, empty, skipped, nothing, elsewhere, lost, paused, refused, failed)
	MemoryExtractionDuration prometheus.Histogram
	MemoryFacts              *prometheus.CounterVec   // by outcome (added, updated, superseded, noop, inbox)
	MemoryDropped            *prometheus.CounterVec   // by reason
	MemoryCallDuration       *prometheus.HistogramVec // by purpose (extract, consolidate) and result (answered, failed)

	TopicTurns       *prometheus.CounterVec // by how the topic was chosen (matched, started, digressed, waiting, short, language, default, imported)
	TopicsDecayed    prometheus.Counter
	TopicsMerged     prometheus.Counter
	TopicCompactions *prometheus.CounterVec // by result (done, nothing, elsewhere, lost, paused, refused, failed)

	// Swept counts repairs by the repaired thing: message, delta, job, lease, brief, fold, embedding, memory_embedding,
	// extraction, assignment, compaction.
	Swept *prometheus.CounterVec
}

// New returns instruments in a new registry.
func New() *Metrics {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	auto := promauto.With(registry)
	fast := []float64{.0005, .001, .002, .003, .005, .008, .012, .02, .05, .1, .25, 1, 5}
	slow := []float64{.05, .1, .25, .5, 1, 2, 5, 10, 20, 60, 300}
	return &Metrics{
		Registry: registry,
		Requests: auto.NewCounterVec(counter("http_requests_total", "HTTP requests by method, route "+
			"and status."), []string{"method", "route", "status"}),
		RequestDuration: auto.NewHistogramVec(histogram("http_request_duration_seconds", "Time until the handler returned; for a stream its "+
			"whole length.", slow), []string{"route"}),
		OpenStreams: auto.NewGauge(gauge("open_streams", "Clients being streamed to.")),
		Overhead:    auto.NewHistogram(histogram("upstream_overhead_seconds", "From the arrival of a message to the call of the model.", fast)),
		FirstDelta: auto.NewHistogramVec(histogram("time_to_first_delta_seconds", "From the arrival of a message to the first text of "+
			"its reply.", slow), []string{"model_variant"}),
		Replies:        auto.NewCounterVec(counter("replies_total", "Replies by model variant and final status."), []string{"model_variant", "status"}),
		RunningReplies: auto.NewGauge(gauge("running_replies", "Generations in flight in this process.")),
		ToolCallDuration: auto.NewHistogramVec(histogram("tool_call_duration_seconds", "One call of a tool of the server with its repetitions, by tool "+
			"and how it ended.", slow), []string{"tool", "status"}),
		FollowedReplies: auto.NewGauge(gauge("followed_replies", "Running replies of other servers that are read here.")),
		Listening:       auto.NewGauge(gauge("listening", "1 while notifications of other servers come.")),
		RecordDuration:  auto.NewHistogram(histogram("record_duration_seconds", "One batch of what running replies said, stored.", fast)),
		RecordFailures:  auto.NewCounter(counter("record_failures_total", "Batches of what running replies said that failed and were sent again.")),
		Tokens: auto.NewCounterVec(counter("tokens_total", "Tokens by purpose and direction, as the model "+
			"reported."), []string{"purpose", "direction"}),
		DroppedTurns: auto.NewCounter(counter("dropped_turns_total", "Turns that were neither in the brief nor in the prompt of a reply.")),
		TruncatedPrompts: auto.NewCounterVec(counter("truncated_prompts_total", "Prompts that show a text of a section shortened, by "+
			"section."), []string{"section"}),
		Retrievals: auto.NewCounterVec(counter("retrievals_total", "Lookups for a section of a prompt, by section "+
			"and result."), []string{"section", "result"}),
		UnreadableBriefs: auto.NewCounter(counter("unreadable_briefs_total", "Prompts that did without a brief because the stored one is not in its form.")),
		Folds:            auto.NewCounterVec(counter("folds_total", "Folds by result."), []string{"result"}),
		FoldDuration:     auto.NewHistogram(histogram("fold_duration_seconds", "One fold from plan to commit.", slow)),
		SummaryDuration: auto.NewHistogramVec(histogram("brief_call_duration_seconds", "One call of the summary model, "+
			"by result.", slow), []string{"result"}),
		CommitDuration: auto.NewHistogram(histogram("brief_commit_duration_seconds", "The transaction that writes a brief, its revision and the "+
			"end of its job.", fast)),
		GateRefusals:    auto.NewCounterVec(counter("gate_refusals_total", "Summaries that the gate refused, by reason."), []string{"reason"}),
		PromptFallbacks: auto.NewCounter(counter("brief_prompt_fallbacks_total", "Changes from the hosted summary prompt to the inline one.")),
		EmbeddingDuration: auto.NewHistogramVec(histogram("embedding_call_duration_seconds", "One call of the embedding model, "+
			"by result.", slow), []string{"result"}),
		EmbeddedTurns:            auto.NewCounter(counter("embedded_turns_total", "Turns whose vector was stored.")),
		MemoryExtractions:        auto.NewCounterVec(counter("memory_extractions_total", "Jobs that read turns for memories, by result."), []string{"result"}),
		MemoryExtractionDuration: auto.NewHistogram(histogram("memory_extraction_duration_seconds", "One extraction from claim to commit.", slow)),
		MemoryFacts:              auto.NewCounterVec(counter("memory_facts_total", "Facts that were written, by outcome."), []string{"outcome"}),
		MemoryDropped:            auto.NewCounterVec(counter("memory_dropped_total", "Facts that were proposed and dropped, by reason."), []string{"reason"}),
		MemoryCallDuration: auto.NewHistogramVec(histogram("memory_call_duration_seconds", "One call of the model that extracts memories, by purpose "+
			"and result.", slow), []string{"purpose", "result"}),
		TopicTurns:    auto.NewCounterVec(counter("topic_turns_total", "Turns whose topic was chosen, by how."), []string{"how"}),
		TopicsDecayed: auto.NewCounter(counter("topic_decayed_total", "Topics that faded and were archived.")),
		TopicsMerged:  auto.NewCounter(counter("topic_merged_total", "Topics that an hourly job has merged into others.")),
		TopicCompactions: auto.NewCounterVec(counter("topic_compactions_total", "Jobs that packed the old messages of a topic, "+
			"by result."), []string{"result"}),
		Swept: auto.NewCounterVec(counter("swept_total", "What was repaired after others."), []string{"what"}),
	}
}

// ReportBuild registers which build this is, and in which cell it runs, if in any.
func (m *Metrics) ReportBuild(version, revision, goVersion, cell string) {
	options := gauge("build_info", "1; its labels say which build this is.")
	options.ConstLabels = prometheus.Labels{"version": version, "revision": revision, "go": goVersion}
	if cell != "" {
		options.ConstLabels["cell"] = cell
	}
	promauto.With(m.Registry).NewGauge(options).Set(1)
}

// Backlog is how late the memory work is, as read from Postgres.
type Backlog struct {
	// OldestUnfoldedTurn is for how many seconds the chat has been due that has waited longest for its fold; 0 if none
	// waits.
	OldestUnfoldedTurn float64
	// PutOffChats is the number of chats whose folds were given up for a while.
	PutOffChats int
	// BareTurns is the number of indexed turns without a vector of the current model; nil where no vectors are made.
	BareTurns *int
	// OldestUnextractedTurn is for how many seconds the chat has been due that has waited longest to be read for memories, 0
	// if none waits; nil where no long-term memories are made.
	OldestUnextractedTurn *float64
	// Memories counts long-term memories by status; more than a hundred are estimated.
	Memories map[string]int
	// QueueDepth counts waiting jobs by queue.
	QueueDepth map[string]float64
}

// ReportBacklog registers the metrics of Backlog. read is called at each scrape; if it returns false, the scrape
// has no backlog.
func (m *Metrics) ReportBacklog(read func() (Backlog, bool)) {
	m.Registry.MustRegister(backlogCollector{read})
}

var (
	oldestUnfolded = prometheus.NewDesc("throughline_oldest_unfolded_turn_seconds", "For how long the chat has been due that has waited longest for "+
		"its fold.", nil, nil)
	putOffChats = prometheus.NewDesc("throughline_put_off_chats", "Chats whose folds were given up for a while: their summaries were refused, or the "+
		"model failed.", nil, nil)
	bareTurns = prometheus.NewDesc("throughline_turns_without_vector", "Indexed turns without a vector of the embedding model, which are found by "+
		"their words alone.", nil, nil)
	memories = prometheus.NewDesc("throughline_memories", "Long-term memories by status: active, inbox, superseded, archived; more than a hundred "+
		"are estimated.", []string{"status"}, nil)
	oldestUnread = prometheus.NewDesc("throughline_oldest_unextracted_turn_seconds", "For how long the chat has been due that has waited longest to be "+
		"read for memories.", nil, nil)
	queueDepth = prometheus.NewDesc("throughline_queue_depth", "Jobs that wait, by queue.", []string{"queue"}, nil)
)

type backlogCollector struct {
	read func() (Backlog, bool)
}

func (c backlogCollector) Describe(out chan<- *prometheus.Desc) {
	for _, one := range []*prometheus.Desc{oldestUnfolded, putOffChats, bareTurns, memories, oldestUnread, queueDepth} {
		out <- one
	}
}

func (c backlogCollector) Collect(out chan<- prometheus.Metric) {
	backlog, ok := c.read()
	if !ok {
		return
	}
	out <- prometheus.MustNewConstMetric(oldestUnfolded, prometheus.GaugeValue, backlog.OldestUnfoldedTurn)
	out <- prometheus.MustNewConstMetric(putOffChats, prometheus.GaugeValue, float64(backlog.PutOffChats))
	if backlog.BareTurns != nil {
		out <- prometheus.MustNewConstMetric(bareTurns, prometheus.GaugeValue, float64(*backlog.BareTurns))
	}
	if backlog.OldestUnextractedTurn != nil {
		out <- prometheus.MustNewConstMetric(oldestUnread, prometheus.GaugeValue, *backlog.OldestUnextractedTurn)
	}
	for status, count := range backlog.Memories {
		out <- prometheus.MustNewConstMetric(memories, prometheus.GaugeValue, float64(count), status)
	}
	for queue, depth := range backlog.QueueDepth {
		out <- prometheus.MustNewConstMetric(queueDepth, prometheus.GaugeValue, depth, queue)
	}
}

func counter(name, help string) prometheus.CounterOpts {
	return prometheus.CounterOpts{Namespace: "throughline", Name: name, Help: help}
}

func gauge(name, help string) prometheus.GaugeOpts {
	return prometheus.GaugeOpts{Namespace: "throughline", Name: name, Help: help}
}

func histogram(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{Namespace: "throughline", Name: name, Help: help, Buckets: buckets}
}

// CountTokens counts the tokens of a call of a model, as the model reported them.
func (m *Metrics) CountTokens(purpose string, input, cached, output int) {
	count := m.Tokens.WithLabelValues
	count(purpose, "input").Add(float64(input))
	count(purpose, "cached").Add(float64(cached))
	count(purpose, "output").Add(float64(output))
}
