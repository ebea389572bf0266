package httpapi

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/labstack/echo/v4"
	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory"
)

// document is the OpenAPI document with what is needed to hold answers against it.
type document struct {
	mu       sync.Mutex
	compiler *jsonschema.Compiler
	compiled map[string]*jsonschema.Schema // by their places in the document
	paths    map[string]map[string]struct {
		Responses map[string]struct{ Content map[string]any }
	}
}

const documentAddress = "https://test/openapi.json#"

var testDocument = sync.OnceValues(loadDocument)

func loadDocument() (*document, error) {
	raw := openAPIDocument("1.2.3")
	root, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	d := &document{compiler: jsonschema.NewCompiler(), compiled: map[string]*jsonschema.Schema{}}
	d.compiler.AssertFormat()
	if err := d.compiler.AddResource(strings.TrimSuffix(documentAddress, "#"), root); err != nil {
		return nil, err
	}
	read := struct{ Paths any }{&d.paths}
	return d, json.Unmarshal(raw, &read)
}

// schema returns the schema at a place of the document, such as /components/schemas/Error.
func (d *document) schema(t *testing.T, place string) *jsonschema.Schema {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.compiled[place] == nil {
		found, err := d.compiler.Compile(documentAddress + place)
		require.NoError(t, err)
		d.compiled[place] = found
	}
	return d.compiled[place]
}

// path returns the path of the document that an address matches: the one with the fewest parameters.
func (d *document) path(address string) (found string) {
	parts := strings.Split(address, "/")
	for path := range d.paths {
		matches := func(part, of string) bool { return part == of || strings.HasPrefix(of, "{") && part != "" }
		if of := strings.Split(path, "/"); len(of) != len(parts) || !slices.EqualFunc(parts, of, matches) {
			continue
		}
		if found == "" || strings.Count(path, "{") < strings.Count(found, "{") {
			found = path
		}
	}
	return found
}

func theDocument(t *testing.T) *document {
	d, err := testDocument()
	require.NoError(t, err)
	return d
}

// checkSchema holds a JSON value against a component schema.
func checkSchema(t *testing.T, name string, raw []byte) {
	t.Helper()
	checkSchemaAt(t, "/components/schemas/"+name, raw)
}

func checkSchemaAt(t *testing.T, place string, raw []byte) {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Errorf("%s: %v in %q", place, err, raw)
		return
	}
	if err := theDocument(t).schema(t, place).Validate(value); err != nil {
		t.Errorf("%s does not match its schema: %v\n%s", place, err, raw)
	}
}

func checkEventSchema(t *testing.T, e event) {
	t.Helper()
	kinds := schemas()["StreamEvent"].(object)["oneOf"].([]any)
	kind := slices.IndexFunc(kinds, func(kind any) bool { return kind.(object)["title"] == e.name })
	if kind < 0 {
		t.Errorf("the event %q is not in the document", e.name)
		return
	}
	data := kinds[kind].(object)["properties"].(object)["data"].(object)["contentSchema"].(object)["$ref"].(string)
	checkSchema(t, strings.TrimPrefix(data, schemaPrefix), []byte(e.raw))
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
		assert.Equal(t, "application/json", answer.header.Get("Content-Type"), "Content-Type of an error")
	}
	if strings.HasPrefix(request.URL.Path, "/river") || request.Method == http.MethodHead {
		return
	}
	if code := errorCode(answer.body); code == "not_found" || code == "method_not_allowed" {
		return
	}
	d, method := theDocument(t), strings.ToLower(request.Method)
	path, status := d.path(request.URL.Path), strconv.Itoa(answer.status)
	documented, found := d.paths[path][method].Responses[status]
	if !found {
		t.Errorf("%s %s: the document has no %s", request.Method, request.URL.Path, status)
		return
	}
	kind, _, _ := strings.Cut(answer.header.Get("Content-Type"), ";")
	if _, known := documented.Content[kind]; !known && (len(documented.Content) > 0 || len(answer.body) > 0) {
		t.Errorf("%s %s %s: the document has no %q", request.Method, request.URL.Path, status, kind)
		return
	}
	if media, _ := documented.Content[kind].(map[string]any); kind == mediaJSON && media["schema"] != nil {
		checkSchemaAt(t, strings.Join([]string{"/paths", escape(path), method, "responses", status, "content", escape(kind), "schema"}, "/"), answer.body)
	}
}

