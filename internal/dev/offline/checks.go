package offline

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// check refuses a wrong value of the parameter at path. Values are as encoding/json decodes them,
// numbers as json.Number.
type check func(path string, value any) *apiError

func wrongType(path, want string, value any) *apiError {
	return bad("invalid_type", path, "Invalid type for '%s': expected %s, but got %s instead.", path, want, typeName(value))
}

func typeName(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return "a decimal number"
		}
		return "an integer"
	case []any:
		return "an array"
	}
	return "an object"
}

var (
	isBool   = isA[bool]("a boolean")
	isString = isA[string]("a string")
	isArray  = isA[[]any]("an array")
)

func isA[T any](want string) check {
	return func(path string, value any) *apiError {
		if _, ok := value.(T); !ok {
			return wrongType(path, want, value)
		}
		return nil
	}
}

// isText is a string of at most limit characters.
func isText(limit int) check {
	return func(path string, value any) *apiError {
		text, ok := value.(string)
		if !ok {
			return wrongType(path, "a string", value)
		}
		if n := utf8.RuneCountInString(text); n > limit {
			return bad("string_above_max_length", path, "Invalid '%s': string too long. Expected a string with maximum length %d, but got a string with length %d instead.", path, limit, n)
		}
		return nil
	}
}

func isOneOf(names ...string) check {
	return func(path string, value any) *apiError {
		text, ok := value.(string)
		if !ok {
			return wrongType(path, "a string", value)
		}
		if !slices.Contains(names, text) {
			return bad("invalid_value", path, "Invalid value: '%s'. Supported values are: '%s'.", text, strings.Join(names, "', '"))
		}
		return nil
	}
}

func isInteger(low, high int64) check {
	return isInRange("integer", "an integer", json.Number.Int64, low, high)
}

func isNumber(low, high float64) check {
	return isInRange("decimal", "a decimal", json.Number.Float64, low, high)
}

func isInRange[N int64 | float64](kind, want string, parse func(json.Number) (N, error), low, high N) check {
	return func(path string, value any) *apiError {
		number, ok := value.(json.Number)
		if !ok {
			return wrongType(path, want, value)
		}
		n, err := parse(number)
		switch {
		case err != nil:
			return wrongType(path, want, value)
		case n < low:
			return bad(kind+"_below_min_value", path, "Invalid '%s': %s below minimum value. Expected a value >= %v, but got %v instead.", path, kind, low, n)
		case n > high:
			return bad(kind+"_above_max_value", path, "Invalid '%s': %s above maximum value. Expected a value <= %v, but got %v instead.", path, kind, high, n)
		}
		return nil
	}
}

// isObject is an object with these fields and no others; nil fields accept any object.
func isObject(fields map[string]check) check {
	return func(path string, value any) *apiError {
		object, ok := value.(map[string]any)
		if !ok {
			return wrongType(path, "an object", value)
		}
		if fields == nil {
			return nil
		}
		return checkFields(path+".", object, fields)
	}
}

// checkFields checks an object's fields in the order of their names, so that an answer to several
// mistakes is always the same. null counts as left out.
func checkFields(prefix string, object map[string]any, fields map[string]check) *apiError {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		path := prefix + name
		known, ok := fields[name]
		if !ok {
			return bad("unknown_parameter", path, "Unknown parameter: '%s'.", path)
		}
		if object[name] == nil {
			continue
		}
		if err := known(path, object[name]); err != nil {
			return err
		}
	}
	return nil
}

// isStringOrObject is for parameters with a short and a long form.
func isStringOrObject(path string, value any) *apiError {
	switch value.(type) {
	case string, map[string]any:
		return nil
	}
	return wrongType(path, "one of a string or object", value)
}

// isMetadata is up to 16 pairs of a key (64 characters) and a text (512).
func isMetadata(path string, value any) *apiError {
	pairs, ok := value.(map[string]any)
	if !ok {
		return wrongType(path, "an object", value)
	}
	if len(pairs) > 16 {
		return bad("object_above_max_properties", path, "Invalid '%s': too many properties. Expected an object with at most 16 properties, but got %d instead.", path, len(pairs))
	}
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		if err := isText(64)(path, key); err != nil {
			return err
		}
		if err := isText(512)(path+"."+key, pairs[key]); err != nil {
			return err
		}
	}
	return nil
}
