package memory

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
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

// StorableJSON returns a JSON value in a form that Postgres can store, or why there is none. Half a surrogate pair becomes U+FFFD.
func StorableJSON(raw []byte) (stored json.RawMessage, problem string) {
	if JSONDepth(raw) > MaxMetadataDepth {
		return nil, fmt.Sprintf("is nested deeper than %d levels", MaxMetadataDepth)
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, "must be JSON"
	}
	switch _, err := decoder.Token(); {
	case !errors.Is(err, io.EOF):
		return nil, "must be one JSON value"
	case HoldsNUL(value):
		return nil, "must not contain the character U+0000"
	case holdsWildNumber(value):
		return nil, "holds a number that is out of range"
	}
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, "must be JSON"
	}
	return bytes.TrimSpace(encoded.Bytes()), ""
}

// maxDigits is how many characters and how great an exponent a number may have. Postgres keeps each digit, and counts those of 0e-9999.
const maxDigits = 1000

// holdsWildNumber reports whether a number anywhere in a value is beyond float64, or has very many digits.
func holdsWildNumber(value any) bool {
	switch value := value.(type) {
	case json.Number:
		_, err := value.Float64()
		_, power, _ := strings.Cut(strings.ToLower(value.String()), "e")
		exponent, wild := strconv.Atoi(cmp.Or(power, "0"))
		return err != nil || wild != nil || max(exponent, -exponent, len(value)) > maxDigits
	case []any:
		return slices.ContainsFunc(value, holdsWildNumber)
	case map[string]any:
		for _, element := range value {
			if holdsWildNumber(element) {
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
