package system

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/internal/testkit"
)

// route is one operation of the OpenAPI document, as far as a request needs it.
type route struct {
	method, path string
	parameters   []parameter
	fields       []string // of its JSON body
	optional     bool     // the body may be left out
	types        []string // media types of its body
	statuses     []string
	user         bool // it needs a token
}

func (r route) name() string { return r.method + " " + r.path }

// parameter is a parameter of a route.
type parameter struct{ Name, In string }

// document is the part of the OpenAPI document that is read.
type document struct {
	Paths      map[string]map[string]documentRoute
	Components struct {
		Schemas map[string]struct{ Properties map[string]any }
	}
}

type documentRoute struct {
	Parameters []parameter
	Body       struct {
		Required bool
		Content  map[string]struct{ Schema reference }
	} `json:"requestBody"`
	Responses map[string]any
	Security  []any
}

type reference struct {
	Ref string `json:"$ref"`
}

func (r reference) last() string { return r.Ref[strings.LastIndexByte(r.Ref, '/')+1:] }

// routes reads all routes from a running server, so that a test over them misses none.
func routes(t *testing.T, from testkit.Client) []route {
	t.Helper()
	var read document
	if err := json.Unmarshal([]byte(from.Call(http.MethodGet, "/openapi.json", nil).Text), &read); err != nil {
		t.Fatal(err)
	}
	var found []route
	for _, path := range slices.Sorted(maps.Keys(read.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(read.Paths[path])) {
			found = append(found, read.route(strings.ToUpper(method), path, read.Paths[path][method]))
		}
	}
	if len(found) == 0 {
		t.Fatal("the document has no routes")
	}
	return found
}

func (d document) route(method, path string, from documentRoute) route {
	found := route{
		method: method, path: path, statuses: slices.Collect(maps.Keys(from.Responses)),
		types: slices.Sorted(maps.Keys(from.Body.Content)), optional: !from.Body.Required, user: len(from.Security) > 0,
		parameters: from.Parameters,
	}
	schema := d.Components.Schemas[from.Body.Content["application/json"].Schema.last()]
	found.fields = slices.Sorted(maps.Keys(schema.Properties))
	return found
}
