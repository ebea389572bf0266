package kit_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

func TestPercentile(t *testing.T) {
	t.Parallel()
	took := kit.Times{5 * time.Millisecond, time.Millisecond, 3 * time.Millisecond, 2 * time.Millisecond, 4 * time.Millisecond}
	for q, want := range map[float64]float64{0: 1, .5: 3, .99: 5, 1: 5} {
		assert.Equalf(t, want, took.MS(q), "%v", q)
	}
	got := (kit.Times{}).MS(.5)
	assert.Truef(t, math.IsNaN(got), "of nothing: %v", got)
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for value, want := range map[float64]string{
		0: "0", 3: "3", 7: "7", 123456: "123460", 12345: "12345", 1234: "1234", 1234.5: "1234", 123.4: "123", 12.34: "12.3", 1.234: "1.23",
		0.1234: "0.12", 0.123: "0.12", 0.01234: "0.012", 0.0123: "0.012", -12.34: "-12.3", math.Inf(1): "-", math.NaN(): "-",
	} {
		assert.Equalf(t, want, kit.Number(value), "%v", value)
	}
}
