package longterm

import "testing"

// A wrong expression panics when it is first used, which may be long after the start.
func TestExpressionsCompile(t *testing.T) {
	t.Parallel()
	if len(expressions) < 100 {
		t.Errorf("only %d expressions", len(expressions))
	}
	for _, e := range expressions {
		e()
	}
}
