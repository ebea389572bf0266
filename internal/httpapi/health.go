package httpapi

import (
	"context"
	"maps"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
)

// readyTimeout bounds Config.Ready, so that a load balancer hears "no" soon.
const readyTimeout = 3 * time.Second

func operationRoutes() []route {
	return []route{
		{method: http.MethodGet, path: "/healthz", id: "getHealth", public: true, head: true, endpoint: jsonEndpoint((*Server).getHealth)},
		{
			method: http.MethodGet, path: "/readyz", id: "getReadiness", public: true, head: true,
			answers:  object{"200": answer("It can. Further members are details.", object{mediaJSON: object{"schema": schemaRef("Readiness")}})},
			endpoint: endpoint{serve: (*Server).getReadiness},
		},
		{
			method: http.MethodGet, path: "/metrics", id: "getMetrics", public: true,
			answers:  object{"200": answer("The metrics.", object{"text/plain": object{"schema": object{"type": "string"}}})},
			endpoint: endpoint{serve: (*Server).getMetrics},
		},
		{
			method: http.MethodGet, path: "/openapi.json", id: "getOpenAPI", public: true,
			answers:  object{"200": answer("The document.", object{mediaJSON: object{"schema": object{"type": "object"}}})},
			endpoint: endpoint{serve: func(s *Server, c echo.Context) error { return writeRaw(c, http.StatusOK, s.openAPI) }},
		},
		{method: http.MethodGet, path: "/", id: "getRoot", public: true, endpoint: jsonEndpoint((*Server).getRoot)},
	}
}

type health struct {
	_       struct{} `description:"The state of the process."`
	Status  string   `json:"status" enum:"ok,ready"`
	Version string   `json:"version"`
}

type root struct {
	_         struct{} `description:"What is served here."`
	Name      string   `json:"name"`
	Version   string   `json:"version"`
	OpenAPI   string   `json:"openapi" description:"Where the description of this API is."`
	Page      string   `json:"page,omitempty" description:"Where people talk and see what is remembered, unless it is switched off."`
	Endpoints []string `json:"endpoints" nullable:"false"`
}

// getHealth answers while the process lives, whatever Postgres does.
func (s *Server) getHealth(context.Context, auth.Principal, uuid.UUID, none) (health, error) {
	return health{Status: "ok", Version: s.config.Version}, nil
}

func (s *Server) getReadiness(c echo.Context) error {
	var details map[string]any
	if s.config.Ready != nil {
		ctx, cancel := context.WithTimeout(c.Request().Context(), readyTimeout)
		defer cancel()
		var err error
		switch details, err = s.config.Ready(ctx); {
		case isFault(err):
			return err
		case err != nil:
			return &fault.Error{Code: fault.NotReady, Message: "The server is not ready.", Details: details, Err: err}
		}
	}
	answer := map[string]any{}
	maps.Copy(answer, details)
	answer["status"] = "ready"
	return writeJSON(c, http.StatusOK, answer)
}

func (s *Server) getRoot(context.Context, auth.Principal, uuid.UUID, none) (root, error) {
	found := root{Name: "throughline", Version: s.config.Version, OpenAPI: "/openapi.json"}
	if s.config.Page != nil {
		found.Page = "/app/"
	}
	for _, r := range routes() {
		found.Endpoints = append(found.Endpoints, r.method+" "+r.path)
	}
	return found, nil
}

func (s *Server) getMetrics(c echo.Context) error {
	promhttp.HandlerFor(s.config.Metrics.Registry, promhttp.HandlerOpts{}).ServeHTTP(c.Response(), c.Request())
	return nil
}
