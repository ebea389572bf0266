package httpapi

import (
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
)

// searchBody is the answer to GET /v1/search.
type searchBody struct {
	Results []history.SearchResult `json:"results" nullable:"false"`
}

// getSearch looks through the user's messages.
func (s *Server) getSearch(c echo.Context) error {
	query, err := searchQuery(newQueryReader(c))
	if err != nil {
		return err
	}
	results, err := s.config.History.Search(c.Request().Context(), principal(c), query)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, searchBody{Results: results})
}

func searchQuery(params *queryReader) (history.SearchQuery, error) {
	query := history.SearchQuery{
		Text: params.values.Get("q"), Role: params.values.Get("role"),
		Before: params.moment("before"), After: params.moment("after"), Limit: params.limit(history.MaxSearchResults),
	}
	if params.values.Has("chat_id") {
		id, err := parseUUID(params.values.Get("chat_id"))
		if err != nil {
			params.wrong["chat_id"] = "must be a uuid"
		}
		if id == uuid.Nil && err == nil {
			return query, fault.NoChat() // to history it would mean all chats
		}
		query.ChatID = id
	}
	return query, params.err()
}

// moment reads a time; nil when the parameter is not there.
func (q *queryReader) moment(name string) *time.Time {
	if !q.values.Has(name) {
		return nil
	}
	value, err := time.Parse(time.RFC3339, q.values.Get(name))
	if err != nil {
		q.wrong[name] = "must be a time such as 2026-11-21T15:04:05Z (RFC 3339)"
	}
	return &value
}

// getStats counts what the user's chats amount to.
func (s *Server) getStats(c echo.Context) error {
	stats, err := s.config.History.CountUsage(c.Request().Context(), principal(c))
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, stats)
}
