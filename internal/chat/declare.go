package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/memory"
)

// ToolDeclaration is a tool that a message offers to the model: a function of the client, or a tool of the server by its name alone.
type ToolDeclaration struct {
	_           struct{}        `description:"A tool that the model may call: a function of the app's own, or one of the server's tools by its name alone."`
	Type        string          `json:"type" required:"true" enum:"function,server"`
	Name        string          `json:"name" required:"true" pattern:"^[A-Za-z0-9_-]{1,64}$"`
	Description string          `json:"description,omitempty" nullable:"true" description:"What it does, for the model."`
	Parameters  json.RawMessage `json:"parameters,omitempty" type:"object,null" doc:"toolDeclaration.parameters"`
	Strict      bool            `json:"strict,omitempty" nullable:"true" doc:"toolDeclaration.strict"`
}

// The types of declarations.
const (
	toolFunction = "function"
	toolServer   = "server"
)

// toolName is what a tool may be called.
var toolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// checkTools normalizes the functions, and adds a sentence to wrong for each that cannot be offered.
func (m *Message) checkTools(wrong map[string]any) {
	if !slices.Contains([]ToolChoice{"", ChoiceAuto, ChoiceNone, ChoiceRequired}, m.ToolChoice) {
		wrong["tool_choice"] = "must be one of auto, none, required"
	}
	if m.Tools == nil {
		return
	}
	declared := slices.Clone(*m.Tools)
	m.Tools = &declared
	if len(declared) > MaxTools {
		wrong["tools"] = fmt.Sprintf("has %d entries, at most %d are accepted", len(declared), MaxTools)
		return
	}
	bytes, seen := 0, map[string]bool{}
	for i := range declared {
		tool, at := &declared[i], "tools["+strconv.Itoa(i)+"]."
		bytes += len(tool.Name) + len(tool.Description) + len(tool.Parameters)
		for member, problem := range tool.normalize() {
			wrong[at+member] = problem
		}
		if seen[tool.Name] {
			wrong[at+"name"] = "is that of a tool before it"
		}
		seen[tool.Name] = true
	}
	if bytes > MaxToolsBytes {
		wrong["tools"] = fmt.Sprintf("has %d bytes, at most %d are accepted", bytes, MaxToolsBytes)
	}
}

func (d *ToolDeclaration) normalize() map[string]string {
	switch {
	case d.Type == toolFunction:
		f := d.function()
		wrong := f.Normalize()
		d.Parameters = f.Parameters
		return wrong
	case d.Type != toolServer:
		return map[string]string{"type": "must be one of function, server"}
	case d.Description != "":
		return map[string]string{"description": onlyOfFunctions}
	case len(d.Parameters) > 0:
		return map[string]string{"parameters": onlyOfFunctions}
	case d.Strict:
		return map[string]string{"strict": onlyOfFunctions}
	}
	return nil
}

const onlyOfFunctions = "is for functions alone: the server knows its own tools"

func (d *ToolDeclaration) function() Function {
	return Function{Name: d.Name, Description: d.Description, Parameters: d.Parameters, Strict: d.Strict}
}

// noParameters is the schema of a function that takes none.
var noParameters = json.RawMessage(`{"type":"object","properties":{},"required":[],"additionalProperties":false}`)

// Normalize gives a function without parameters the schema for that. It returns the mistakes in its members, by their names.
func (f *Function) Normalize() map[string]string {
	wrong := map[string]string{}
	if !toolName.MatchString(f.Name) {
		wrong["name"] = "must be 1 to 64 letters, digits, hyphens and underscores"
	}
	if memory.HoldsNUL(f.Description) || !utf8.ValidString(f.Description) {
		wrong["description"] = "must be UTF-8 without the character U+0000"
	}
	if len(f.Parameters) == 0 {
		f.Parameters = noParameters
	}
	if problem := f.normalizeSchema(); problem != "" {
		wrong["parameters"] = problem
	}
	return wrong
}

