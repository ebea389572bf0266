package postgres

import (
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/testkit"
)

func TestStorableJSONIsStored(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, raw := range []string{
		`1e308`, `-1E-1000`, `0e-1000`, "0." + strings.Repeat("0", 900) + "1e-1000", strings.Repeat("9", 300), `"\ud83d \ude00"`, "\"\xff\"",
		strings.Repeat("[", 32) + strings.Repeat("]", 32), `{"a\ud800": [null, true, "\u0001\u2028"]}`,
	} {
		stored, problem := memory.StorableJSON([]byte(raw))
		is(t, problem, "", "%.60s", raw)
		is(t, testkit.Ask[bool](t, b.server, "select $1::text::jsonb is not null", string(stored)), true, "%.60s", raw)
	}
}
