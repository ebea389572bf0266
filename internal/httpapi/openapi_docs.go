package httpapi

import (
	_ "embed" // descriptions.txt
	"strings"
	"sync"
)

//go:embed descriptions.txt
var descriptions string

// fieldDocs are the descriptions of descriptions.txt by their key. A long description of a field stands there, and the field
// names it in its tag doc; a short one is the field's tag description.
var fieldDocs = sync.OnceValue(func() map[string]string {
	docs := map[string]string{}
	for entry := range strings.SplitSeq(descriptions, "\n\n") {
		if key, text, ok := strings.Cut(entry, "]\n"); ok {
			docs[strings.TrimPrefix(key, "[")] = strings.Join(strings.Fields(text), " ")
		}
	}
	return docs
})
