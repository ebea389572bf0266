package httpapi

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
)

func searchRoutes() []route {
	return []route{
		{
			method: http.MethodGet, path: "/v1/search", id: "search", tag: "chats", summary: "Search messages",
			description: "Looks through the user's own messages, in any language; expired chats are left out. English words are found in all their " +
				"forms. The newest 500 matches are ranked.",
			answer: "What was found.", errors: []fault.Code{fault.ValidationFailed, fault.ChatNotFound, fault.ChatExpired},
			endpoint: jsonEndpoint((*Server).search),
		},
		{
			method: http.MethodGet, path: "/v1/recall", id: "recall", tag: "chats", summary: "Find earlier turns for a question",
			description: "Looks for the turns that a question may be about, by rare words and by meaning, in all of the user's chats or in one; also " +
				"for turns that are still in the prompt. Each message of a turn is a result. Expired chats are left out.",
			answer: "What was found.", errors: []fault.Code{fault.ValidationFailed, fault.BadUUID, fault.ChatNotFound, fault.ChatExpired, fault.RecallOff},
			endpoint: jsonEndpoint((*Server).recall),
		},
		{
			method: http.MethodGet, path: "/v1/stats", id: "getStats", tag: "chats", summary: "Count what is stored",
			description: "Counts the user's chats, messages, tokens and bytes.", answer: "The counts.",
			endpoint: ofUser(stores.CountUsage),
		},
	}
}

type searchResults struct {
	_       struct{}               `description:"The messages that were found, the best match first."`
	Results []history.SearchResult `json:"results" nullable:"false"`
}

type recallResults struct {
	_       struct{}               `description:"The messages that were found, the best match first."`
	Results []history.RecallResult `json:"results" nullable:"false"`
}

func (s *Server) recall(ctx context.Context, user auth.Principal, _ uuid.UUID, query history.RecallQuery) (recallResults, error) {
	found, err := s.config.Recall.Recall(ctx, user, query)
	return recallResults{Results: found}, err
}

func (s *Server) search(ctx context.Context, user auth.Principal, _ uuid.UUID, query history.SearchQuery) (searchResults, error) {
	found, err := s.config.History.Search(ctx, user, query)
	return searchResults{Results: found}, err
}
