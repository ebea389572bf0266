package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"
	"github.com/swaggest/jsonschema-go"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
)

// object is a JSON object of the OpenAPI document.
type object = map[string]any

const (
	schemaPrefix = "#/components/schemas/"
	description  = `Streams a model's replies as server-sent events, keeps every turn in the app's own Postgres, and
keeps a memory of the conversation.

Sending is idempotent by ` + "`client_message_id`" + `. A stream that broke off goes on with GET, from the id of the
last event the client has seen. A stream is written in our own protocol or, where a client asks for it, in that of
Vercel's AI SDK. Every failed request is answered with the schema Error, and every answer carries X-Request-Id.`
)

// openAPIDocument describes the API (OpenAPI 3.1): paths follow from the routes, schemas from the types that they read
// and answer with, statuses of errors from the table of errors.
func openAPIDocument(version string) []byte {
	if version == "" {
		version = "dev"
	}
	document := object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Throughline", "version": version, "description": description,
			"license": object{"name": "See the project's LICENSE file", "url": "https://github.com/arcoscribe/throughline"},
		},
		"servers": []object{{"url": "/"}},
		"tags": []object{
			{"name": "messages", "description": "Sending messages and reading replies."},
			{"name": "chats", "description": "Chats and their messages: list, change, clear, prune, delete."},
			{"name": "account", "description": "Everything about a user in one file."},
			{"name": "topics", "description": "What a chat was about: topics that fade and come back."},
			{"name": "memories", "description": "What a user is remembered for across chats: see, correct, forget."},
			{"name": "tools", "description": "The same chats for editors, assistants and agents."},
			{"name": "operations", "description": "What the operator and the infrastructure ask."},
		},
		"paths": paths(),
		"components": object{
			"schemas": schemas(),
			"headers": headers(),
			"securitySchemes": object{"user": object{
				"type": "http", "scheme": "bearer", "bearerFormat": "JWT", "description": "A Supabase access token of a signed-in user.",
			}},
		},
	}
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
	responses := object{}
	maps.Copy(responses, r.answers)
	switch {
	case r.out != nil:
		responses[strconv.Itoa(r.status)] = answer(r.answer, object{mediaJSON: object{"schema": schemaRef(schemaName(r.out))}})
	case r.answer != "":
		responses[strconv.Itoa(http.StatusNoContent)] = answer(r.answer, nil)
	}
	for status, codes := range byStatus(r.allErrors()) {
		responses[strconv.Itoa(status)] = errorAnswer(status, codes)
	}
	document := object{
		"operationId": r.id, "tags": []string{r.tag}, "summary": r.summary, "description": r.description, "responses": responses,
		"security": []object{{"user": []string{}}},
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
			"content":  object{mediaJSON: object{"schema": schemaRef(schemaName(r.body())), "example": r.example}},
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

func headers() object {
	text := object{"type": "string"}
	return object{
		"X-Request-Id": object{
			"description": "Names the request in the server's log; the client's own id when it sent a usable one.", "required": true, "schema": text,
		},
		"Retry-After": object{
			"description": "Whole seconds after which trying again makes sense.", "required": true,
			"schema": object{"type": "integer", "minimum": 1},
		},
		"Content-Disposition": object{"description": "attachment, with a name for the file.", "required": true, "schema": text},
		"WWW-Authenticate": object{
			"description": "Bearer; with a token also why it was refused, where that may be told (RFC 6750).", "required": true,
			"schema": object{"type": "string", "pattern": "^Bearer"},
		},
		headerUIStream: object{"description": "Tells that the stream is the AI SDK's UI message stream.", "schema": object{"const": uiStreamVersion}},
	}
}

func header(name, description string, schema object) object {
	return object{"name": name, "in": "header", "description": description, "schema": schema}
}

// Parameters of sending and reading a message. Handlers read them one by one.
var (
	parameterLastEventID = header(headerLastEventID, "The id of the last event that the client has seen: `<message id>:<characters>`, or `<message id>:end`.",
		object{"type": "string", "pattern": "^[0-9a-fA-F-]{36}:([0-9]+|end)$"})
	parameterAfter = object{
		"name": "after", "in": "query", "description": "Characters of the chat's latest reply that the client has, or `end`. The header Last-Event-ID wins.",
		"schema": object{"type": "string", "pattern": "^([0-9]+|end)$"},
	}
	parameterIdempotencyKey = header(headerIdempotencyKey, "Stands for client_message_id where the body has none.",
		object{"type": "string", "minLength": 1, "maxLength": maxIdempotencyKey})
	parameterAccept = header(echo.HeaderAccept, "application/json asks for the whole reply as one object, unless a protocol is named; anything else means events.",
		object{"type": "string"})
	parameterProtocol = object{
		"name": queryProtocol, "in": "query",
		"description": "How the stream is written: `events` is our own protocol and the default, `ui` the AI SDK's UI message stream. " +
			"It counts for more than the headers.",
		"schema": object{"enum": []protocol{protocolEvents, protocolUI}},
	}
	parameterUIStream = header(headerUIStream, "Asks for the AI SDK's UI message stream, as `?protocol=ui` does.", object{"const": uiStreamVersion})
)

func pathParameters(path string) []object {
	var parameters []object
	for name := range pathIDs {
		if strings.Contains(path, "{"+name+"}") {
			parameters = append(parameters, describePathID(name))
		}
	}
	slices.SortFunc(parameters, func(a, b object) int { return strings.Compare(a["name"].(string), b["name"].(string)) })
	return parameters
}

func describePathID(name string) object {
	parameter := object{"name": name, "in": "path", "required": true, "schema": schemaRef("UUID")}
	if name == "topic_id" {
		parameter["description"] = "A topic of the chat, or `current` for the active one with the latest turn."
		parameter["schema"] = object{"anyOf": []object{schemaRef("UUID"), {"const": history.CurrentTopic}}}
	}
	return parameter
}

// queryParameters describes the fields of a struct that readQuery reads; nil for no struct.
func queryParameters(of reflect.Type) []object {
	if of == nil {
		return nil
	}
	properties := reflectSchema(of, jsonschema.PropertyNameTag("query"))["properties"].(object)
	var parameters []object
	for name, field := range fieldsByTag(of, "query") {
		schema := properties[name].(object)
		parameter := object{"name": name, "in": "query", "description": schema["description"], "schema": schema}
		delete(schema, "description")
		if field.Tag.Get("required") == "true" {
			parameter["required"] = true
		}
		parameters = append(parameters, parameter)
	}
	slices.SortFunc(parameters, func(a, b object) int { return strings.Compare(a["name"].(string), b["name"].(string)) })
	return parameters
}
