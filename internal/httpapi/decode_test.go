package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
)

func decodeMessage(body string) (messageRequest, error) {
	var message messageRequest
	err := decodeObject([]byte(body), &message)
	return message, err
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"a":`, 32) + "1" + strings.Repeat("}", 32)
	for _, test := range []struct {
		name, body string
		code       fault.Code
		told       string // in the message
	}{
		{"nothing", "", fault.BadRequest, "empty"},
		{"blanks", " \n", fault.BadRequest, "empty"},
		{"half an object", `{"content":`, fault.BadRequest, "unexpected end"},
		{"no JSON", `content=a`, fault.BadRequest, "byte 1"},
		{"two values", `{"content":"a"} {"content":"b"}`, fault.BadRequest, "after top-level value"},
		{"trailing comma", `{"content":"a",}`, fault.BadRequest, "JSON"},
		{"a comment", `{"content":"a"} // b`, fault.BadRequest, "JSON"},
		{"an array", `[{"content":"a"}]`, fault.BadRequest, "object"},
		{"null", `null`, fault.BadRequest, "object"},
		{"a string", `"content"`, fault.BadRequest, "object"},
		{"invalid UTF-8", "{\"content\":\"\xff\"}", fault.BadRequest, "UTF-8"},
		{"a BOM", "\uFEFF{}", fault.BadRequest, "JSON"},
		{"unknown field", `{"content":"a","surprise":1}`, fault.BadRequest, `"surprise"`},
		{"unknown field that is null", `{"surprise":null}`, fault.BadRequest, `"surprise"`},
		{"name in capitals", `{"Content":"a"}`, fault.BadRequest, `"Content"`},
		{"unknown field of a source", `{"sources":[{},{"uri":"x"}]}`, fault.BadRequest, `"sources[1].uri"`},
		{"endless name", `{"` + strings.Repeat("x", 5000) + `":1}`, fault.BadRequest, "xxx…"},
		{"content is a number", `{"content":5}`, fault.ValidationFailed, "content must be a string"},
		{"chat_id is an object", `{"chat_id":{}}`, fault.ValidationFailed, "chat_id must be a string"},
		{"variant is an array", `{"model_variant":[]}`, fault.ValidationFailed, "model_variant must be a string"},
		{"sources is an object", `{"sources":{}}`, fault.ValidationFailed, "sources must be an array"},
		{"a source is null", `{"sources":[null]}`, fault.ValidationFailed, "sources[0] must be an object"},
		{"a source is a string", `{"sources":[{},"a"]}`, fault.ValidationFailed, "sources[1] must be an object"},
		{"a title is a number", `{"sources":[{"title":1}]}`, fault.ValidationFailed, "sources[0].title must be a string"},
		{"metadata is an array", `{"metadata":[]}`, fault.ValidationFailed, "metadata must be an object"},
		{"metadata is a string", `{"metadata":"{}"}`, fault.ValidationFailed, "metadata must be an object"},
		{"metadata is deep", `{"metadata":{"b":` + deep + `}}`, fault.ValidationFailed, "32 levels"},
		{"metadata is an abyss", `{"metadata":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`, fault.ValidationFailed, "32 levels"},
		{"bottomless", strings.Repeat("[", 200_000), fault.BadRequest, "depth"},
		{"a huge number", `{"metadata":{"n":1e400}}`, fault.ValidationFailed, "out of range"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := decodeMessage(test.body)
			assert.Truef(t, fault.CodeOf(err) == test.code && strings.Contains(err.Error(), test.told),
				"got %v, want %s with %q", err, test.code, test.told)
		})
	}
}

func TestDecodeTellsEveryWrongField(t *testing.T) {
	t.Parallel()
	_, err := decodeMessage(`{"content":5,"metadata":[],"sources":[{"url":1}]}`)
	failure, _ := err.(*fault.Error) //nolint:errorlint // the code above made it
	want := map[string]any{"content": "must be a string", "metadata": "must be an object", "sources[0].url": "must be a string"}
	assert.Equal(t, "", cmp.Diff(want, failure.Details))
}

func TestDecodeAccepts(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"a":`, 31) + "1" + strings.Repeat("}", 31)
	for name, body := range map[string]string{
		"everything": `{"chat_id":"a","content":"b","model_variant":"c","client_message_id":"d",
			"sources":[{"title":"e","content":"f","url":"g"}],"metadata":{"h":[1]}}`,
		"null is absent":  `{"chat_id":null,"content":null,"model_variant":null,"client_message_id":null,"sources":null,"metadata":null}`,
		"nothing":         `{}`,
		"space around":    "\r\n\t {\"content\" : \"a\"} \n",
		"duplicate names": `{"content":"a","content":"b"}`,
		"32 levels":       `{"metadata":{"b":` + deep + `}}`,
		"brackets within": `{"metadata":{"b":"` + strings.Repeat(`[{\"\\`, 100) + `"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := decodeMessage(body)
			assert.NoError(t, err)
		})
	}
}

func TestDecodeKeepsWhatWasSent(t *testing.T) {
	t.Parallel()
	message, err := decodeMessage(`{"content":"a","content":"é\u00e9\ud83d\udc4d","metadata":{"id":9007199254740993,"x":0.1,"l":[true,null,"s"]}}`)
	require.NoError(t, err)
	assert.Equal(t, "éé👍", *message.Content, "content")
	want := map[string]any{"id": int64(9007199254740993), "x": 0.1, "l": []any{true, nil, "s"}}
	assert.Equal(t, "", cmp.Diff(want, message.Metadata))
}

