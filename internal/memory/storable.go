package memory

import (
	"slices"
	"strings"
)

// Limits of a stored chat, in characters (Unicode code points) unless noted. The database has the same.
const (
	MaxTitle        = 500
	MaxSystemPrompt = 32_000
	MaxTags         = 20
	MaxTag          = 64
	MaxToolName     = 64
	MaxTTLHours     = 87_600 // ten years
	MaxTurnLimit    = 100_000
	// MaxMetadataDepth is how many levels of arrays and objects the app's metadata may have.
	MaxMetadataDepth = 32
)

// HoldsNUL reports whether a string, or a decoded JSON value anywhere in it, contains U+0000, which Postgres cannot
// store.
func HoldsNUL(value any) bool {
	switch value := value.(type) {
	case string:
		return strings.ContainsRune(value, 0)
	case []any:
		return slices.ContainsFunc(value, HoldsNUL)
	case map[string]any:
		for key, element := range value {
			if strings.ContainsRune(key, 0) || HoldsNUL(element) {
				return true
			}
		}
	}
	return false
}

// JSONDepth returns how many levels of arrays and objects a JSON value has, valid or not.
func JSONDepth(raw []byte) int {
	deepest := 0
	WalkJSON(raw, func(_ byte, level int) { deepest = max(deepest, level) })
	return deepest
}

// WalkJSON calls visit for each bracket, brace and comma of a JSON value, valid or not, with the level that it opens,
// closes or divides. It allocates nothing, so it can bound a value before that is decoded.
func WalkJSON(raw []byte, visit func(c byte, level int)) {
	level, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			level++
			visit(c, level)
		case c == '}' || c == ']':
			visit(c, level)
			level--
		case c == ',':
			visit(c, level)
		}
	}
}
