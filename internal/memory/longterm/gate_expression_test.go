package longterm

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A wrong expression panics when it is first used, which may be long after the start.
func TestExpressionsCompile(t *testing.T) {
	t.Parallel()
	assert.Truef(t, len(expressions) >= 100, "only %d expressions", len(expressions))
	for _, e := range expressions {
		e()
	}
}
