package httpapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/memory"
)

// longestRefusal bounds what an answer tells of a request, in bytes. A body of a few kilobytes is all that a fuzzer makes.
const longestRefusal = 256 << 10

// checkRefused holds that an error is one of the contract's for what a client sent, told in bounded words.
func checkRefused(t *testing.T, err error, codes ...fault.Code) {
	t.Helper()
	if err == nil {
		return
	}
	if code := fault.CodeOf(err); !slices.Contains(codes, code) {
		t.Fatalf("refused with %s: %v", code, err)
	}
	failure, _ := err.(*fault.Error) //nolint:errorlint // the line above has seen its code
	told, marshalErr := json.Marshal(errorBody{Code: string(failure.Code), Message: failure.Message, Details: failure.Details})
	if marshalErr != nil || len(told) > longestRefusal {
		t.Fatalf("an answer of %d bytes, %v", len(told), marshalErr)
	}
}

// Every body: what is accepted is JSON in UTF-8, names only fields that there are, and can be stored.
func FuzzDecodeBodies(f *testing.F) {
	for _, seed := range []string{
		"", "{}", "null", "[]", hello, `{"chat_id":"x","content":"a","sources":[{"title":"t","content":"c"}],"metadata":{"a":[1,{"b":null}]}}`,
		`{"title":null,"tags":["a",null],"metadata":{"a":[1,-2.5e3]},"ttl_hours":1e2,"max_turns":1.5}`, `{"tags":["a","a"],"memory_strategy":"hybrid"}`,
		`{"pinned":true,"importance":0.5}`, `{"importance":1e999}`, `{"older_than_days":9223372036854775808,"dry_run":1}`, `{"revive":true}`,
		`{"tool_name":"\u0000"}`,
		`{"title":"a","title":"b"}`, `{"Title":"a"}`, "{\"title\":\"\xff\"}", `{"metadata":{"\ud800":1}}`, `{"tags":[[[[]]]]}`, `{"metadata":[`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var message messageRequest
		var chat history.NewChat
		var change history.ChatChange
		for _, request := range []any{&message, &chat, &change, &history.MessageChange{}, &history.PruneQuery{}} {
			err := decodeObject(body, request)
			checkRefused(t, err, fault.BadRequest, fault.ValidationFailed)
			if err != nil {
				continue
			}
			if !json.Valid(body) || !utf8.Valid(body) {
				t.Fatalf("accepted %q", body)
			}
			var named map[string]any
			_ = json.Unmarshal(body, &named) // as accepted
			for name := range named {
				if _, known := fieldsByTag(reflect.TypeOf(request).Elem(), "json")[name]; !known {
					t.Fatalf("accepted the field %q", name)
				}
			}
			_, hasTitle := named["title"]
			if request == any(&change) && change.Title.Set != hasTitle {
				t.Fatalf("the title is set: %v", change.Title.Set)
			}
		}
		for _, metadata := range []any{message.Metadata, chat.Metadata, change.Metadata.Value} {
			if _, err := json.Marshal(metadata); err != nil {
				t.Fatalf("metadata cannot be stored: %v", err)
			}
		}
	})
}

// Whatever the query, every reader of parameters gives values within their bounds or one of the contract's errors.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{
		"", "limit=1", "limit=-1&limit=2", "limit=99999999999999999999", "before_seq=0&after_seq=9223372036854775807", "include_expired=maybe",
		"cursor=AAAA", "after=12", "after=end", "after=",
		"q=a&role=user&chat_id=" + someID + "&before=2026-11-21T15:04:05Z", "before=2026-11-21t15:04:05.9%2B23:59", "sha256=" + "ab", "include=content",
		"format=json", "protocol=ui", "%zz&;&=&a=%00",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		request.URL = &url.URL{Path: "/", RawQuery: query}
		values := request.URL.Query()

		var files filesQuery
		for _, into := range []any{&history.SearchQuery{}, &files, &history.MessagesQuery{}, &history.ListQuery{}, &exportQuery{}} {
			err := readQuery(values, into)
			checkRefused(t, err, fault.ValidationFailed, fault.ChatNotFound, fault.BadRequest)
			if _, told := json.Marshal(into); err == nil && told != nil {
				t.Fatalf("%+v cannot be told: %v", into, told)
			}
		}
		if n := len(files.SHA256); n != 0 && n != 32 && readQuery(values, &files) == nil {
			t.Fatalf("a hash of %d bytes", n)
		}
		cursor, err := resumeCursor(request)
		checkRefused(t, err, fault.BadRequest)
		if err == nil && cursor != nil && cursor.After < 0 {
			t.Fatalf("a place of %d", cursor.After)
		}
		_, err = namedProtocol(request)
		checkRefused(t, err, fault.BadRequest)
	})
}

