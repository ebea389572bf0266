package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/memory"
)

// document is the OpenAPI document with what is needed to hold answers against it.
type document struct {
	mu        sync.Mutex // the validator is not documented as safe for concurrent use
	validator validator.Validator
	schemas   map[string]*jsonschema.Schema
	paths     map[string]any
	root      any
}

var testDocument = sync.OnceValues(loadDocument)

func loadDocument() (*document, error) {
	raw := openAPIDocument("1.2.3")
	parsed, err := libopenapi.NewDocument(raw)
	if err != nil {
		return nil, err
	}
	checks, problems := validator.NewValidator(parsed)
	if len(problems) > 0 {
		return nil, problems[0]
	}
	root, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	d := &document{validator: checks, schemas: map[string]*jsonschema.Schema{}, root: root}
	whole, _ := root.(map[string]any)
	d.paths, _ = whole["paths"].(map[string]any)
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("https://test/openapi.json", root); err != nil {
		return nil, err
	}
	for name := range whole["components"].(map[string]any)["schemas"].(map[string]any) {
		if d.schemas[name], err = compiler.Compile("https://test/openapi.json" + schemaPrefix + name); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func theDocument(t *testing.T) *document {
	t.Helper()
	d, err := testDocument()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// checkSchema holds a JSON value against a component schema.
func checkSchema(t *testing.T, name string, raw []byte) {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Errorf("%s: %v in %q", name, err, raw)
		return
	}
	if err := theDocument(t).schemas[name].Validate(value); err != nil {
		t.Errorf("%s does not match its schema: %v\n%s", name, err, raw)
	}
}

func checkEventSchema(t *testing.T, e event) {
	t.Helper()
	name, ok := eventSchemas[e.name]
	if !ok {
		t.Errorf("the event %q is not in the document", e.name)
		return
	}
	checkSchema(t, name, []byte(e.raw))
	checkSchema(t, "StreamEvent", []byte(marshal(map[string]string{"id": e.id, "event": e.name, "data": e.raw})))
}

// checkAgainstDocument holds an answer against what the document says of its route and status.
// Addresses and methods that do not exist are answered with the schema Error and are in no document.
func checkAgainstDocument(t *testing.T, request *http.Request, answer answered) {
	t.Helper()
	if answer.header.Get("X-Request-Id") == "" {
		t.Errorf("%s %s: no X-Request-Id", request.Method, request.URL.Path)
	}
	if answer.status >= 400 {
		checkSchema(t, "Error", answer.body)
		if got := answer.header.Get("Content-Type"); got != "application/json" {
			t.Errorf("Content-Type of an error is %q", got)
		}
	}
	if strings.HasPrefix(request.URL.Path, "/river") || request.Method == http.MethodHead {
		return
	}
	if code := errorCode(answer.body); code == "not_found" || code == "method_not_allowed" {
		return
	}
	d := theDocument(t)
	d.mu.Lock()
	defer d.mu.Unlock()
	response := &http.Response{StatusCode: answer.status, Header: answer.header, Body: io.NopCloser(bytes.NewReader(answer.body)), Request: request}
	if ok, problems := d.validator.ValidateHttpResponse(request, response); !ok {
		for _, problem := range problems {
			t.Errorf("%s %s %d: %s: %s %v", request.Method, request.URL.Path, answer.status, problem.Message, problem.Reason, problem.SchemaValidationErrors)
		}
	}
}

func errorCode(body []byte) string {
	var answer errorBody
	_ = json.Unmarshal(body, &answer) // what is no error has no code
	return answer.Code
}

func TestDocumentIsValidOpenAPI(t *testing.T) {
	t.Parallel()
	d := theDocument(t)
	d.mu.Lock()
	defer d.mu.Unlock()
	if ok, problems := d.validator.ValidateDocument(); !ok {
		for _, problem := range problems {
			t.Errorf("%s: %s %v", problem.Message, problem.Reason, problem.SchemaValidationErrors)
		}
	}
}

func TestDocumentIsServed(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"))
	answer := h.call(http.MethodGet, "/openapi.json", "")
	var served struct {
		OpenAPI string `json:"openapi"`
		Info    struct{ Version string }
	}
	answer.decode(t, &served)
	if served.OpenAPI != "3.1.0" || served.Info.Version != "1.2.3" {
		t.Errorf("served %+v", served)
	}
}

// pathParameter is one as the router writes it.
var pathParameter = regexp.MustCompile(`:(\w+)`)

func TestDocumentHasExactlyTheRoutesThatAreServed(t *testing.T) {
	t.Parallel()
	h := newQuietHarness(t, says("x"))
	e, _ := h.server.Handler().(*echo.Echo)
	var served, written []string
	for _, route := range e.Routes() {
		if route.Method == http.MethodHead {
			continue // HEAD is GET's
		}
		served = append(served, route.Method+" "+pathParameter.ReplaceAllString(route.Path, "{$1}"))
	}
	for _, r := range routes() {
		written = append(written, r.method+" "+r.path)
	}
	slices.Sort(served)
	slices.Sort(written)
	if !slices.Equal(served, written) {
		t.Errorf("served %v\nwritten %v", served, written)
	}
}

func TestRequestSchemasHaveTheFieldsThatTheDecoderReads(t *testing.T) {
	t.Parallel()
	all := schemas()
	requests := []reflect.Type{reflect.TypeFor[source](), reflect.TypeFor[newFile](), reflect.TypeFor[history.NewMessage]()}
	for _, r := range routes() {
		if r.body() != nil {
			requests = append(requests, r.body())
		}
	}
	for _, of := range requests {
		name, fields := schemaName(of), fieldsByTag(of, "json")
		properties := all[name].(object)["properties"].(object)
		if len(properties) != len(fields) {
			t.Errorf("%s: %d properties, %d fields are read", name, len(properties), len(fields))
		}
		for field := range fields {
			if _, ok := properties[field]; !ok {
				t.Errorf("%s: %s is read but not described", name, field)
			}
		}
	}
	if len(requests) != 18 {
		t.Errorf("%d requests", len(requests))
	}
}

// Struct tags cannot name constants.
func TestRequestSchemasHaveTheLimitsThatAreChecked(t *testing.T) {
	t.Parallel()
	all := schemas()
	for _, c := range []struct {
		schema, field, keyword string
		want                   int
	}{
		{"NewChatRequest", "title", "maxLength", memory.MaxTitle},
		{"NewChatRequest", "system_prompt", "maxLength", memory.MaxSystemPrompt},
		{"NewChatRequest", "ttl_hours", "maximum", memory.MaxTTLHours},
		{"NewChatRequest", "max_turns", "maximum", memory.MaxTurnLimit},
		{"NewChatRequest", "tool_name", "maxLength", memory.MaxToolName},
		{"ChangeChatRequest", "title", "maxLength", memory.MaxTitle},
		{"ChangeChatRequest", "system_prompt", "maxLength", memory.MaxSystemPrompt},
		{"ChangeChatRequest", "ttl_hours", "maximum", memory.MaxTTLHours},
		{"ChangeChatRequest", "max_turns", "maximum", memory.MaxTurnLimit},
		{"PruneRequest", "older_than_days", "maximum", history.MaxPruneDays},
		{"FirstMessageRequest", "title", "maxLength", memory.MaxTitle},
		{"FirstMessageRequest", "system_prompt", "maxLength", memory.MaxSystemPrompt},
		{"FirstMessageRequest", "ttl_hours", "maximum", memory.MaxTTLHours},
		{"FirstMessageRequest", "max_turns", "maximum", memory.MaxTurnLimit},
		{"StoreMessagesRequest", "messages", "maxItems", history.MaxNewMessages},
		{"NewMessage", "content", "maxLength", history.MaxNewContent},
		{"MessageRequest", "content", "maxLength", chat.MaxContent},
		{"MessageRequest", "sources", "maxItems", chat.MaxSources},
		{"MessageRequest", "tool_name", "maxLength", chat.MaxToolName},
		{"Source", "content", "maxLength", chat.MaxSourceContent},
	} {
		got := all[c.schema].(object)["properties"].(object)[c.field].(object)[c.keyword]
		if got != float64(c.want) {
			t.Errorf("%s of %s.%s is %v, checked is %d", c.keyword, c.schema, c.field, got, c.want)
		}
	}
	for path, want := range map[string][2]int{
		"/v1/chats":                    {history.MaxChats, history.DefaultChats},
		"/v1/chats/{chat_id}/messages": {history.MaxMessages, history.DefaultMessages},
		"/v1/search":                   {history.MaxSearchResults, history.DefaultSearchResults},
	} {
		for _, r := range routes() {
			if r.path != path || r.method != http.MethodGet {
				continue
			}
			limit, _ := r.query().FieldByName("Limit")
			if got := limit.Tag.Get("maximum") + " " + limit.Tag.Get("default"); got != fmt.Sprintf("%d %d", want[0], want[1]) {
				t.Errorf("%s: %s, checked are %v", path, got, want)
			}
		}
	}
}

func TestExamplesMatchTheirSchemas(t *testing.T) {
	t.Parallel()
	for _, r := range routes() {
		if r.body() != nil {
			checkSchema(t, schemaName(r.body()), []byte(marshal(r.example)))
		}
	}
	parseEvents(t, ":"+strings.Repeat(" ", 1024)+"\n\n"+exampleStream(protocolEvents))
	parseUIStream(t, ":"+strings.Repeat(" ", 1024)+"\n\n"+exampleStream(protocolUI))
}
