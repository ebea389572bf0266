package postgres

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/memory"
)

// Postgres takes each value as it is stored, and not all of them as they came.
func TestStorableJSONIsStored(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	takes := func(raw string) bool {
		var is bool
		return b.server.QueryRow(t.Context(), "select $1::text::jsonb is not null", raw).Scan(&is) == nil && is
	}
	for raw, asItIs := range map[string]bool{
		`1e308`: true, `-1E-1000`: true, `0e-1000`: true, "0." + strings.Repeat("0", 900) + "1e-1000": true, strings.Repeat("9", 300): true,
		strings.Repeat("[", 32) + strings.Repeat("]", 32): true, `"\ud83d \ude00"`: false, "\"\xff\"": false, `{"a\ud800": [null, true, "\u0001\u2028"]}`: false,
	} {
		assert.Equalf(t, asItIs, takes(raw), "%.60s, as it came", raw)
		stored, problem := memory.StorableJSON([]byte(raw))
		assert.Emptyf(t, problem, "%.60s", raw)
		assert.Truef(t, takes(string(stored)), "%.60s, as it is stored", raw)
	}
	_, problem := memory.StorableJSON([]byte(`"\u0000"`))
	assert.NotEmpty(t, problem)
	assert.False(t, takes(`"\u0000"`), "a value that is refused")
}
