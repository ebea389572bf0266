package httpapi

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/history"
)

func searchRoutes() []route {
	return []route{
		{method: http.MethodGet, path: "/v1/search", id: "search", endpoint: jsonEndpoint((*Server).search)},
		{method: http.MethodGet, path: "/v1/recall", id: "recall", endpoint: jsonEndpoint((*Server).recall)},
		{method: http.MethodGet, path: "/v1/stats", id: "getStats", endpoint: ofUser(stores.CountUsage)},
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
