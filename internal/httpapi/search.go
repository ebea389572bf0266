package httpapi

import (
	"context"
	"net/http"
	"reflect"
	"strconv"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/memory/graph"
)

func searchRoutes() []route {
	drawing := object{"schema": object{"type": "string"}}
	return []route{
		{method: http.MethodGet, path: "/v1/search", id: "search", endpoint: jsonEndpoint((*Server).search)},
		{method: http.MethodGet, path: "/v1/recall", id: "recall", endpoint: jsonEndpoint((*Server).recall)},
		{method: http.MethodGet, path: "/v1/stats", id: "getStats", endpoint: ofUser(stores.CountUsage)},
		{
			method: http.MethodGet, path: "/v1/graph", id: "getGraph",
			answers: object{"200": answer("That part of the graph.", object{
				mediaJSON: object{"schema": schemaRef("Graph")}, mediaMermaid: drawing, mediaDOT: drawing,
			})},
			endpoint: endpoint{serve: (*Server).getGraph, in: reflect.TypeFor[api.GraphQuery]()},
		},
	}
}

type searchResults struct {
	_       struct{}           `description:"The messages that were found, the best match first."`
	Results []api.SearchResult `json:"results" nullable:"false"`
}

type recallResults struct {
	_       struct{}           `description:"The messages that were found, the best match first."`
	Results []api.RecallResult `json:"results" nullable:"false"`
}

func (s *Server) recall(ctx context.Context, user auth.Principal, _ uuid.UUID, query api.RecallQuery) (recallResults, error) {
	found, err := s.config.Recall.Recall(ctx, user, query)
	return recallResults{Results: found}, err
}

func (s *Server) search(ctx context.Context, user auth.Principal, _ uuid.UUID, query api.SearchQuery) (searchResults, error) {
	found, err := s.config.History.Search(ctx, user, query)
	return searchResults{Results: found}, err
}

// The media types of a graph that is drawn.
const (
	mediaMermaid = "text/vnd.mermaid"
	mediaDOT     = "text/vnd.graphviz"
)

// getGraph answers with a part of the user's graph, as JSON or as a drawing's source.
func (s *Server) getGraph(c echo.Context) error {
	var query api.GraphQuery
	if err := s.readRequest(c, &query); err != nil {
		return err
	}
	found, err := s.config.Graph.ReadGraph(c.Request().Context(), principal(c), query)
	if err != nil {
		return err
	}
	switch query.Format {
	case "mermaid":
		return writeText(c, mediaMermaid, graph.Mermaid(found))
	case "dot":
		return writeText(c, mediaDOT, graph.DOT(found))
	}
	return writeJSON(c, http.StatusOK, found)
}

func writeText(c echo.Context, mediaType, text string) error {
	header := c.Response().Header()
	header.Set(echo.HeaderCacheControl, "no-store")
	header.Set(echo.HeaderContentLength, strconv.Itoa(len(text)))
	return c.Blob(http.StatusOK, mediaType+"; charset=utf-8", []byte(text))
}