// normalizeSchema keeps the order of the members: a model fills them in as they stand.
func (f *Function) normalizeSchema() string {
	stored, problem := memory.StorableJSON(f.Parameters)
	if problem != "" {
		return problem
	}
	var schema map[string]any
	_ = json.Unmarshal(stored, &schema) // nil for anything but an object
	switch {
	case schema != nil && len(schema) == 0:
		f.Parameters = noParameters
	case schema["type"] != "object":
		return `must be a JSON schema with "type": "object"`
	case f.Strict && !isStrict(schema):
		return `is not strict: each object in it needs "additionalProperties": false, and must require all its properties`
	case bytes.ContainsRune(stored, utf8.RuneError): // perhaps for half a character, which Postgres cannot store
		f.Parameters = stored
	}
	return ""
}

// Members of a schema that hold schemas: by name, in a list, and one alone.
var (
	namedSchemas  = []string{"properties", "$defs", "definitions"}
	listedSchemas = []string{"anyOf", "oneOf", "allOf", "prefixItems"}
)

// isStrict reports whether a model that is held to the schema has no choice of members, at any depth.
func isStrict(value any) bool {
	schema, _ := value.(map[string]any) // nil for true and false
	properties, hasProperties := schema["properties"].(map[string]any)
	if (hasProperties || isObject(schema["type"])) && !isClosed(schema, properties) {
		return false
	}
	within := []any{schema["items"]}
	for _, name := range namedSchemas {
		named, _ := schema[name].(map[string]any)
		for _, one := range named {
			within = append(within, one)
		}
	}
	for _, name := range listedSchemas {
		listed, _ := schema[name].([]any)
		within = append(within, listed...)
	}
	loose := func(one any) bool { return one != nil && !isStrict(one) }
	return !slices.ContainsFunc(within, loose)
}

// isObject reports whether a schema's type, which may be a list, is one of objects.
func isObject(types any) bool {
	listed, _ := types.([]any)
	return types == "object" || slices.Contains(listed, any("object"))
}

// isClosed reports whether an object has all the properties of its schema, and no others.
func isClosed(schema, properties map[string]any) bool {
	required, _ := schema["required"].([]any)
	for name := range properties {
		if !slices.Contains(required, any(name)) {
			return false
		}
	}
	return schema["additionalProperties"] == false
}

// offered returns the functions that the model is told of for a message, and the fault of one that it must not be told of. A message
// that declares none offers all tools of the server that the variant has.
func (s *Service) offered(m *Message, variant string) (functions []Function, err error) {
	wrong := map[string]any{}
	if m.Tools == nil {
		for i := range s.Tools {
			if s.Tools[i].has(variant) {
				functions = append(functions, s.Tools[i].Function)
			}
		}
	} else {
		for i := range *m.Tools {
			function, problem := s.declared(&(*m.Tools)[i], variant)
			if problem != "" {
				wrong["tools["+strconv.Itoa(i)+"].name"] = problem
			}
			functions = append(functions, function)
		}
	}
	if m.ToolChoice == ChoiceRequired && len(functions) == 0 {
		wrong["tool_choice"] = "must not be required without a tool"
	}
	if len(wrong) > 0 {
		return nil, invalid(wrong)
	}
	return functions, nil
}

// declared returns the function that a declaration stands for, or why it stands for none.
func (s *Service) declared(d *ToolDeclaration, variant string) (Function, string) {
	tool := s.serverTool(d.Name)
	switch {
	case d.Type == toolFunction && tool != nil:
		return Function{}, "is that of a tool of the server"
	case d.Type == toolFunction:
		return d.function(), ""
	case tool == nil:
		return Function{}, "is not that of a tool of the server"
	case !tool.has(variant):
		return Function{}, "is that of a tool for other model variants: " + strings.Join(tool.Variants, ", ")
	}
	return tool.Function, ""
}

// serverTool returns a tool of the server by its name; nil for any other.
func (s *Service) serverTool(name string) *ServerTool {
	i := slices.IndexFunc(s.Tools, func(tool ServerTool) bool { return tool.Name == name })
	if i < 0 {
		return nil
	}
	return &s.Tools[i]
}

// has reports whether a model variant may call the tool.
func (t *ServerTool) has(variant string) bool {
	return len(t.Variants) == 0 || slices.Contains(t.Variants, variant)
}
