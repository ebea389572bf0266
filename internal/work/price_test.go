package work

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestPriceOfACall(t *testing.T) {
	t.Parallel()
	price := Price{Input: 1_250_000, Cached: 125_000, Output: 10_000_000}
	for _, c := range []struct {
		price           Price
		in, cached, out int
		want            int64
		inWords         string
	}{
		{price, 0, 0, 0, 0, "nothing"},
		{price, 1000, 0, 0, 1250, "what goes in"},
		{price, 1000, 1000, 0, 125, "from the cache"},
		{price, 1000, 400, 20, 750 + 50 + 200, "all of it"},
		{price, 0, 4, 0, 0, "cached is within what goes in"},
		{price, 1, 0, 0, 1, "rounded down"},
		{price, 4, 4, 0, 1, "half is rounded up"},
		{Price{Input: 290_000}, 50, 0, 0, 15, "14.5, which no float64 is"},
		{Price{Input: 499_999}, 1, 0, 0, 0, "less than half"},
		{Price{}, 1000, 0, 1000, 0, "no price"},
		{Price{MaxPrice * 1_000_000, 0, MaxPrice * 1_000_000}, 100_000_000, 0, 100_000_000, 2_000_000_000_000, "the most"},
	} {
		assert.Equal(t, c.want, c.price.Of(Spent{InputTokens: c.in, CachedTokens: c.cached, OutputTokens: c.out}), c.inWords)
	}
}
