// Package metrics declares every Prometheus metric of the server in one place, so that their names
// and units can be read together. It imports nothing of ours; whoever has something to count is given
// a *Metrics.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are the instruments of one server. All durations are in seconds.
type Metrics struct {
	Registry *prometheus.Registry

	// Requests by method, route and status code.
	Requests *prometheus.CounterVec
	// RequestDuration until the handler returned, by route; for a stream, its whole length.
	RequestDuration *prometheus.HistogramVec
	// OpenStreams are clients being streamed to at this moment.
	OpenStreams prometheus.Gauge

	// Overhead is from the arrival of a message to the call of the model: what the server itself costs.
	Overhead prometheus.Histogram
	// FirstDelta is from the arrival of a message to the first text of its reply, by model variant.
	FirstDelta *prometheus.HistogramVec
	// Replies by model variant and the status they ended with.
	Replies *prometheus.CounterVec
	// RunningReplies are generations in flight in this process.
	RunningReplies prometheus.Gauge

	// FollowedReplies are running replies of other servers that are read here.
	FollowedReplies prometheus.Gauge
	// Listening is 1 while notifications of other servers come, 0 while they are looked for.
	Listening prometheus.Gauge
	// RecordDuration is one batch of what running replies said, from this process to Postgres.
	RecordDuration prometheus.Histogram
	// RecordFailures counts batches that failed, and were sent again.
	RecordFailures prometheus.Counter

	// Tokens by purpose (reply, fold) and direction (input, cached, output), as the model reported.
	Tokens *prometheus.CounterVec
	// DroppedTurns counts turns that were neither in the brief nor in the prompt, per reply.
	DroppedTurns prometheus.Counter
	// TruncatedPrompts counts prompts whose brief or tail had to be cut.
	TruncatedPrompts prometheus.Counter
	// Retrievals counts lookups for a prompt's section by section and result (found, nothing, late, failed).
	Retrievals *prometheus.CounterVec
	// UnreadableBriefs counts prompts that had to do without a stored brief.
	UnreadableBriefs prometheus.Counter

	// Folds by kind (fold, rebuild) and result (done, lost, refused, failed, nothing).
	Folds *prometheus.CounterVec
	// FoldDuration is one fold from plan to commit, by kind.
	FoldDuration *prometheus.HistogramVec
	// GateRefusals counts summaries that the gate refused, by reason.
	GateRefusals *prometheus.CounterVec
	// PromptFallbacks counts changes from the hosted summary prompt to the inline one.
	PromptFallbacks prometheus.Counter
	// Swept counts what was repaired after others, by what (message, delta, job, lease, fold, rebuild).
	Swept *prometheus.CounterVec
}

// New makes the instruments in a registry of their own.
func New() *Metrics {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	auto := promauto.With(registry)
	fast := []float64{.0005, .001, .002, .003, .005, .008, .012, .02, .05, .1, .25, 1, 5}
	slow := []float64{.05, .1, .25, .5, 1, 2, 5, 10, 20, 60, 300}
	return &Metrics{
		Registry:         registry,
		Requests:         auto.NewCounterVec(counter("http_requests_total", "HTTP requests by method, route and status."), []string{"method", "route", "status"}),
		RequestDuration:  auto.NewHistogramVec(histogram("http_request_duration_seconds", "Time until the handler returned; for a stream its whole length.", slow), []string{"route"}),
		OpenStreams:      auto.NewGauge(gauge("open_streams", "Clients being streamed to.")),
		Overhead:         auto.NewHistogram(histogram("upstream_overhead_seconds", "From the arrival of a message to the call of the model.", fast)),
		FirstDelta:       auto.NewHistogramVec(histogram("time_to_first_delta_seconds", "From the arrival of a message to the first text of its reply.", slow), []string{"model_variant"}),
		Replies:          auto.NewCounterVec(counter("replies_total", "Replies by model variant and final status."), []string{"model_variant", "status"}),
		RunningReplies:   auto.NewGauge(gauge("running_replies", "Generations in flight in this process.")),
		FollowedReplies:  auto.NewGauge(gauge("followed_replies", "Running replies of other servers that are read here.")),
		Listening:        auto.NewGauge(gauge("listening", "1 while notifications of other servers come.")),
		RecordDuration:   auto.NewHistogram(histogram("record_duration_seconds", "One batch of what running replies said, stored.", fast)),
		RecordFailures:   auto.NewCounter(counter("record_failures_total", "Batches of what running replies said that failed and were sent again.")),
		Tokens:           auto.NewCounterVec(counter("tokens_total", "Tokens by purpose and direction, as the model reported."), []string{"purpose", "direction"}),
		DroppedTurns:     auto.NewCounter(counter("dropped_turns_total", "Turns that were neither in the brief nor in the prompt of a reply.")),
		TruncatedPrompts: auto.NewCounter(counter("truncated_prompts_total", "Prompts whose brief or tail had to be cut.")),
		Retrievals:       auto.NewCounterVec(counter("retrievals_total", "Lookups for a section of a prompt, by section and result."), []string{"section", "result"}),
		UnreadableBriefs: auto.NewCounter(counter("unreadable_briefs_total", "Prompts that did without a brief because the stored one is not in its form.")),
		Folds:            auto.NewCounterVec(counter("folds_total", "Folds by kind and result."), []string{"kind", "result"}),
		FoldDuration:     auto.NewHistogramVec(histogram("fold_duration_seconds", "One fold from plan to commit.", slow), []string{"kind"}),
		GateRefusals:     auto.NewCounterVec(counter("gate_refusals_total", "Summaries that the gate refused, by reason."), []string{"reason"}),
		PromptFallbacks:  auto.NewCounter(counter("summary_prompt_fallbacks_total", "Changes from the hosted summary prompt to the inline one.")),
		Swept:            auto.NewCounterVec(counter("swept_total", "What was repaired after others."), []string{"what"}),
	}
}

// Backlog is how late the memory work is, read from Postgres when somebody scrapes.
type Backlog struct {
	// OldestUnfoldedTurn is the age in seconds of the oldest turn of a chat that is due to be folded;
	// 0 when none is due.
	OldestUnfoldedTurn float64
	// QueueDepth counts jobs that wait, by queue.
	QueueDepth map[string]float64
}

// ReportBacklog registers the metrics of Backlog. read is called at each scrape; when it reports
// false the metrics are left out of that scrape.
func (m *Metrics) ReportBacklog(read func() (Backlog, bool)) {
	m.Registry.MustRegister(backlogCollector{read})
}

var (
	oldestUnfolded = prometheus.NewDesc("throughline_oldest_unfolded_turn_seconds", "Age of the oldest turn of a chat that is due to be folded.", nil, nil)
	queueDepth     = prometheus.NewDesc("throughline_queue_depth", "Jobs that wait, by queue.", []string{"queue"}, nil)
)

type backlogCollector struct {
	read func() (Backlog, bool)
}

func (c backlogCollector) Describe(out chan<- *prometheus.Desc) {
	out <- oldestUnfolded
	out <- queueDepth
}

func (c backlogCollector) Collect(out chan<- prometheus.Metric) {
	backlog, ok := c.read()
	if !ok {
		return
	}
	out <- prometheus.MustNewConstMetric(oldestUnfolded, prometheus.GaugeValue, backlog.OldestUnfoldedTurn)
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