var soundRequestID = regexp.MustCompile(`^[-a-zA-Z0-9_.:/+=]{1,128}$`)

// Whatever a header says, it is understood, refused as the contract has it, or passed over; and what comes back in
// an answer's header can do no harm there.
func FuzzHeaders(f *testing.F) {
	for _, seed := range []string{
		"", someID, someID + ":12", someID + ":end", someID + ":-1", ":", "application/json", "text/event-stream;q=0.5, */*;q=1.5",
		"application/json; charset=\"", "a/b;q=NaN, ,,;",
		"key", "käse", "\x00", "\xff", "gzip", "identity", "a\r\nSet-Cookie: b", "trace-1.2_3:4/5+6=",
	} {
		f.Add(seed)
	}
	user := uuid.New()
	f.Fuzz(func(t *testing.T, value string) {
		header := http.Header{headerLastEventID: {value}}
		cursor, err := lastEventID(header)
		checkRefused(t, err, fault.BadRequest)
		if err == nil && cursor != nil && cursor.After < 0 {
			t.Fatalf("a place of %d", cursor.After)
		}
		var body firstMessageRequest
		id, err := body.clientMessageID(http.Header{headerIdempotencyKey: {value}}, user)
		checkRefused(t, err, fault.BadRequest)
		again, _ := body.clientMessageID(http.Header{headerIdempotencyKey: {value}}, user)
		if err == nil && (id == uuid.Nil || id != again) {
			t.Fatalf("%q is the message %s and %s", value, id, again)
		}
		prefersJSON([]string{value})
		prefersEvents([]string{value})
		for _, name := range []string{echo.HeaderContentType, echo.HeaderContentEncoding} {
			checkRefused(t, checkMediaType(http.Header{name: {value}, echo.HeaderContentType: {mediaJSON}}, "body", mediaJSON), fault.UnsupportedMediaType)
			checkRefused(t, checkMediaType(http.Header{name: {value}}, "body", mediaJSON), fault.UnsupportedMediaType)
		}
		if named := chooseRequestID(value); !soundRequestID.MatchString(named) {
			t.Fatalf("the request is called %q", named)
		}
	})
}

// The counts that come before a body is decoded agree with encoding/json wherever that decodes it.
func FuzzStructure(f *testing.F) {
	for _, seed := range []string{"[]", "[1]", "[1,[2,3],{\"a\":4,\"b\":5}]", `{"a":"[,]\"","b":{}}`, `"a,b"`, "1", "[[[", `[",\\",","]`, `{"\"":[]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		counted, deep, many := elements(raw), memory.JSONDepth(raw), values(raw)
		if counted > len(raw)+1 || deep > len(raw) || many > len(raw)+1 {
			t.Fatalf("%d elements, %d levels, %d values in %d bytes", counted, deep, many, len(raw))
		}
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) == nil && list != nil && max(1, len(list)) != counted {
			t.Fatalf("%d elements, want %d", counted, len(list))
		}
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) == nil && len(object) > counted {
			t.Fatalf("%d members, at least %d are there", counted, len(object))
		}
		var value any
		if json.Unmarshal(raw, &value) == nil && deep != levels(value) && !hasTwins(raw) {
			t.Fatalf("%d levels, want %d", deep, levels(value))
		}
	})
}

// levels counts those of a decoded value.
func levels(value any) int {
	deepest := 0
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			deepest = max(deepest, levels(element))
		}
	case map[string]any:
		for _, element := range value {
			deepest = max(deepest, levels(element))
		}
	default:
		return 0
	}
	return deepest + 1
}

// hasTwins tells whether decoding may lose a value, because its name came twice.
func hasTwins(raw []byte) bool {
	var again any
	if json.Unmarshal(raw, &again) != nil {
		return false
	}
	told, err := json.Marshal(again)
	return err != nil || values(told) < values(raw)
}
