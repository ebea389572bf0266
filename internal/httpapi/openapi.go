package httpapi

import (
	_ "embed" // the texts
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/google/uuid"
	"github.com/swaggest/jsonschema-go"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/streaming"
)

type object = map[string]any

const schemaPrefix = "#/components/schemas/"

// openAPIDocument describes the API (OpenAPI 3.1): the fixed parts are in openapi_base.json, paths follow from
// the routes, schemas from the types that they read and answer with, statuses of errors from the table of errors.
func openAPIDocument(version string) []byte {
	if version == "" {
		version = "dev"
	}
	document, info, components := maps.Clone(fixedParts()), object{"version": version}, object{"schemas": schemas()}
	delete(document, "parameters")
	maps.Copy(info, document["info"].(object))
	for _, name := range []string{"headers", "securitySchemes"} {
		components[name] = document["components"].(object)[name]
	}
	document["info"], document["components"], document["paths"] = info, components, paths()
	encoded, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("httpapi: the OpenAPI document cannot be encoded: %v", err))
	}
	return append(encoded, '\n')
}

func paths() object {
	paths := object{}
	for _, r := range routes() {
		item, ok := paths[r.path].(object)
		if !ok {
			item = object{}
			paths[r.path] = item
		}
		item[strings.ToLower(r.method)] = r.document()
	}
	return paths
}

// document is the route as an OpenAPI operation.
func (r *route) document() object {
	texts, responses := routeDocs()[r.id], object{}
	maps.Copy(responses, r.answers)
	switch {
	case r.out != nil:
		schema := object{"schema": schemaRef(schemaName(r.out))}
		responses[strconv.Itoa(r.status)] = answer(texts.answer, object{mediaJSON: schema})
		if r.method == http.MethodGet {
			responses[strconv.Itoa(http.StatusNotModified)] = answer("The answer whose ETag is in If-None-Match.", nil)
		}
	case texts.answer != "":
		responses[strconv.Itoa(http.StatusNoContent)] = answer(texts.answer, nil)
	}
	for status, codes := range byStatus(r.allErrors()) {
		responses[strconv.Itoa(status)] = errorAnswer(status, codes)
	}
	document := object{
		"operationId": r.id, "tags": []string{texts.tag}, "summary": texts.summary, "description": texts.description,
		"responses": responses,
		"security":  []object{{"user": []string{}}},
	}
	if r.public {
		document["security"] = []object{}
	}
	if parameters := slices.Concat(pathParameters(r.path), r.parameters, queryParameters(r.query())); len(parameters) > 0 {
		document["parameters"] = parameters
	}
	if r.body() != nil {
		document["requestBody"] = object{
			"required": !r.bodyOptional,
			"content":  object{mediaJSON: object{"schema": schemaRef(schemaName(r.body())), "example": texts.example}},
		}
	}
	if r.content != nil {
		document["requestBody"] = object{"required": true, "content": r.content}
	}
	return document
}

func byStatus(codes []fault.Code) map[int][]fault.Code {
	grouped := map[int][]fault.Code{}
	for _, code := range codes {
		grouped[statusOf(code)] = append(grouped[statusOf(code)], code)
	}
	return grouped
}

// errorAnswer is a response with the schema Error, narrowed to the codes that come with the status.
func errorAnswer(status int, codes []fault.Code) object {
	names := make([]string, len(codes))
	for i, code := range codes {
		names[i] = "`" + string(code) + "`"
	}
	also := []string{}
	switch status {
	case 401:
		also = []string{"WWW-Authenticate"}
	case 429, 503:
		also = []string{"Retry-After"}
	}
	return answer("Codes: "+strings.Join(names, ", "), object{mediaJSON: object{
		"schema": object{
			"allOf":      []object{schemaRef("Error")},
			"properties": object{"code": object{"enum": codes}},
		},
		"example": object{"code": codes[0], "message": "One sentence for a person."},
	}}, also...)
}

// answer is a response with the headers that every answer has, and further ones.
func answer(description string, content object, further ...string) object {
	references := object{}
	for _, name := range append(further, "X-Request-Id") {
		references[name] = object{"$ref": "#/components/headers/" + name}
	}
	response := object{"description": description, "headers": references}
	if content != nil {
		response["content"] = content
	}
	return response
}

func schemaRef(name string) object {
	return object{"$ref": schemaPrefix + name}
}

// parameters are described in openapi_base.json. Handlers read them one by one.
func parameters(names ...string) []object {
	var described []object
	for _, name := range names {
		described = append(described, fixedParts()["parameters"].(object)[name].(object))
	}
	return described
}

// pathParameters describes the parameters of a path, in their order.
func pathParameters(path string) []object {
	var parameters []object
	for part := range strings.SplitSeq(path, "/") {
		name, found := strings.CutPrefix(part, "{")
		if name = strings.TrimSuffix(name, "}"); !found {
			continue
		}
		parameter := object{"name": name, "in": "path", "required": true, "schema": schemaRef("UUID")}
		switch name {
		case "call_id":
			parameter["schema"] = object{"type": "string"}
		case "topic_id":
			parameter["description"] = "A topic of the chat, or `current` for the active one with the latest turn."
			parameter["schema"] = object{"anyOf": []object{schemaRef("UUID"), {"const": api.CurrentTopic}}}
		}
		parameters = append(parameters, parameter)
	}
	return parameters
}

