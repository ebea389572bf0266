package memory

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestStorableJSON(t *testing.T) {
	t.Parallel()
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, c := range []struct{ raw, stored, problem string }{
		{` {"b": "<&>", "a": [1.50, 12345678901234567890, null]} `, `{"a":[1.50,12345678901234567890,null],"b":"<&>"}`, ""},
		{`"\ud83d"`, "\"\uFFFD\"", ""},
		{"\"\xff\"", "\"\uFFFD\"", ""},
		{deep(32), deep(32), ""},
		{deep(33), "", "is nested deeper than 32 levels"},
		{`{`, "", "must be JSON"},
		{``, "", "must be JSON"},
		{`1 2`, "", "must be one JSON value"},
		{`{"\u0000": 1}`, "", "must not contain the character U+0000"},
		{`[{"a": "\u0000"}]`, "", "must not contain the character U+0000"},
		{`1.7e308`, `1.7e308`, ""},
		{`[0e-9, -0, 1E+9]`, `[0e-9,-0,1E+9]`, ""},
		{`0e-20000`, "", "holds a number that is out of range"},
		{`1e99999999999999999999`, "", "holds a number that is out of range"},
		{`{"a": [1e309]}`, "", "holds a number that is out of range"},
		{`1e-999999`, "", "holds a number that is out of range"},
		{strings.Repeat("1", 1001), "", "holds a number that is out of range"},
	} {
		stored, problem := StorableJSON([]byte(c.raw))
		assert.Equal(t, c.problem, problem, c.raw)
		if c.problem == "" {
			assert.Equal(t, c.stored, string(stored), c.raw)
		}
	}
}
