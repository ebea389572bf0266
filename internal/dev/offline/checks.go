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

func isBool(path string, value any) *apiError {
	if _, ok := value.(bool); !ok {
		return wrongType(path, "a boolean", value)
	}
	return nil
}

func isString(path string, value any) *apiError {
	if _, ok := value.(string); !ok {
		return wrongType(path, "a string", value)
	}
	return nil
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
	return func(path string, value any) *apiError {
		number, ok := value.(json.Number)
		if !ok {
			return wrongType(path, "an integer", value)
		}
		n, err := number.Int64()
		switch {
		case err != nil:
			return wrongType(path, "an integer", value)
		case n < low:
			return bad("integer_below_min_value", path, "Invalid '%s': integer below minimum value. Expected a value >= %d, but got %d instead.", path, low, n)
		case n > high:
			return bad("integer_above_max_value", path, "Invalid '%s': integer above maximum value. Expected a value <= %d, but got %d instead.", path, high, n)
		}
		return nil
	}
}

func isNumber(low, high float64) check {
	return func(path string, value any) *apiError {
		number, ok := value.(json.Number)
		if !ok {
			return wrongType(path, "a decimal", value)
		}
		n, err := number.Float64()
		switch {
		case err != nil:
			return wrongType(path, "a decimal", value)
		case n < low:
			return bad("decimal_below_min_value", path, "Invalid '%s': decimal below minimum value. Expected a value >= %g, but got %g instead.", path, low, n)
		case n > high:
			return bad("decimal_above_max_value", path, "Invalid '%s': decimal above maximum value. Expected a value <= %g, but got %g instead.", path, high, n)
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

func isArray(path string, value any) *apiError {
	if _, ok := value.([]any); !ok {
		return wrongType(path, "an array", value)
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
