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

// AnyIn reports whether something holds of a decoded JSON value, or of any value or key in it.
func AnyIn(value any, holds func(any) bool) bool {
	in := func(element any) bool { return AnyIn(element, holds) }
	switch value := value.(type) {
	case []any:
		return slices.ContainsFunc(value, in)
	case map[string]any:
		for key, element := range value {
			if holds(key) || in(element) {
				return true
			}
		}
		return false
	}
	return holds(value)
}

// HoldsNUL reports whether a string, or a decoded JSON value anywhere in it, contains U+0000, which Postgres cannot
// store.
func HoldsNUL(value any) bool {
	return AnyIn(value, func(one any) bool {
		text, _ := one.(string)
		return strings.ContainsRune(text, 0)
	})
}

// EncodeJSON is json.Marshal without escapes for HTML.
func EncodeJSON(value any) ([]byte, error) {
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(encoded.Bytes(), []byte("\n")), err
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
	case AnyIn(value, isWildNumber):
		return nil, "holds a number that is out of range"
	}
	stored, err := EncodeJSON(value)
	if err != nil {
		return nil, "must be JSON"
	}
	return stored, ""
}

// maxDigits is how many characters and how great an exponent a number may have. Postgres keeps each digit, and counts those of 0e-9999.
const maxDigits = 1000

// isWildNumber reports whether a number is beyond float64, or has very many digits.
func isWildNumber(value any) bool {
	number, is := value.(json.Number)
	if !is {
		return false
	}
	_, err := number.Float64()
	_, power, _ := strings.Cut(strings.ToLower(number.String()), "e")
	exponent, wild := strconv.Atoi(cmp.Or(power, "0"))
	return err != nil || wild != nil || max(exponent, -exponent, len(number)) > maxDigits
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