// queryParameters describes the fields of a struct that readQuery reads; nil for no struct.
func queryParameters(of reflect.Type) []object {
	if of == nil {
		return nil
	}
	properties := reflectSchema(of, jsonschema.PropertyNameTag("query"))["properties"].(object)
	var parameters []object
	fields := fieldsByTag(of, "query")
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		schema := properties[name].(object)
		parameter := object{"name": name, "in": "query", "description": schema["description"], "schema": schema}
		delete(schema, "description")
		if fields[name].Tag.Get("required") == "true" {
			parameter["required"] = true
		}
		parameters = append(parameters, parameter)
	}
	return parameters
}

var (
	//go:embed descriptions.txt
	fieldTexts string
	//go:embed routes.txt
	routeTexts string
	//go:embed openapi_base.json
	fixedText []byte
)

// fieldDocs are the descriptions of descriptions.txt by their key. A long description of a field stands there, and the field
// names it in its tag doc; a short one is the field's tag description.
var fieldDocs = sync.OnceValue(func() map[string]string {
	docs := map[string]string{}
	for key, text := range entries(fieldTexts) {
		docs[key] = strings.Join(strings.Fields(text), " ")
	}
	return docs
})

// routeDoc is what routes.txt says of a route. Lines of the answer, the errors and the example begin with a mark.
type routeDoc struct {
	tag, summary, description, answer string
	errors                            []fault.Code
	example                           json.RawMessage
}

// routeDocs are the entries of routes.txt by the id of a route.
var routeDocs = sync.OnceValue(func() map[string]routeDoc {
	docs := map[string]routeDoc{}
	for id, text := range entries(routeTexts) {
		var doc routeDoc
		var description []string
		title, text, _ := strings.Cut(strings.TrimSpace(text), "\n")
		doc.tag, doc.summary, _ = strings.Cut(title, ": ")
		for line := range strings.SplitSeq(text, "\n") {
			switch mark, rest, _ := strings.Cut(line, " "); mark {
			case "=":
				doc.answer = rest
			case "!":
				for code := range strings.FieldsSeq(rest) {
					doc.errors = append(doc.errors, fault.Code(code))
				}
			case ">":
				doc.example = json.RawMessage(rest)
			default:
				description = append(description, line)
			}
		}
		doc.description = strings.Join(strings.Fields(strings.Join(description, " ")), " ")
		docs[id] = doc
	}
	return docs
})

// entries are separated by empty lines. Each begins with its key in brackets.
func entries(texts string) map[string]string {
	all := map[string]string{}
	for entry := range strings.SplitSeq(texts, "\n\n") {
		if key, text, ok := strings.Cut(strings.TrimPrefix(entry, "["), "]"); ok && entry[0] == '[' {
			all[key] = text
		}
	}
	return all
}

// fixedParts are the parts of the document that follow from no code, and the parameters that handlers read one by one.
var fixedParts = sync.OnceValue(func() (parts object) {
	if err := json.Unmarshal(fixedText, &parts); err != nil {
		panic(fmt.Sprintf("httpapi: openapi_base.json: %v", err))
	}
	return parts
})

const (
	exampleChat    = "0198a1f2-7c11-7d3e-9a44-5b0e6f1c2d31"
	exampleAsked   = "0198a1f2-7c12-7b60-8f0d-2a7c9e4b1f52"
	exampleReply   = "0198a1f2-7c13-7aa9-b3c8-6d1e0f9a8b73"
	exampleRequest = "8c9f4d0e-1b2a-4c3d-9e8f-7a6b5c4d3e2f"
)

// uiSchema is the component schema of one event of a UI message stream.
const uiSchema = "UIMessageEvent"

// replyAnswer is a reply as events or, with orWhole, as one object. OpenAPI 3.1 cannot describe the events within a body;
// x-item-schema is 3.2's itemSchema.
func replyAnswer(orWhole bool) object {
	content := object{mediaEventStream: object{
		"schema": object{
			"type": "string",
			"description": "Server-sent events. In our own protocol message.started, any number of content.delta and part.added, and one last event " +
				"(completion, message.failed, message.cancelled or message.awaiting); in the AI SDK's the events of UIMessageEvent and then [DONE]. " +
				"Lines that begin with a colon are comments.",
		},
		"x-item-schema": object{"oneOf": []object{schemaRef("StreamEvent"), schemaRef(uiSchema)}},
		"examples": object{
			"events": object{"value": exampleStream(protocolEvents)}, "ui": object{"value": exampleStream(protocolUI)},
		},
	}}
	if orWhole {
		content[mediaJSON] = object{"schema": schemaRef("WholeReply")}
	}
	return answer("The reply.", content, headerUIStream)
}

// exampleStream is a short reply, made by the encoder of the real streams, without the padding.
func exampleStream(protocol protocol) string {
	var out strings.Builder // never fails
	chatID, messageID := uuid.MustParse(exampleChat), uuid.MustParse(exampleReply)
	encoder := protocol.encoder(&out, messageID)
	_ = encoder.Started(streaming.Started{ChatID: chatID, UserMessageID: uuid.MustParse(exampleAsked), MessageID: messageID, ModelVariant: "arco"})
	_ = encoder.Chunk(streaming.Chunk{Text: []byte("Slow scales.")})
	_ = encoder.Chunk(streaming.Chunk{Offset: 12, End: &streaming.Terminal{Completed: &streaming.Completed{
		ChatID: chatID, MessageID: messageID, FinishReason: "stop", ModelVariant: "arco", ContentLength: 12,
		Usage: streaming.Usage{InputTokens: 120, CachedTokens: 64, OutputTokens: 4}, Memory: []byte("null"),
	}}})
	return out.String()
}
