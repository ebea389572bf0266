package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/arcoscribe/throughline/internal/fault"
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

// openAPIDocument makes the description of the API (OpenAPI 3.1): schemas by reflection from the
// types that the handlers read and write, paths from operations, statuses from the table of errors.
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
			{"name": "tools", "description": "The same chats for editors, assistants and agents."},
			{"name": "operations", "description": "What the operator and the infrastructure ask."},
		},
		"paths": paths(),
		"components": object{
			"schemas":    schemas(),
			"parameters": parameters(),
			"headers":    headers(),
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
	for _, o := range operations() {
		item, ok := paths[o.path].(object)
		if !ok {
			item = object{}
			paths[o.path] = item
		}
		item[strings.ToLower(o.method)] = o.document()
	}
	return paths
}

// operation is one method of one path.
type operation struct {
	method, path, id, tag, summary, description string

	user       bool // needs an access token
	parameters []string
	// body is the schema of the request's body with its example; "" for none.
	body    string
	example any
	// content is the request's body by media type, where it is not one of JSON; nil for none.
	content object
	// bodyOptional tells that the body may be left out.
	bodyOptional bool
	answers      object // by status
	errors       []fault.Code
}

func (o operation) document() object {
	responses := maps.Clone(o.answers)
	for status, codes := range byStatus(o.errors) {
		responses[strconv.Itoa(status)] = errorAnswer(status, codes)
	}
	document := object{
		"operationId": o.id, "tags": []string{o.tag}, "summary": o.summary, "description": o.description, "responses": responses,
		"security": []object{},
	}
	if o.user {
		document["security"] = []object{{"user": []string{}}}
	}
	if len(o.parameters) > 0 {
		references := make([]object, len(o.parameters))
		for i, name := range o.parameters {
			references[i] = object{"$ref": "#/components/parameters/" + name}
		}
		document["parameters"] = references
	}
	if o.body != "" {
		document["requestBody"] = object{
			"required": !o.bodyOptional,
			"content":  object{mediaJSON: object{"schema": schemaRef(o.body), "example": o.example}},
		}
	}
	if o.content != nil {
		document["requestBody"] = object{"required": true, "content": o.content}
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
	slices.Sort(codes)
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
		"X-Request-Id":        object{"description": "Names the request in the server's log; the client's own id when it sent a usable one.", "required": true, "schema": text},
		"Retry-After":         object{"description": "Whole seconds after which trying again makes sense.", "required": true, "schema": object{"type": "integer", "minimum": 1}},
		"Content-Disposition": object{"description": "attachment, with a name for the file.", "required": true, "schema": text},
		"WWW-Authenticate":    object{"description": "Always Bearer.", "required": true, "schema": object{"const": "Bearer"}},
		headerUIStream:        protocolHeader(),
	}
}

func parameters() object {
	text := object{"type": "string"}
	all := object{
		"ChatID": object{"name": "chat_id", "in": "path", "required": true, "schema": object{"type": "string", "format": "uuid"}},
		"LastEventID": object{
			"name": headerLastEventID, "in": "header", "description": "The id of the last event that the client has seen: `<message id>:<characters>`, or `<message id>:end`.",
			"schema": object{"type": "string", "pattern": "^[0-9a-fA-F-]{36}:([0-9]+|end)$"},
		},
		"After": object{
			"name": "after", "in": "query", "description": "Characters of the chat's latest reply that the client has, or `end`. The header Last-Event-ID wins.",
			"schema": object{"type": "string", "pattern": "^([0-9]+|end)$"},
		},
		"IdempotencyKey": object{
			"name": headerIdempotencyKey, "in": "header", "description": "Stands for client_message_id where the body has none.",
			"schema": object{"type": "string", "minLength": 1, "maxLength": maxIdempotencyKey},
		},
		"Accept": object{
			"name": "Accept", "in": "header", "description": "application/json asks for the whole reply as one object, unless a protocol is named; anything else means events.", "schema": text,
		},
	}
	maps.Copy(all, protocolParameters())
	maps.Copy(all, historyParameters())
	maps.Copy(all, memoryParameters())
	maps.Copy(all, searchParameters())
	maps.Copy(all, transferParameters())
	return all
}
