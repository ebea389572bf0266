package offline

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Format is how an answer is to be written: text.format of a request. The zero value is plain text.
type Format struct {
	Type   string         `json:"type"`
	Name   string         `json:"name"`
	Strict bool           `json:"strict"`
	Schema map[string]any `json:"schema"`
}

// structured reports whether the answer has to be JSON.
func (f Format) structured() bool { return f.Type == "json_schema" || f.Type == "json_object" }

var formatName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// checkFormat refuses a text.format that the API refuses: the schemas are ours.
func checkFormat(r *Request) *apiError {
	format := r.TextOptions.Format
	switch {
	case format.Type == "json_object" && !strings.Contains(strings.ToLower(r.Text+r.Instructions), "json"):
		return bad("", "input", "Response input messages must contain the word 'json' in some form to use 'text.format' of type 'json_object'.")
	case format.Type != "json_schema":
		return nil
	case !formatName.MatchString(format.Name):
		return bad("invalid_value", "text.format.name", "Invalid 'text.format.name': string does not match pattern. Expected a string that matches the "+
			"pattern '^[a-zA-Z0-9_-]+$'.")
	case !format.Strict:
		return nil
	}
	if problem := schemaProblem(format.Schema); problem != "" {
		return bad("invalid_json_schema", "text.format.schema", "Invalid schema for response_format '%s': %s", format.Name, problem)
	}
	return nil
}

// The keywords of JSON Schema that strict mode does not have, and those under which there are further schemas by name.
var (
	notStrict    = []string{"allOf", "default", "dependentRequired", "dependentSchemas", "else", "if", "not", "oneOf", "then"}
	schemasNamed = []string{"$defs", "definitions", "properties"}
)

// schemaProblem returns why the API would refuse a schema in strict mode, "" if it would not.
func schemaProblem(schema map[string]any) string {
	if _, union := schema["anyOf"]; union || schema["type"] != "object" {
		return `schema must be a JSON Schema of 'type: "object"', got something else.`
	}
	return problemIn(schema, "()")
}

func problemIn(value any, place string) string {
	schema, ok := value.(map[string]any)
	if !ok {
		return fmt.Sprintf("In context=%s, schema must be an object.", place)
	}
	for _, keyword := range notStrict {
		if _, there := schema[keyword]; there {
			return fmt.Sprintf("In context=%s, '%s' is not permitted.", place, keyword)
		}
	}
	if problem := objectProblem(schema, place); problem != "" {
		return problem
	}
	inside := schemasIn(schema)
	for _, inner := range slices.Sorted(maps.Keys(inside)) {
		if problem := problemIn(inside[inner], place+" > "+inner); problem != "" {
			return problem
		}
	}
	return ""
}

// objectProblem checks that an object has no other properties than its own, and requires each of them.
func objectProblem(schema map[string]any, place string) string {
	properties, has := schema["properties"].(map[string]any)
	if schema["type"] != "object" && !has {
		return ""
	}
	if schema["additionalProperties"] != false {
		return fmt.Sprintf("In context=%s, 'additionalProperties' is required to be supplied and to be false.", place)
	}
	required := []string{}
	for _, name := range asList(schema["required"]) {
		if text, ok := name.(string); ok {
			required = append(required, text)
		}
	}
	slices.Sort(required)
	if !slices.Equal(required, slices.Sorted(maps.Keys(properties))) {
		return fmt.Sprintf("In context=%s, 'required' is required to be supplied and to be an array including every key in properties.", place)
	}
	return ""
}

// schemasIn returns the schemas within a schema by their place.
func schemasIn(schema map[string]any) map[string]any {
	found := map[string]any{}
	for _, keyword := range schemasNamed {
		named, _ := schema[keyword].(map[string]any)
		for name, inner := range named {
			found[keyword+"."+name] = inner
		}
	}
	if items, there := schema["items"]; there || schema["type"] == "array" {
		found["items"] = items
	}
	for n, inner := range asList(schema["anyOf"]) {
		found[fmt.Sprintf("anyOf.%d", n)] = inner
	}
	return found
}

func asList(value any) []any {
	list, _ := value.([]any)
	return list
}

// leastOf returns the least that a schema allows. It is what an answer of a form says that this model knows nothing of.
func leastOf(schema map[string]any) any {
	if choices := asList(schema["enum"]); len(choices) > 0 {
		return choices[0]
	}
	if choices := asList(schema["anyOf"]); len(choices) > 0 {
		first, _ := choices[0].(map[string]any)
		return leastOf(first)
	}
	kind := schema["type"]
	if kinds := asList(kind); len(kinds) > 0 {
		if slices.Contains(kinds, any("null")) {
			return nil
		}
		kind = kinds[0]
	}
	switch kind {
	case "array":
		return []any{}
	case "string":
		return ""
	case "integer", "number":
		return 0
	case "boolean":
		return false
	case "null":
		return nil
	}
	least := object{}
	properties, _ := schema["properties"].(map[string]any)
	for name, value := range properties {
		inner, _ := value.(map[string]any)
		least[name] = leastOf(inner)
	}
	return least
}

// asJSON writes an answer of a form.
func asJSON(value any) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err) // our own structures
	}
	return strings.TrimSuffix(out.String(), "\n")
}
