package chat

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/fault"
)

func declares(tools ...ToolDeclaration) Message { return Message{Content: "x", Tools: &tools} }

func aFunction(name, parameters string) ToolDeclaration {
	return ToolDeclaration{Type: "function", Name: name, Parameters: json.RawMessage(parameters)}
}

func strict(parameters string) ToolDeclaration {
	tool := aFunction("f", parameters)
	tool.Strict = true
	return tool
}

func TestDeclarationLimits(t *testing.T) {
	t.Parallel()
	many := func(n, bytes int) (tools []ToolDeclaration) {
		for i := range n {
			tools = append(tools, ToolDeclaration{Type: "function", Name: fmt.Sprintf("f%02d", i), Description: strings.Repeat("d", bytes)})
		}
		return tools
	}
	closed := func(properties, required string) string {
		return fmt.Sprintf(`{"type":"object","properties":{%s},"required":[%s],"additionalProperties":false}`, properties, required)
	}
	for _, c := range []struct {
		name    string
		message Message
		wrong   []string
	}{
		{"none", declares(), nil},
		{"a function and a tool of the server", declares(aFunction("take_photo", `{"type":"object"}`), ToolDeclaration{Type: "server", Name: "order_taxi"}), nil},
		{"as many and as long as may be", declares(many(32, 1900)...), nil},
		{"too many", declares(many(33, 1)...), []string{"tools"}},
		{"too long together", declares(many(32, 2048)...), []string{"tools"}},
		{"another type", declares(ToolDeclaration{Type: "mcp", Name: "f"}), []string{"tools[0].type"}},
		{"no name", declares(aFunction("", "")), []string{"tools[0].name"}},
		{"a name with a dot", declares(aFunction("a.b", "")), []string{"tools[0].name"}},
		{"a name too long", declares(aFunction(strings.Repeat("a", 65), "")), []string{"tools[0].name"}},
		{"a name twice", declares(aFunction("f", ""), aFunction("g", ""), ToolDeclaration{Type: "server", Name: "f"}), []string{"tools[2].name"}},
		{"NUL", declares(ToolDeclaration{Type: "function", Name: "f", Description: "\x00"}), []string{"tools[0].description"}},
		{"a server's with a description", declares(ToolDeclaration{Type: "server", Name: "f", Description: "d"}), []string{"tools[0].description"}},
		{"a server's with parameters", declares(ToolDeclaration{Type: "server", Name: "f", Parameters: []byte(`{}`)}), []string{"tools[0].parameters"}},
		{"a server's with strict", declares(ToolDeclaration{Type: "server", Name: "f", Strict: true}), []string{"tools[0].strict"}},
		{"parameters that are a list", declares(aFunction("f", `[]`)), []string{"tools[0].parameters"}},
		{"parameters of another type", declares(aFunction("f", `{"type":"array"}`)), []string{"tools[0].parameters"}},
		{"parameters without a type", declares(aFunction("f", `{"properties":{}}`)), []string{"tools[0].parameters"}},
		{"parameters that Postgres cannot store", declares(aFunction("f", `{"type":"object","title":"\u0000"}`)), []string{"tools[0].parameters"}},
		{"parameters too deep", declares(aFunction("f", strings.Repeat(`{"a":`, 33)+"1"+strings.Repeat("}", 33))), []string{"tools[0].parameters"}},

		{"strict without parameters", declares(strict(`{}`)), nil},
		{"strict", declares(strict(closed(`"a":{"type":"string"},"b":`+closed("", ""), `"b","a"`))), nil},
		{"strict and open", declares(strict(`{"type":"object"}`)), []string{"tools[0].parameters"}},
		{"an optional property", declares(strict(closed(`"a":{"type":"string"}`, ""))), []string{"tools[0].parameters"}},
		{"an open object within", declares(strict(closed(`"a":{"type":["object","null"]}`, `"a"`))), []string{"tools[0].parameters"}},
		{"an open object in a list", declares(strict(closed(`"a":{"type":"array","items":{"properties":{}}}`, `"a"`))), []string{"tools[0].parameters"}},
		{"an open object among others", declares(strict(closed(`"a":{"anyOf":[{"type":"null"},{"type":"object"}]}`, `"a"`))), []string{"tools[0].parameters"}},
		{"an open definition", declares(strict(`{"$defs":{"d":{"type":"object"}},` + closed("", "")[1:])), []string{"tools[0].parameters"}},
		{"properties that are called like words of the schema", declares(strict(closed(`"anyOf":{"type":"string"},"items":true`, `"anyOf","items"`))), nil},

		{"a choice", Message{Content: "x", ToolChoice: ChoiceRequired}, nil},
		{"another choice", Message{Content: "x", ToolChoice: "always"}, []string{"tool_choice"}},
	} {
		err := c.message.normalize()
		assert.Equalf(t, c.wrong, wrongFields(err), "%s: %v", c.name, err)
	}
}

