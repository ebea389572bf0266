package httpapi

import (
	_ "embed" // the texts
	"encoding/json"
	"fmt"
	"strings"
	"sync"
)

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

type routeDoc struct{ summary, description, answer string }

// routeDocs are the texts of routes.txt by the id of a route.
var routeDocs = sync.OnceValue(func() map[string]routeDoc {
	docs := map[string]routeDoc{}
	for id, text := range entries(routeTexts) {
		summary, text, _ := strings.Cut(text, "\n")
		description, answer, _ := strings.Cut(text, "\n= ")
		docs[id] = routeDoc{strings.TrimSpace(summary), strings.Join(strings.Fields(description), " "), strings.TrimSpace(answer)}
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

// fixedParts are those of the OpenAPI document that follow from no code, and the parameters that handlers read one by one.
var fixedParts = sync.OnceValue(func() (parts object) {
	if err := json.Unmarshal(fixedText, &parts); err != nil {
		panic(fmt.Sprintf("httpapi: openapi_base.json: %v", err))
	}
	return parts
})
