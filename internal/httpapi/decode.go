package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/fault"
)

// The decoder is stricter than encoding/json: names are compared exactly, unknown ones are refused
// with their place, and every field of a wrong type is reported, not only the first. Of a name that
// comes twice the last one counts, and null is the same as leaving a field out.

const (
	// maxDepth is how deep the app's metadata may nest.
	maxDepth = 32
	// maxTold is how many unknown fields an answer lists, and maxName how much of each name.
	maxTold = 10
	maxName = 100
	// maxElements is how many members a list or an object of ours may have before it is looked at: far more than any
	// needs, and so few that an answer which names what is wrong with each stays short.
	maxElements = 1000
)

// findings collects what is wrong with a body.
type findings struct {
	unknown []string
	wrong   map[string]any // place -> what is wrong with it
}

// reader takes one field's value; place names it in findings.
type reader func(raw json.RawMessage, place string, found *findings)

// decodeObject reads body, one JSON object, through the readers of its fields.
func decodeObject(body []byte, fields map[string]reader) error {
	values, err := splitObject(body)
	if err != nil {
		return err
	}
	found := &findings{wrong: map[string]any{}}
	found.readFields(values, "", fields)
	return found.err()
}

// splitObject gives the members of a body that is one JSON object in UTF-8.
func splitObject(body []byte) (map[string]json.RawMessage, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, fault.New(fault.BadRequest, "The body is empty; it must be a JSON object.")
	}
	if !utf8.Valid(body) {
		return nil, fault.New(fault.BadRequest, "The body is not valid UTF-8.")
	}
	if elements(body) > maxElements {
		return nil, fault.New(fault.BadRequest, fmt.Sprintf("The body has more than %d fields.", maxElements))
	}
	var values map[string]json.RawMessage
	err := json.Unmarshal(body, &values)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return nil, fault.New(fault.BadRequest, fmt.Sprintf("The body is not one valid JSON value: %s (at byte %d).", syntax, syntax.Offset))
	}
	if err != nil || values == nil {
		return nil, fault.New(fault.BadRequest, "The body must be a JSON object.")
	}
	return values, nil
}

func (f *findings) readFields(values map[string]json.RawMessage, place string, fields map[string]reader) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		read, known := fields[name]
		switch {
		case !known:
			f.unknown = append(f.unknown, place+shorten(name))
		case string(values[name]) != "null":
			read(values[name], place+name, f)
		}
	}
}

func (f *findings) err() error {
	if len(f.unknown) > 0 {
		return &fault.Error{
			Code: fault.BadRequest, Message: fmt.Sprintf("The field %q is not known.", f.unknown[0]),
			Details: map[string]any{"unknown_fields": f.unknown[:min(len(f.unknown), maxTold)]},
		}
	}
	if len(f.wrong) > 0 {
		return invalid(f.wrong)
	}
	return nil
}

// invalid names each wrong field with what is wrong with it.
func invalid(wrong map[string]any) error {
	first := slices.Min(slices.Collect(maps.Keys(wrong)))
	return &fault.Error{Code: fault.ValidationFailed, Message: fmt.Sprintf("The field %s %s.", first, wrong[first]), Details: wrong}
}

func shorten(name string) string {
	if utf8.RuneCountInString(name) <= maxName {
		return name
	}
	return string([]rune(name)[:maxName]) + "…"
}

func text(into *string) reader {
	return func(raw json.RawMessage, place string, found *findings) {
		if json.Unmarshal(raw, into) != nil {
			found.wrong[place] = "must be a string"
		}
	}
}

func optionalText(into **string) reader {
	return func(raw json.RawMessage, place string, found *findings) {
		*into = new(string)
		text(*into)(raw, place, found)
	}
}

// list reads an array of objects, each through the readers that fields gives for it.
func list[T any](into *[]T, fields func(*T) map[string]reader) reader {
	return func(raw json.RawMessage, place string, found *findings) {
		if found.tooMany(raw, place) {
			return
		}
		var all []json.RawMessage
		if json.Unmarshal(raw, &all) != nil {
			found.wrong[place] = "must be an array"
			return
		}
		*into = make([]T, len(all))
		for i, element := range all {
			at := place + "[" + strconv.Itoa(i) + "]"
			if found.tooMany(element, at) {
				return
			}
			var values map[string]json.RawMessage
			if json.Unmarshal(element, &values) != nil || values == nil {
				found.wrong[at] = "must be an object"
				continue
			}
			found.readFields(values, at+".", fields(&(*into)[i]))
		}
	}
}

// tooMany tells, and notes, that a list or an object has more members than anybody looks at.
func (f *findings) tooMany(raw []byte, place string) bool {
	many := elements(raw) > maxElements
	if many {
		f.wrong[place] = fmt.Sprintf("has more than %d entries", maxElements)
	}
	return many
}

// freeObject reads an object that belongs to the app.
func freeObject(into *map[string]any) reader {
	return func(raw json.RawMessage, place string, found *findings) {
		if depth(raw) > maxDepth {
			found.wrong[place] = fmt.Sprintf("is nested deeper than %d levels", maxDepth)
			return
		}
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.UseNumber()
		var value map[string]any
		if decoder.Decode(&value) != nil {
			found.wrong[place] = "must be an object"
			return
		}
		if _, err := exactNumbers(value); err != nil {
			found.wrong[place] = "holds a number that is out of range"
			return
		}
		*into = value
	}
}

// exactNumbers makes int64 of whole numbers, which float64 would round, and float64 of the others.
// It changes containers in place. The error is a number beyond float64, which Postgres may refuse.
func exactNumbers(value any) (any, error) {
	var err error
	switch value := value.(type) {
	case json.Number:
		if whole, err := value.Int64(); err == nil {
			return whole, nil
		}
		return value.Float64()
	case []any:
		for i := range value {
			if value[i], err = exactNumbers(value[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for key := range value {
			if value[key], err = exactNumbers(value[key]); err != nil {
				return nil, err
			}
		}
	}
	return value, nil
}

// depth counts the levels of arrays and objects in a valid JSON value.
func depth(raw []byte) int {
	deepest := 0
	structure(raw, func(_ byte, level int) { deepest = max(deepest, level) })
	return deepest
}

// elements counts the members of the array or object that a JSON value is. It is never fewer than there are, and
// costs no memory whatever the value holds, valid or not.
func elements(raw []byte) int {
	count := 1
	structure(raw, func(c byte, level int) {
		if c == ',' && level == 1 {
			count++
		}
	})
	return count
}

// structure walks over the brackets and commas of a JSON value, and tells of each the level that it opens, closes
// or parts.
func structure(raw []byte, visit func(c byte, level int)) {
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
