package httpapi

import (
	"net/http"
	"reflect"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
)

// searchSchemaTypes are the schemas of searching and counting.
var searchSchemaTypes = map[string]reflect.Type{
	"SearchResults": reflect.TypeFor[searchBody](),
	"SearchResult":  reflect.TypeFor[history.SearchResult](),
	"Highlight":     reflect.TypeFor[history.Highlight](),
	"Stats":         reflect.TypeFor[history.Stats](),
	"UsedTokens":    reflect.TypeFor[history.UsedTokens](),
	"ReplyTokens":   reflect.TypeFor[history.ReplyTokens](),
	"FoldTokens":    reflect.TypeFor[history.FoldTokens](),
	"StoredBytes":   reflect.TypeFor[history.StoredBytes](),
}

// searchSentences describe what the types' tags do not.
var searchSentences = map[string]string{ //nolint:gosec // these tokens are words of a model, no credentials
	"SearchResults":           "The messages that were found, the best match first.",
	"SearchResult":            "A message that was found.",
	"SearchResult.rank":       "Higher for a better match. It compares results of one search alone.",
	"SearchResult.snippet":    "The part of the message that shows why it was found, as plain text.",
	"SearchResult.highlights": "The words that were found, in their order.",
	"Highlight":               "A place in a snippet, in Unicode code points: from start up to but without end.",
	"Stats":                   "What a user's chats amount to. Turns, messages, tokens and bytes are of everything that is stored, expired chats as well.",
	"Stats.chats":             "Chats that have not expired.",
	"UsedTokens":              "Tokens that models counted, by what they were used for.",
	"ReplyTokens.cached":      "Those of input that the provider had in its prompt cache.",
	"StoredBytes":             "Octets of stored text in UTF-8.",
	"StoredBytes.briefs":      "The summaries in use and the earlier ones that are kept.",
}

// correctSearch says what reflection cannot.
func correctSearch(all object) {
	property(all, "SearchResult", "role", object{"enum": history.Roles})
	neverNull(all, "SearchResults.results")
	neverNull(all, "SearchResult.highlights")
}

func searchOperations() []operation {
	return []operation{
		{
			method: http.MethodGet, path: "/v1/search", id: "search", tag: "chats", user: true, summary: "Search messages",
			description: "Looks through the user's own messages, in any language; expired chats are left out. English words are found in all their forms. The newest 500 matches are ranked.",
			parameters:  []string{"SearchText", "SearchChatID", "SearchRole", "SearchBefore", "SearchAfter", "SearchLimit"},
			answers:     object{"200": jsonAnswer("What was found.", "SearchResults")},
			errors:      concat(userErrors, []fault.Code{fault.ValidationFailed, fault.ChatNotFound, fault.ChatExpired}),
		},
		{
			method: http.MethodGet, path: "/v1/stats", id: "getStats", tag: "chats", user: true, summary: "Count what is stored",
			description: "Counts the user's chats, messages, tokens and bytes.",
			answers:     object{"200": jsonAnswer("The counts.", "Stats")}, errors: userErrors,
		},
	}
}

func searchParameters() object {
	moment := object{"type": "string", "format": "date-time"}
	query := func(name, sentence string, schema object) object {
		return object{"name": name, "in": "query", "description": sentence, "schema": schema}
	}
	text := query("q", "Words that must all be there, \"phrases\", `or` between alternatives, `-` before what must not be there.",
		object{"type": "string", "minLength": 1, "maxLength": history.MaxQuery})
	text["required"] = true
	return object{
		"SearchText":   text,
		"SearchChatID": query("chat_id", "Look into this chat alone.", object{"type": "string", "format": "uuid"}),
		"SearchRole":   query("role", "Messages of this role alone.", object{"type": "string", "enum": history.Roles}),
		"SearchBefore": query("before", "Messages before this time alone.", moment),
		"SearchAfter":  query("after", "Messages from this time on alone.", moment),
		"SearchLimit": query("limit", "How many results are wanted.",
			object{"type": "integer", "minimum": 1, "maximum": history.MaxSearchResults, "default": history.DefaultSearchResults}),
	}
}
