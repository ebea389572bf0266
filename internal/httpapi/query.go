package httpapi

import (
	"encoding"
	"encoding/hex"
	"errors"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
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
		into := target.FieldByIndex(field.Index)
		err := setParameter(into, text)
		if problem := history.Problem(reflect.Indirect(into), field.Tag); err == nil && problem != "" {
			err = malformed(problem)
		}
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
		return setParameter(into.Elem(), text)
	}
	return err
}
