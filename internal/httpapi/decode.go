package httpapi

import (
	"bytes"
	"encoding"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
)

// The decoder is stricter than encoding/json: names are compared exactly, unknown ones are refused with their place,
// and every field of a wrong type is reported, not only the first. When a name comes twice, the last one counts.
// Null is the same as leaving a field out, except for a api.Field, which knows the difference, and for a field
// with the tag nullable:"false", which refuses it.

const (
	// maxListed is how many unknown fields an answer lists, and maxName how much of each name.
	maxListed = 10
	maxName   = 100
	// maxElements is how many members a list or an object of ours may have before it is looked at: far more than any
	// needs, and so few that an answer which names the fault of each stays short.
	maxElements = 1000
)

type findings struct {
	unknown []string
	wrong   map[string]any // the field -> its fault
}

// decodeObject reads body, one JSON object, into the fields of a pointer to a struct that have a json tag.
func decodeObject(body []byte, into any) error {
	values, err := splitObject(body)
	if err != nil {
		return err
	}
	found := &findings{wrong: map[string]any{}}
	found.readObject(values, "", reflect.ValueOf(into).Elem())
	return found.err()
}

// splitObject returns the members of a body that is one JSON object in UTF-8.
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

// readObject reads the members of an object whose path is prefix.
func (f *findings) readObject(values map[string]json.RawMessage, prefix string, into reflect.Value) {
	fields := fieldsByTag(into.Type(), "json")
	for _, name := range slices.Sorted(maps.Keys(values)) {
		field, known := fields[name]
		if !known {
			f.unknown = append(f.unknown, prefix+shorten(name))
			continue
		}
		f.readField(values[name], prefix+name, into.FieldByIndex(field.Index), field)
	}
	for name, field := range fields {
		if raw := values[name]; field.Tag.Get("required") == "true" && (raw == nil || isNull(raw)) {
			f.wrong[prefix+name] = "is missing"
		}
	}
}

// fieldsByTag returns a struct's fields, also of embedded structs, by the name that the tag gives them.
func fieldsByTag(of reflect.Type, tag string) map[string]reflect.StructField {
	fields := map[string]reflect.StructField{}
	for _, field := range reflect.VisibleFields(of) {
		if name, _, _ := strings.Cut(field.Tag.Get(tag), ","); name != "" && name != "-" {
			fields[name] = field
		}
	}
	return fields
}

func isNull(raw json.RawMessage) bool { return string(raw) == "null" }

func (f *findings) readField(raw json.RawMessage, name string, into reflect.Value, field reflect.StructField) {
	if optional, ok := reflect.TypeAssert[interface{ Target() any }](into.Addr()); ok {
		into = reflect.ValueOf(optional.Target()).Elem()
	}
	switch {
	case !isNull(raw):
		f.readValue(raw, name, into)
	case field.Tag.Get("nullable") == "false":
		f.wrong[name] = wrongType(into.Type())
	}
}

// readValue reads one value, and notes its fault under its name.
func (f *findings) readValue(raw json.RawMessage, name string, into reflect.Value) {
	target := into.Addr().Interface()
	if verbatim, ok := target.(*json.RawMessage); ok {
		*verbatim = raw
		return
	}
	switch into.Kind() {
	case reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		f.readValue(raw, name, into.Elem())
	case reflect.Map:
		f.readFreeObject(raw, name, target.(*map[string]any)) // requests have no other maps
	case reflect.Slice:
		f.readList(raw, name, into)
	default:
		if json.Unmarshal(raw, target) != nil {
			f.wrong[name] = wrongType(into.Type())
		}
	}
}

// wrongType describes the values of the type.
func wrongType(of reflect.Type) string {
	switch of.Kind() {
	case reflect.Pointer:
		return wrongType(of.Elem())
	case reflect.Bool:
		return "must be true or false"
	case reflect.Int:
		return "must be a whole number"
	case reflect.Float64:
		return "must be a number"
	case reflect.Slice:
		if of.Elem().Kind() == reflect.String {
			return "must be an array of strings"
		}
		return "must be an array"
	}
	return "must be a string"
}

// readList reads an array of strings, of objects of ours or of the app's.
func (f *findings) readList(raw json.RawMessage, name string, into reflect.Value) {
	if f.tooMany(raw, name) {
		return
	}
	var all []json.RawMessage
	ofStrings := into.Type().Elem().Kind() == reflect.String
	if json.Unmarshal(raw, &all) != nil || ofStrings && (slices.ContainsFunc(all, isNull) || json.Unmarshal(raw, into.Addr().Interface()) != nil) {
		f.wrong[name] = wrongType(into.Type())
		return
	}
	if ofStrings {
		return
	}
	into.Set(reflect.MakeSlice(into.Type(), len(all), len(all)))
	for i, element := range all {
		at := name + "[" + strconv.Itoa(i) + "]"
		if into.Index(i).Kind() == reflect.Map {
			f.readFreeObject(element, at, into.Index(i).Addr().Interface().(*map[string]any))
			continue
		}
		if f.tooMany(element, at) {
			return
		}
		var values map[string]json.RawMessage
		if json.Unmarshal(element, &values) != nil || values == nil {
			f.wrong[at] = "must be an object"
			continue
		}
		f.readObject(values, at+".", into.Index(i))
	}
}

