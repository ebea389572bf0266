package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/arcoscribe/throughline/internal/fault"
)

// limitOrigin refuses pages that CORS_ORIGINS does not list, as the protocol of /mcp requires. It refuses above all a page
// whose own name was made to point to this server (DNS rebinding), which a browser takes for one of the same origin.
func (s *Server) limitOrigin(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if !s.acceptsOrigin(c.Request()) {
			return fault.New(fault.ForbiddenOrigin, "Pages of this origin may not use the tools. The server's CORS_ORIGINS lists those that may.")
		}
		return next(c)
	}
}

// acceptsOrigin decides by what a page cannot change. Programs that are no browsers send no Origin; behind a proxy the
// Host may be any.
func (s *Server) acceptsOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	page, err := url.Parse(origin)
	switch {
	case origin == "", slices.Contains(s.config.CORSOrigins, origin):
		return true
	case r.Header.Get("Sec-Fetch-Site") == "same-origin": // browsers say so only to https and localhost, whose names are true
		return true
	case err == nil && strings.EqualFold(page.Host, r.Host):
		return IsLocalName(r.Host)
	}
	return slices.Contains(s.config.CORSOrigins, "*")
}

// IsLocalName reports whether a Host header holds an IP address or localhost: names that nobody can make point elsewhere.
func IsLocalName(host string) bool {
	name := host
	if withoutPort, _, err := net.SplitHostPort(host); err == nil {
		name = withoutPort
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	_, err := netip.ParseAddr(name)
	return err == nil || name == "localhost" || strings.HasSuffix(name, ".localhost")
}

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
