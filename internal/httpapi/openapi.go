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

	"github.com/swaggest/jsonschema-go"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
)

// object is a JSON object of the OpenAPI document.
type object = map[string]any

const schemaPrefix = "#/components/schemas/"

// openAPIDocument describes the API (OpenAPI 3.1): what depends on no code is in openapi_base.json, paths follow from the routes, schemas from the types that they read
// and answer with, statuses of errors from the table of errors.
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
		responses[strconv.Itoa(r.status)] = answer(texts.answer, object{mediaJSON: object{"schema": schemaRef(schemaName(r.out))}})
	case texts.answer != "":
		responses[strconv.Itoa(http.StatusNoContent)] = answer(texts.answer, nil)
	}
	for status, codes := range byStatus(r.allErrors()) {
		responses[strconv.Itoa(status)] = errorAnswer(status, codes)
	}
	document := object{
		"operationId": r.id, "tags": []string{texts.tag}, "summary": texts.summary, "description": texts.description, "responses": responses,
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
