package httpapi

import (
	_ "embed" // the texts
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/arcoscribe/throughline/internal/fault"
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

// routeDoc is what routes.txt says of a route. Lines of the answer, the errors and the example begin with a mark.
type routeDoc struct {
	tag, summary, description, answer string
	errors                            []fault.Code
	example                           json.RawMessage
}

// routeDocs are those of routes.txt by the id of a route.
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

// fixedParts are those of the OpenAPI document that follow from no code, and the parameters that handlers read one by one.
var fixedParts = sync.OnceValue(func() (parts object) {
	if err := json.Unmarshal(fixedText, &parts); err != nil {
		panic(fmt.Sprintf("httpapi: openapi_base.json: %v", err))
	}
	return parts
})