func TestQueriesAreRead(t *testing.T) {
	t.Parallel()
	chatID, before, after := uuid.MustParse(exampleChat), time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), time.Date(2026, 11, 20, 23, 0, 0, 500_000_000, time.UTC)
	long := strings.Repeat("東", 500)
	for query, want := range map[string]any{
		"q=scale":          api.SearchQuery{Text: "scale", Limit: 20},
		"q=%E6%9D%B1+%22a": api.SearchQuery{Text: `東 "a`, Limit: 20},
		"q=" + long:        api.SearchQuery{Text: long, Limit: 20},
		"q=a&limit=100&role=assistant&chat_id=" + exampleChat:                 api.SearchQuery{Text: "a", Limit: 100, Role: "assistant", ChatID: chatID},
		"q=a&before=2026-11-21T12:00:00Z&after=2026-11-21T00:00:00.5%2B01:00": api.SearchQuery{Text: "a", Limit: 20, Before: &before, After: &after},
		"q=a&chat_id=" + exampleChat + "&topic_id=" + exampleReply: api.RecallQuery{
			Text: "a", Limit: 20, ChatID: exampleChat, Chat: chatID, TopicID: exampleReply, Topic: uuid.MustParse(exampleReply),
		},
		"entity=%20User%20&depth=3&type=": api.GraphQuery{Entity: "User", Depth: 3},
		"relationship=lives_in&type=place&q=where+do+I+live": api.GraphQuery{
			Relationship: "lives_in", Type: "place", Text: "where do I live", Depth: 1,
		},
		"as_of=2026-11-20T23:00:00.5Z": api.GraphQuery{AsOf: "2026-11-20T23:00:00.5Z", Moment: after, Depth: 1},
	} {
		values, err := url.ParseQuery(query)
		read := reflect.New(reflect.TypeOf(want))
		err = errors.Join(err, readQuery(values, read.Interface()), api.Check(read.Interface()))
		diff := cmp.Diff(want, read.Elem().Interface())
		assert.Truef(t, err == nil && diff == "", "%s: %v %s", query, err, diff)
	}
}

// longestRefusal bounds what an answer tells of a request, in bytes. A body of a few kilobytes is all that a fuzzer makes.
const longestRefusal = 256 << 10

// checkRefused holds that an error is one of the contract's for what a client sent, told in bounded words.
func checkRefused(t *testing.T, err error, codes ...fault.Code) {
	if err == nil {
		return
	}
	code := fault.CodeOf(err)
	require.Truef(t, slices.Contains(codes, code), "refused with %s: %v", code, err)
	failure, _ := err.(*fault.Error) //nolint:errorlint // the line above has seen its code
	told, marshalErr := json.Marshal(errorBody{Code: string(failure.Code), Message: failure.Message, Details: failure.Details})
	require.Truef(t, marshalErr == nil && len(told) <= longestRefusal, "an answer of %d bytes, %v", len(told), marshalErr)
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
		var chat api.NewChat
		var change api.ChatChange
		for _, request := range []any{&message, &chat, &change, &api.MessageChange{}, &api.PruneQuery{}} {
			err := decodeObject(body, request)
			checkRefused(t, err, fault.BadRequest, fault.ValidationFailed)
			if err != nil {
				continue
			}
			require.Truef(t, json.Valid(body) && utf8.Valid(body), "accepted %q", body)
			var named map[string]any
			_ = json.Unmarshal(body, &named) // as accepted
			for name := range named {
				_, known := fieldsByTag(reflect.TypeOf(request).Elem(), "json")[name]
				require.Truef(t, known, "accepted the field %q", name)
			}
			_, hasTitle := named["title"]
			require.Truef(t, request != any(&change) || change.Title.Set == hasTitle,
				"the title is set: %v", change.Title.Set)
		}
		for _, metadata := range []any{message.Metadata, chat.Metadata, change.Metadata.Value} {
			_, err := json.Marshal(metadata)
			require.NoError(t, err, "metadata cannot be stored")
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

		var files api.FilesQuery
		for _, into := range []any{&api.SearchQuery{}, &files, &api.MessagesQuery{}, &api.ListQuery{}, &exportQuery{}} {
			err := readQuery(values, into)
			checkRefused(t, err, fault.ValidationFailed, fault.ChatNotFound, fault.BadRequest)
			_, told := json.Marshal(into)
			require.Truef(t, err != nil || told == nil, "%+v cannot be told: %v", into, told)
		}
		n := len(files.SHA256)
		require.Truef(t, n == 0 || n == 32 || readQuery(values, &files) != nil, "a hash of %d bytes", n)
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
		require.Truef(t, err != nil || (id != uuid.Nil && id == again), "%q is the message %s and %s", value, id, again)
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
		require.Truef(t, counted <= len(raw)+1 && deep <= len(raw) && many <= len(raw)+1,
			"%d elements, %d levels, %d values in %d bytes", counted, deep, many, len(raw))
		var list []json.RawMessage
		require.Truef(t, json.Unmarshal(raw, &list) != nil || list == nil || max(1, len(list)) == counted,
			"%d elements, want %d", counted, len(list))
		var object map[string]json.RawMessage
		require.Truef(t, json.Unmarshal(raw, &object) != nil || len(object) <= counted,
			"%d members, at least %d are there", counted, len(object))
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
