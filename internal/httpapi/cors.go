package httpapi

import (
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
)

// preflightAge is how long a browser may cache a preflight answer. Browsers cap it themselves; Chromium at two hours.
const preflightAge = 2 * time.Hour

// allowDiscovery lets any page read what clients of the tools find each other by: it says nothing of anybody.
func allowDiscovery() echo.MiddlewareFunc {
	return middleware.CORSWithConfig(middleware.CORSConfig{
		Skipper:      func(c echo.Context) bool { return !strings.HasPrefix(c.Request().URL.Path, pathMetadata) },
		AllowMethods: []string{http.MethodGet, http.MethodHead},
		AllowHeaders: []string{"Mcp-Protocol-Version"},
		MaxAge:       int(preflightAge.Seconds()),
	})
}

// allowOrigins lets pages of these origins use the API, but neither River UI nor the metrics. Pages set the token in a
// header themselves, so browsers need not send cookies.
func allowOrigins(origins []string) echo.MiddlewareFunc {
	return middleware.CORSWithConfig(middleware.CORSConfig{
		Skipper: func(c echo.Context) bool {
			path := c.Request().URL.Path
			return !strings.HasPrefix(path, "/v1/") && path != pathMCP
		},
		AllowOrigins: origins,
		AllowMethods: []string{
			http.MethodGet, http.MethodPost, http.MethodDelete, http.MethodPatch, http.MethodPut, http.MethodOptions,
		},
		AllowHeaders: []string{
			echo.HeaderAuthorization, echo.HeaderContentType, echo.HeaderAccept, headerLastEventID, headerIdempotencyKey,
			echo.HeaderXRequestID, headerUIStream,
			echo.HeaderCacheControl, echo.HeaderXRequestedWith, // react-native-sse sends them
			"Mcp-Protocol-Version", "Mcp-Session-Id", "Mcp-Method", "Mcp-Name", // clients of pathMCP
		},
		ExposeHeaders: []string{
			echo.HeaderXRequestID,
			echo.HeaderWWWAuthenticate,
			echo.HeaderRetryAfter,
			echo.HeaderContentDisposition,
			echo.HeaderLocation,
			headerUIStream,
		},
		MaxAge: int(preflightAge.Seconds()),
	})
}
