package httpapi

import (
	"errors"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
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
			if fault.CodeOf(err) != test.code || !strings.Contains(err.Error(), test.told) {
				t.Errorf("got %v, want %s with %q", err, test.code, test.told)
			}
		})
	}
}

func TestDecodeTellsEveryWrongField(t *testing.T) {
	t.Parallel()
	_, err := decodeMessage(`{"content":5,"metadata":[],"sources":[{"url":1}]}`)
	failure, _ := err.(*fault.Error) //nolint:errorlint // the code above made it
	want := map[string]any{"content": "must be a string", "metadata": "must be an object", "sources[0].url": "must be a string"}
	if diff := cmp.Diff(want, failure.Details); diff != "" {
		t.Error(diff)
	}
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
			if _, err := decodeMessage(body); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestDecodeKeepsWhatWasSent(t *testing.T) {
	t.Parallel()
	message, err := decodeMessage(`{"content":"a","content":"é\u00e9\ud83d\udc4d","metadata":{"id":9007199254740993,"x":0.1,"l":[true,null,"s"]}}`)
	if err != nil {
		t.Fatal(err)
	}
	if message.Content != "éé👍" {
		t.Errorf("content %q", message.Content)
	}
	want := map[string]any{"id": int64(9007199254740993), "x": 0.1, "l": []any{true, nil, "s"}}
	if diff := cmp.Diff(want, message.Metadata); diff != "" {
		t.Error(diff)
	}
}

func TestQueriesAreRead(t *testing.T) {
	t.Parallel()
	chatID, before, after := uuid.MustParse(exampleChat), time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), time.Date(2026, 11, 20, 23, 0, 0, 500_000_000, time.UTC)
	long := strings.Repeat("東", 500)
	for query, want := range map[string]any{
		"q=scale":          history.SearchQuery{Text: "scale", Limit: 20},
		"q=%E6%9D%B1+%22a": history.SearchQuery{Text: `東 "a`, Limit: 20},
		"q=" + long:        history.SearchQuery{Text: long, Limit: 20},
		"q=a&limit=100&role=assistant&chat_id=" + exampleChat:                 history.SearchQuery{Text: "a", Limit: 100, Role: "assistant", ChatID: chatID},
		"q=a&before=2026-11-21T12:00:00Z&after=2026-11-21T00:00:00.5%2B01:00": history.SearchQuery{Text: "a", Limit: 20, Before: &before, After: &after},
		"q=a&chat_id=" + exampleChat + "&topic_id=" + exampleReply: history.RecallQuery{
			Text: "a", Limit: 20, ChatID: exampleChat, Chat: chatID, TopicID: exampleReply, Topic: uuid.MustParse(exampleReply),
		},
		"entity=%20User%20&depth=3&type=": history.GraphQuery{Entity: "User", Depth: 3},
		"relationship=lives_in&type=place&q=where+do+I+live": history.GraphQuery{
			Relationship: "lives_in", Type: "place", Text: "where do I live", Depth: 1,
		},
		"as_of=2026-11-20T23:00:00.5Z": history.GraphQuery{AsOf: "2026-11-20T23:00:00.5Z", Moment: after, Depth: 1},
	} {
		values, err := url.ParseQuery(query)
		read := reflect.New(reflect.TypeOf(want))
		err = errors.Join(err, readQuery(values, read.Interface()), history.Check(read.Interface()))
		if diff := cmp.Diff(want, read.Elem().Interface()); err != nil || diff != "" {
			t.Errorf("%s: %v %s", query, err, diff)
		}
	}
}
