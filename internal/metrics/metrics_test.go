package metrics

import (
	"flag"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "rewrite the golden file")

// used returns a Metrics of which every instrument has been used once, so that all of them are exported.
func used(t *testing.T) *Metrics {
	t.Helper()
	m := New()
	fields := reflect.ValueOf(m).Elem()
	for i := range fields.NumField() {
		switch instrument := fields.Field(i).Interface().(type) {
		case *prometheus.CounterVec:
			instrument.WithLabelValues(placeholders(instrument)...).Inc()
		case *prometheus.HistogramVec:
			instrument.WithLabelValues(placeholders(instrument)...).Observe(1)
		case *prometheus.Registry, prometheus.Counter, prometheus.Histogram:
		default:
			t.Fatalf("%s is a %T, which this test does not know", fields.Type().Field(i).Name, instrument)
		}
	}
	m.ReportBuild("v1.2.3", "0123456789ab", "go1.26", "b")
	bare, unread := 7, 90.5
	m.ReportBacklog(func() (Backlog, bool) {
		return Backlog{OldestUnfoldedTurn: 12.5, PutOffChats: 2, BareTurns: &bare, OldestUnextractedTurn: &unread, Memories: map[string]int{"active": 5},
			QueueDepth: map[string]float64{"memory": 3}}, true
	})
	return m
}

// placeholders returns one value for each label.
func placeholders(collector prometheus.Collector) []string {
	described := make(chan *prometheus.Desc, 1)
	collector.Describe(described)
	_, labels, _ := strings.Cut((<-described).String(), "variableLabels: {")
	labels, _, _ = strings.Cut(labels, "}")
	return strings.Split(labels, ",")
}

// ours returns the metrics of a scrape without those of Go's runtime.
func ours[Family interface{ GetName() string }](families []Family, err error) map[string]Family {
	if err != nil {
		panic(err)
	}
	found := map[string]Family{}
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), "go_") && !strings.HasPrefix(family.GetName(), "process_") {
			found[family.GetName()] = family
		}
	}
	return found
}

// Dashboards and alerts depend on names, types and labels.
func TestNamesAreStable(t *testing.T) {
	t.Parallel()
	var lines []string
	for name, family := range ours(used(t).Registry.Gather()) {
		line := name + " " + strings.ToLower(family.GetType().String())
		for _, label := range family.GetMetric()[0].GetLabel() {
			line += " " + label.GetName()
		}
		lines = append(lines, line)
		if family.GetHelp() == "" || !strings.HasSuffix(family.GetHelp(), ".") {
			t.Errorf("%s: help %q is no sentence", name, family.GetHelp())
		}
	}
	slices.Sort(lines)
	got := strings.Join(lines, "\n") + "\n"
	const golden = "testdata/names.txt"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	assert.Equal(t, "", cmp.Diff(string(want), got))
}

// The usual conventions: one namespace, base units, _total on counters and nowhere else.
func TestNamesFollowTheConventions(t *testing.T) {
	t.Parallel()
	wellFormed := regexp.MustCompile(`^throughline(_[a-z]+)+$`)
	for name, family := range ours(used(t).Registry.Gather()) {
		counts := family.GetType().String() == "COUNTER"
		measures := family.GetType().String() == "HISTOGRAM"
		if !wellFormed.MatchString(name) || strings.HasSuffix(name, "_total") != counts || measures && !strings.HasSuffix(name, "_seconds") {
			t.Errorf("%s is a %s", name, family.GetType())
		}
	}
}

func TestBacklogIsReadAtEachScrape(t *testing.T) {
	t.Parallel()
	m := New()
	now, readable := Backlog{}, true
	m.ReportBacklog(func() (Backlog, bool) { return now, readable })
	const oldest, depth = "throughline_oldest_unfolded_turn_seconds", "throughline_queue_depth"

	found := ours(m.Registry.Gather())
	value := found[oldest].GetMetric()[0].GetGauge().GetValue()
	assert.Truef(t, value == 0 && found[depth] == nil, "nothing waits: %v, %v", value, found[depth])

	now = Backlog{OldestUnfoldedTurn: 90, PutOffChats: 4, QueueDepth: map[string]float64{"memory": 3, "maintenance": 0}}
	found = ours(m.Registry.Gather())
	depths := map[string]float64{}
	for _, metric := range found[depth].GetMetric() {
		depths[metric.GetLabel()[0].GetValue()] = metric.GetGauge().GetValue()
	}
	value = found["throughline_put_off_chats"].GetMetric()[0].GetGauge().GetValue()
	assert.Truef(t, value == 4, "%v chats are put off", value)
	value = found[oldest].GetMetric()[0].GetGauge().GetValue()
	assert.Truef(t, value == 90 && cmp.Equal(depths, now.QueueDepth), "oldest %v, depths %v", value, depths)

	readable = false // without Postgres no number is better than a wrong one
	found = ours(m.Registry.Gather())
	assert.Truef(t, found[oldest] == nil && found[depth] == nil && found["throughline_open_streams"] != nil,
		"scraped %d metrics", len(found))
}

func TestServersDoNotShareInstruments(t *testing.T) {
	t.Parallel()
	one, other := New(), New()
	one.DroppedTurns.Add(3)
	assert.Zero(t, ours(other.Registry.Gather())["throughline_dropped_turns_total"].GetMetric()[0].GetCounter().GetValue(),
		"counted")
}