// escape makes a name part of a JSON pointer in an address.
func escape(name string) string {
	return url.PathEscape(strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1"))
}

func errorCode(body []byte) string {
	var answer errorBody
	_ = json.Unmarshal(body, &answer) // what is no error has no code
	return answer.Code
}

func TestDocumentIsValidOpenAPI(t *testing.T) {
	t.Parallel()
	parsed, err := libopenapi.NewDocument(openAPIDocument("1.2.3"))
	require.NoError(t, err)
	checks, failures := validator.NewValidator(parsed)
	require.Truef(t, len(failures) == 0, "%v", failures)
	if ok, problems := checks.ValidateDocument(); !ok {
		for _, problem := range problems {
			t.Errorf("%s: %s %v", problem.Message, problem.Reason, problem.SchemaValidationErrors)
		}
	}
}

// pathParameter is one as the router writes it.
var pathParameter = regexp.MustCompile(`:(\w+)`)

func TestDocumentHasExactlyTheRoutesThatAreServed(t *testing.T) {
	t.Parallel()
	h := newQuietHarness(t, says("x"))
	e, _ := h.server.handler.(*echo.Echo)
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
	assert.Truef(t, slices.Equal(served, written), "served %v\nwritten %v", served, written)
}

// Tags are the limits of requests, but struct tags cannot name the constants that imports and package chat have.
func TestRequestSchemasHaveTheLimitsThatAreChecked(t *testing.T) {
	t.Parallel()
	all := schemas()
	for limit, want := range map[string]int{
		"title maxLength": memory.MaxTitle, "system_prompt maxLength": memory.MaxSystemPrompt, "ttl_hours maximum": memory.MaxTTLHours,
		"max_turns maximum": memory.MaxTurnLimit, "tool_name maxLength": memory.MaxToolName, "content maxLength": chat.MaxContent,
		"sources maxItems": chat.MaxSources, "Source content maxLength": chat.MaxSourceContent,
	} {
		words := strings.Fields(limit)
		field, keyword := words[len(words)-2], words[len(words)-1]
		names := []string{"NewChatRequest", "ChangeChatRequest", "FirstMessageRequest", "MessageRequest"}
		if len(words) == 3 {
			names = words[:1]
		}
		for _, name := range names {
			property, has := all[name].(object)["properties"].(object)[field].(object)
			assert.Truef(t, !has || property[keyword] == float64(want),
				"%s of %s.%s is %v, checked is %d", keyword, name, field, property[keyword], want)
		}
	}
}

func TestExamplesMatchTheirSchemas(t *testing.T) {
	t.Parallel()
	for _, r := range routes() {
		if r.body() != nil {
			checkSchema(t, schemaName(r.body()), routeDocs()[r.id].example)
		}
	}
	parseEvents(t, ":"+strings.Repeat(" ", 1024)+"\n\n"+exampleStream(protocolEvents))
	parseUIStream(t, ":"+strings.Repeat(" ", 1024)+"\n\n"+exampleStream(protocolUI))
}

var update = flag.Bool("update", false, "write testdata/openapi.json from the code")

// The document is the public contract, so a change of it must be seen in review. Its keys are sorted.
func TestDocumentIsTheReviewedOne(t *testing.T) {
	t.Parallel()
	const golden = "testdata/openapi.json"
	made := openAPIDocument("1.2.3")
	if *update {
		require.NoError(t, os.WriteFile(golden, made, 0o600))
	}
	reviewed, err := os.ReadFile(golden)
	require.NoError(t, err)
	assert.Equalf(t, "", cmp.Diff(string(reviewed), string(made)),
		"the document differs from %s; if that is meant, run the test with -update\n", golden)
}
