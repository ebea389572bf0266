package offline

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// The JSON types of values, as error messages name them.
const (
	aBool    = "a boolean"
	aText    = "a string"
	anInt    = "an integer"
	aDecimal = "a decimal"
	anArray  = "an array"
	anObject = "an object"
)

// rule is what a value may be. Values are as encoding/json decodes them, numbers as json.Number.
type rule struct {
	types []string // any of them
	// low and high bound numbers, the characters of texts, the items of arrays and the pairs of
	// objects; when both are 0, nothing is bounded.
	low, high float64
	// empty is the code of the error for an empty array; "" allows it.
	empty string
	oneOf []string        // of a text
	each  *rule           // the items of an array, or the values of an object with free names
	named map[string]rule // the fields of an object; nil accepts any
	// required are the fields that may not be left out. null counts as left out.
	required []string
	// choose, if set, returns the rule to apply: it depends on the value.
	choose func(value any) rule
}

func isA(types ...string) rule     { return rule{types: types} }
func isText(limit float64) rule    { return rule{types: []string{aText}, high: limit} }
func isOneOf(texts ...string) rule { return rule{types: []string{aText}, oneOf: texts} }
func isInt(low, high float64) rule { return rule{types: []string{anInt}, low: low, high: high} }
func isDecimal(low, high float64) rule {
	return rule{types: []string{aDecimal, anInt}, low: low, high: high}
}
func hasFields(all map[string]rule) rule { return rule{types: []string{anObject}, named: all} }

// longestName bounds the free names in an object, in characters.
const longestName = 64

// check refuses a wrong value of the parameter at path.
func (r rule) check(path string, value any) *apiError {
	if r.choose != nil {
		r = r.choose(value)
	}
	kind := typeName(value)
	if !slices.Contains(r.types, kind) {
		return bad("invalid_type", path, "Invalid type for '%s': expected %s, but got %s instead.", path, strings.Join(r.types, " or "), kind)
	}
	switch v := value.(type) {
	case json.Number:
		n, _ := v.Float64() // one that is too large is infinite
		return r.checkBounds(path, strings.TrimPrefix(strings.TrimPrefix(kind, "an "), "a "), "value", n)
	case string:
		return r.checkText(path, v)
	case []any:
		return r.checkArray(path, v)
	case map[string]any:
		return r.checkObject(path, v)
	}
	return nil
}

func typeName(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case bool:
		return aBool
	case string:
		return aText
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return aDecimal
		}
		return anInt
	case []any:
		return anArray
	}
	return anObject
}

func (r rule) checkBounds(path, kind, what string, n float64) *apiError {
	switch {
	case r.low == 0 && r.high == 0:
		return nil
	case n < r.low:
		return bad(kind+"_below_min_"+what, path, "Invalid '%s': %s below minimum %s. Expected at least %v, but got %v instead.", path, kind, what, r.low, n)
	case n > r.high:
		return bad(kind+"_above_max_"+what, path, "Invalid '%s': %s above maximum %s. Expected at most %v, but got %v instead.", path, kind, what, r.high, n)
	}
	return nil
}

func (r rule) checkText(path, text string) *apiError {
	if r.oneOf != nil && !slices.Contains(r.oneOf, text) {
		return bad("invalid_value", path, "Invalid value: '%s'. Supported values are: '%s'.", text, strings.Join(r.oneOf, "', '"))
	}
	return r.checkBounds(path, "string", "length", float64(utf8.RuneCountInString(text)))
}

func (r rule) checkArray(path string, items []any) *apiError {
	if len(items) == 0 && r.empty != "" {
		return bad(r.empty, path, "Invalid '%s': empty array.", path)
	}
	if err := r.checkBounds(path, "array", "length", float64(len(items))); err != nil || r.each == nil {
		return err
	}
	for n, item := range items {
		if err := r.each.check(fmt.Sprintf("%s[%d]", path, n), item); err != nil {
			return err
		}
	}
	return nil
}

// checkObject checks the fields in the order of their names, so that the answer to several mistakes is always the same.
func (r rule) checkObject(path string, object map[string]any) *apiError {
	if err := r.checkBounds(path, "object", "properties", float64(len(object))); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if err := r.checkField(path, name, object[name]); err != nil {
			return err
		}
	}
	for _, name := range r.required {
		if object[name] == nil {
			return missing(within(path, name))
		}
	}
	return nil
}

func (r rule) checkField(path, name string, value any) *apiError {
	if r.each != nil {
		if err := isText(longestName).check(path, name); err != nil {
			return err
		}
		return r.each.check(within(path, name), value)
	}
	field, known := r.named[name]
	switch {
	case r.named == nil:
		return nil
	case !known:
		return bad("unknown_parameter", within(path, name), "Unknown parameter: '%s'.", within(path, name))
	case value == nil:
		return nil
	}
	return field.check(within(path, name), value)
}

// within returns the path of a field of the object at path, which is "" for the body itself.
func within(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