// wrongFields are the names in a validation error's details; nil for no error.
func wrongFields(err error) []string {
	refused, _ := err.(*fault.Error) //nolint:errorlint // it comes as it is
	if refused == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(refused.Details))
}

func TestDeclaredSchemasAreFilledIn(t *testing.T) {
	t.Parallel()
	half := aFunction("half", `{"type":"object","title":"\ud83d"}`)
	message := declares(aFunction("none", ""), aFunction("empty", ` { } `), aFunction("order", `{"type":"object", "b":1, "a":1}`), half)
	sent := message.Tools
	require.NoError(t, message.normalize())
	tools := *message.Tools
	for i, want := range []string{string(noParameters), string(noParameters), `{"type":"object", "b":1, "a":1}`, `{"title":"` + "\uFFFD" + `","type":"object"}`} {
		assert.Equal(t, want, string(tools[i].Parameters), tools[i].Name)
	}
	assert.Empty(t, (*sent)[0].Parameters, "the caller's list has changed")
}

func TestOfferedTools(t *testing.T) {
	t.Parallel()
	taxi, map1 := Function{Name: "taxi", Parameters: noParameters}, Function{Name: "map", Parameters: noParameters}
	s := &Service{Config: Config{Tools: []ServerTool{{Function: taxi}, {Function: map1, Variants: []string{"arco"}}}}}
	photo := aFunction("photo", "")
	server := func(name string) ToolDeclaration { return ToolDeclaration{Type: "server", Name: name} }
	required := func(m Message) Message { m.ToolChoice = ChoiceRequired; return m }
	for _, c := range []struct {
		name    string
		message Message
		variant string
		names   []string
		wrong   []string
	}{
		{"all of the variant", Message{}, "arco", []string{"taxi", "map"}, nil},
		{"those of another variant", Message{}, "pro", []string{"taxi"}, nil},
		{"none", declares(), "arco", nil, nil},
		{"some", declares(photo, server("map")), "arco", []string{"photo", "map"}, nil},
		{"one of another variant", declares(photo, server("map")), "pro", nil, []string{"tools[1].name"}},
		{"unknown", declares(server("bus")), "arco", nil, []string{"tools[0].name"}},
		{"the server's name", declares(aFunction("taxi", "")), "arco", nil, []string{"tools[0].name"}},
		{"the server's name at another variant", declares(aFunction("map", "")), "pro", nil, []string{"tools[0].name"}},
		{"required", required(Message{}), "pro", []string{"taxi"}, nil},
		{"required of none", required(declares()), "pro", nil, []string{"tool_choice"}},
	} {
		functions, err := s.offered(&c.message, c.variant)
		var names []string
		for _, f := range functions {
			names = append(names, f.Name)
		}
		assert.Equal(t, c.names, names, c.name)
		assert.Equal(t, c.wrong, wrongFields(err), c.name)
	}
	assert.Equal(t, &s.Tools[1], s.serverTool("map"))
	assert.Nil(t, s.serverTool("photo"))
}