// tooMany reports, and notes, that a list or an object has too many members to look at.
func (f *findings) tooMany(raw []byte, name string) bool {
	many := elements(raw) > maxElements
	if many {
		f.wrong[name] = fmt.Sprintf("has more than %d entries", maxElements)
	}
	return many
}

// readFreeObject reads an object that belongs to the app.
func (f *findings) readFreeObject(raw json.RawMessage, name string, into *map[string]any) {
	if memory.JSONDepth(raw) > memory.MaxMetadataDepth {
		f.wrong[name] = fmt.Sprintf("is nested deeper than %d levels", memory.MaxMetadataDepth)
		return
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value map[string]any
	if decoder.Decode(&value) != nil || value == nil {
		f.wrong[name] = "must be an object"
		return
	}
	if _, err := exactNumbers(value); err != nil {
		f.wrong[name] = "holds a number that is out of range"
		return
	}
	*into = value
}

func (f *findings) err() error {
	if len(f.unknown) > 0 {
		return fault.With(fault.BadRequest, fmt.Sprintf("The field %q is not known.", f.unknown[0]),
			map[string]any{"unknown_fields": f.unknown[:min(len(f.unknown), maxListed)]})
	}
	if len(f.wrong) > 0 {
		return invalid(f.wrong)
	}
	return nil
}

// invalid names each wrong field with its fault.
func invalid(wrong map[string]any) error {
	first := slices.Min(slices.Collect(maps.Keys(wrong)))
	return fault.With(fault.ValidationFailed, fmt.Sprintf("The field %s %s.", first, wrong[first]), wrong)
}

func shorten(name string) string {
	if utf8.RuneCountInString(name) <= maxName {
		return name
	}
	return string([]rune(name)[:maxName]) + "…"
}

// exactNumbers converts whole numbers to int64, which float64 would round, and the others to float64. It changes
// containers in place. It fails for a number beyond float64, which Postgres may refuse.
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

// elements counts the members of a JSON array or object, never fewer than there are. It allocates nothing, for
// valid and invalid values.
func elements(raw []byte) int {
	count := 1
	memory.WalkJSON(raw, func(c byte, level int) {
		if c == ',' && level == 1 {
			count++
		}
	})
	return count
}

// malformed is the fault of a parameter, such as "must be a uuid".
type malformed string

func (m malformed) Error() string { return string(m) }

// readQuery reads the parameters into the fields of a pointer to a struct that have a query tag. It reports every
// malformed one, and ignores parameters that it does not know. With omitempty an empty parameter is none.
func readQuery(values url.Values, into any) error {
	target := reflect.ValueOf(into).Elem()
	wrong := map[string]any{}
	var refused error
	for name, field := range fieldsByTag(target.Type(), "query") {
		text := values.Get(name)
		if !values.Has(name) || text == "" && strings.HasSuffix(field.Tag.Get("query"), ",omitempty") {
			continue
		}
		into := target.FieldByIndex(field.Index)
		err := setParameter(into, text)
		// Nothing that is given is left to a default. How long a text is counts when it is trimmed, see api.Check.
		if err == nil && field.Tag.Get("maxLength") == "" {
			if problem := api.Problem(reflect.Indirect(into), field.Tag); problem != "" {
				err = malformed(problem)
			}
		}
		if problem, ok := errors.AsType[malformed](err); ok {
			wrong[name] = string(problem)
		} else if err != nil {
			refused = err
		}
	}
	if len(wrong) > 0 {
		return fault.With(fault.ValidationFailed, "Some query parameters are malformed or out of range.", wrong)
	}
	return refused
}

// setParameter sets one field. Its error is malformed, or a fault.Error for the whole request.
func setParameter(into reflect.Value, text string) (err error) {
	switch target := into.Addr().Interface().(type) {
	case *string:
		*target = text
	case *bool:
		if *target = text == "true"; !*target && text != "false" {
			return malformed("must be true or false")
		}
	case *int:
		if *target, err = strconv.Atoi(text); err != nil {
			return malformed("must be a whole number")
		}
	case *int64:
		if *target, err = strconv.ParseInt(text, 10, 64); err != nil {
			return malformed("must be a whole number")
		}
	case *time.Time:
		if *target, err = time.Parse(time.RFC3339, text); err != nil {
			return malformed("must be a time such as 2026-11-21T15:04:05Z (RFC 3339)")
		}
	case *uuid.UUID:
		if *target, err = api.ParseID(text); err != nil {
			return malformed("must be a uuid")
		}
		if *target == uuid.Nil {
			return fault.NoChat() // every id in a query is a chat's; to history, this one would mean all chats
		}
	case *[]byte:
		if *target, err = hex.DecodeString(text); err != nil || len(*target) != 32 {
			return malformed("must be 64 hexadecimal digits")
		}
	case encoding.TextUnmarshaler:
		return target.UnmarshalText([]byte(text))
	default: // a pointer
		into.Set(reflect.New(into.Type().Elem()))
		return setParameter(into.Elem(), text)
	}
	return err
}
