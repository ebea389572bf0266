package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
)

// problem is what is wrong with a record: a name for programs and a clause for people, without content of the file.
type problem struct {
	reason, message string
}

func (p *problem) Error() string { return p.message }

func wrong(reason, message string) error { return &problem{reason, message} }

type position struct {
	line int
	// conversation counts from 0 in ChatGPT's format; -1 elsewhere.
	conversation int
}

// at makes a fault of a problem. It returns any other error, which is one of reading, as it is.
func at(where position, err error) error {
	found, ok := errors.AsType[*problem](err)
	if !ok {
		return err
	}
	details := map[string]any{"line": where.line, "reason": found.reason}
	message := fmt.Sprintf("Line %d: %s.", where.line, found.message)
	if where.conversation >= 0 {
		details["conversation"] = where.conversation
		message = fmt.Sprintf("Line %d, conversation %d: %s.", where.line, where.conversation, found.message)
	}
	return &fault.Error{Code: fault.ImportInvalid, Message: message, Details: details}
}

// jsonProblem makes a problem of an error of encoding/json, whose own text may quote the file.
func jsonProblem(err error) error {
	if _, syntax := errors.AsType[*json.SyntaxError](err); syntax || errors.Is(err, io.ErrUnexpectedEOF) {
		return wrong("bad_json", "this is not valid JSON")
	}
	if errors.Is(err, io.EOF) {
		return wrong("bad_json", "the file ends in the middle")
	}
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if kind.Field == "" {
			return wrong("wrong_type", "a JSON object is expected here")
		}
		return wrong("wrong_type", fmt.Sprintf("the field %s is of the wrong type", kind.Field))
	}
	return err
}

// decode reads a value into a struct. A date is the only thing in it that can fail without a JSON error.
func decode(raw []byte, into any) error {
	err := jsonProblem(json.Unmarshal(raw, into))
	if _, known := errors.AsType[*problem](err); err == nil || known {
		return err
	}
	return wrong("bad_date", "a date is not of the form 2026-11-21T15:04:05Z")
}

// maxDepth is how many levels a record may have: memory.MaxMetadataDepth and what is around the metadata.
const maxDepth = 40

// checkText refuses what Postgres cannot store and what would be expensive to decode.
func checkText(raw []byte) error {
	switch {
	case !utf8.Valid(raw):
		return wrong("invalid_utf8", "the text is not valid UTF-8")
	case holdsNUL(raw):
		return wrong("null_character", "the text holds the character U+0000")
	case memory.JSONDepth(raw) > maxDepth:
		return wrong("too_deep", fmt.Sprintf("the value is nested deeper than %d levels", maxDepth))
	}
	return nil
}

// holdsNUL reports whether JSON contains the escape of U+0000; unescaped, the character is not valid JSON.
func holdsNUL(raw []byte) bool {
	escape := []byte(`\u0000`)
	return bytes.Contains(raw, escape) && bytes.Contains(bytes.ReplaceAll(raw, []byte(`\\`), nil), escape)
}
