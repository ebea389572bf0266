package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/fault"
)

// problem is what is wrong with a record: a name for programs and a clause for people. It holds no
// content of the file.
type problem struct {
	reason, says string
}

func (p *problem) Error() string { return p.says }

func wrong(reason, says string) error { return &problem{reason, says} }

// place says where in the file a problem is.
type place struct {
	line int
	// conversation counts from 0 in ChatGPT's format; -1 elsewhere.
	conversation int
}

// at makes the error that goes out of a problem. Any other error is one of reading and passes as it is.
func at(where place, err error) error {
	known, ok := errors.AsType[*problem](err)
	if !ok {
		return err
	}
	details := map[string]any{"line": where.line, "reason": known.reason}
	message := fmt.Sprintf("Line %d: %s.", where.line, known.says)
	if where.conversation >= 0 {
		details["conversation"] = where.conversation
		message = fmt.Sprintf("Line %d, conversation %d: %s.", where.line, where.conversation, known.says)
	}
	return &fault.Error{Code: fault.ImportInvalid, Message: message, Details: details}
}

// broken makes a problem of an error of encoding/json, whose own words may quote the file.
func broken(err error) error {
	if _, known := errors.AsType[*problem](err); known {
		return err
	}
	if _, syntax := errors.AsType[*json.SyntaxError](err); syntax || errors.Is(err, io.ErrUnexpectedEOF) {
		return wrong("bad_json", "this is not valid JSON")
	}
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if kind.Field == "" {
			return wrong("wrong_type", "a JSON object is expected here")
		}
		return wrong("wrong_type", fmt.Sprintf("the field %s is of the wrong type", kind.Field))
	}
	return err
}

// decode reads a value into a struct. A date is the only other thing that it can stumble over.
func decode(raw []byte, into any) error {
	err := json.Unmarshal(raw, into)
	if err == nil {
		return nil
	}
	if err := broken(err); asProblem(err) {
		return err
	}
	return wrong("bad_date", "a date is not of the form 2026-11-21T15:04:05Z")
}

func asProblem(err error) bool {
	_, ok := errors.AsType[*problem](err)
	return ok
}

// maxDepth is how deep a record may nest: an app's metadata by 32 levels, within what is around them.
const maxDepth = 40

// checkText refuses what Postgres cannot keep and what would be expensive to look at more closely.
func checkText(raw []byte) error {
	switch {
	case !utf8.Valid(raw):
		return wrong("invalid_utf8", "the text is not valid UTF-8")
	case holdsNull(raw):
		return wrong("null_character", "the text holds the character U+0000")
	case depth(raw) > maxDepth:
		return wrong("too_deep", fmt.Sprintf("the value is nested deeper than %d levels", maxDepth))
	}
	return nil
}

// holdsNull finds the escape of U+0000: as itself it is no valid JSON.
func holdsNull(raw []byte) bool {
	for rest := raw; ; {
		found := bytes.Index(rest, []byte(`\u0000`))
		if found < 0 {
			return false
		}
		slashes := 0
		for found-slashes > 0 && rest[found-slashes-1] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return true
		}
		rest = rest[found+1:]
	}
}

// depth counts the levels of arrays and objects in a JSON value, valid or not.
func depth(raw []byte) int {
	deepest, level, quoted := 0, 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			level++
			deepest = max(deepest, level)
		case c == '}' || c == ']':
			level--
		}
	}
	return deepest
}
