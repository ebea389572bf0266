package httpapi

import (
	"context"
	"maps"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/arcoscribe/throughline/internal/fault"
)

// readyTimeout bounds Config.Ready: whoever asks wants to hear "no" soon.
const readyTimeout = 3 * time.Second

// healthBody is the answer of /healthz, and the part of /readyz that never changes.
type healthBody struct {
	Status string `json:"status" enum:"ok,ready"`
}

// rootBody is the answer of /.
type rootBody struct {
	Name      string   `json:"name"`
	Version   string   `json:"version"`
	OpenAPI   string   `json:"openapi" description:"Where the description of this API is."`
	Endpoints []string `json:"endpoints" nullable:"false"`
}

// getHealth answers while the process lives, whatever Postgres does.
func (s *Server) getHealth(c echo.Context) error {
	return writeJSON(c, http.StatusOK, healthBody{Status: "ok"})
}

// getReadiness tells whether requests should come here.
func (s *Server) getReadiness(c echo.Context) error {
	var details map[string]any
	if s.config.Ready != nil {
		ctx, cancel := context.WithTimeout(c.Request().Context(), readyTimeout)
		defer cancel()
		var err error
		if details, err = s.config.Ready(ctx); err != nil {
			return &fault.Error{Code: fault.NotReady, Message: "The server is not ready.", Details: details, Err: err}
		}
	}
	answer := map[string]any{}
	maps.Copy(answer, details)
	answer["status"] = "ready"
	return writeJSON(c, http.StatusOK, answer)
}

func (s *Server) getRoot(c echo.Context) error {
	root := rootBody{Name: "throughline", Version: s.config.Version, OpenAPI: "/openapi.json"}
	for _, operation := range operations() {
		root.Endpoints = append(root.Endpoints, operation.method+" "+operation.path)
	}
	return writeJSON(c, http.StatusOK, root)
}

func (s *Server) getOpenAPI(c echo.Context) error {
	return writeRaw(c, http.StatusOK, s.openAPI)
}
