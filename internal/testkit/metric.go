package testkit

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Measured returns the value of one counter or gauge, and the number of a histogram's observations. metric is a
// prometheus.Collector; members of a vector of histograms are only declared as less.
func Measured(t testing.TB, metric any) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(metric.(prometheus.Collector))
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || len(families[0].GetMetric()) != 1 {
		t.Fatalf("testkit: %d metrics, %v", len(families), err)
	}
	value := families[0].GetMetric()[0]
	if histogram := value.GetHistogram(); histogram != nil {
		return float64(histogram.GetSampleCount())
	}
	return value.GetCounter().GetValue() + value.GetGauge().GetValue()
}
