package httpapi

import (
	"encoding"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/fault"
)

// malformed is what is wrong with a parameter, such as "must be a uuid".
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
		err := setParameter(target.FieldByIndex(field.Index), text, field.Tag)
		if problem, ok := errors.AsType[malformed](err); ok {
			wrong[name] = string(problem)
		} else if err != nil {
			refused = err
		}
	}
	if len(wrong) > 0 {
		return &fault.Error{Code: fault.ValidationFailed, Message: "Some query parameters are malformed or out of range.", Details: wrong}
	}
	return refused
}

// setParameter sets one field. Its error is malformed, or a fault.Error for the whole request.
func setParameter(into reflect.Value, text string, tag reflect.StructTag) (err error) {
	switch target := into.Addr().Interface().(type) {
	case *string:
		if *target = text; !utf8.ValidString(text) {
			return malformed("must be UTF-8")
		}
		return oneOf(text, tag.Get("enum"))
	case *bool:
		*target = text == "true"
		return oneOf(text, "true,false")
	case *int:
		var value int64
		value, err = wholeNumber(text, tag)
		*target = int(value)
	case *int64:
		*target, err = wholeNumber(text, tag)
	case *time.Time:
		if *target, err = time.Parse(time.RFC3339, text); err != nil {
			return malformed("must be a time such as 2026-11-21T15:04:05Z (RFC 3339)")
		}
	case *uuid.UUID:
		if *target, err = parseUUID(text); err != nil {
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
		return setParameter(into.Elem(), text, tag)
	}
	return err
}

// oneOf refuses a text that is not among the words, which commas separate. Without words it accepts any text.
func oneOf(text, words string) error {
	all := strings.Split(words, ",")
	if words == "" || slices.Contains(all, text) {
		return nil
	}
	list := strings.Join(all, ", ")
	if last := strings.LastIndex(list, ", "); last >= 0 {
		list = list[:last] + " or " + all[len(all)-1]
	}
	return malformed("must be " + list)
}

// wholeNumber reads a number within the bounds that the tags minimum and, where there is one, maximum give.
func wholeNumber(text string, tag reflect.StructTag) (int64, error) {
	value, err := strconv.ParseInt(text, 10, 64)
	least, _ := strconv.ParseInt(tag.Get("minimum"), 10, 64)
	most, unbounded := strconv.ParseInt(tag.Get("maximum"), 10, 64)
	switch {
	case unbounded == nil && (err != nil || value < least || value > most):
		return 0, malformed(fmt.Sprintf("must be a whole number between %d and %d", least, most))
	case err != nil || value < least:
		return 0, malformed(fmt.Sprintf("must be a whole number of at least %d", least))
	}
	return value, nil
}
