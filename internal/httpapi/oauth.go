package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
)

const (
	// pathMetadata is where clients of a protected resource look for its authorization server (RFC 9728, 3.1);
	// pathToolMetadata is the one of the tools.
	pathMetadata     = "/.well-known/oauth-protected-resource"
	pathToolMetadata = pathMetadata + pathMCP
)

// oauthScope is what a client need ask for. No scope of Supabase Auth opens or closes anything here, and it refuses those
// that it does not know; this is its own default.
const oauthScope = "email"

// toolMetadata describes the tools as a protected resource (RFC 9728, 2).
type toolMetadata struct {
	_             struct{} `description:"Where a client of the tools gets its user's token (RFC 9728)."`
	Resource      string   `json:"resource" description:"The address of the tools."`
	AuthServers   []string `json:"authorization_servers" nullable:"false"`
	Scopes        []string `json:"scopes_supported" nullable:"false"`
	BearerMethods []string `json:"bearer_methods_supported" nullable:"false"`
	ResourceName  string   `json:"resource_name"`
}

// discoveryRoutes are two addresses of one document: clients that overlook the header of the 401 try both.
func discoveryRoutes() []route {
	metadata := route{
		method: http.MethodGet, public: true, head: true,
		endpoint: endpoint{serve: (*Server).getToolMetadata, out: typeOf[toolMetadata](), status: http.StatusOK},
	}
	atTools, atRoot := metadata, metadata
	atTools.path, atTools.id = pathToolMetadata, "getToolMetadata"
	atRoot.path, atRoot.id = pathMetadata, "getResourceMetadata"
	return []route{atTools, atRoot}
}

func (s *Server) getToolMetadata(c echo.Context) error {
	if s.config.AuthServer == "" {
		return fault.New(fault.NotFound, "No authorization server is configured: SUPABASE_URL is not set.")
	}
	c.Response().Header().Set(echo.HeaderCacheControl, "no-store") // it may depend on the Host that was asked for
	return writeJSON(c, http.StatusOK, toolMetadata{
		Resource: s.publicURL(c.Request()) + pathMCP, AuthServers: []string{s.config.AuthServer},
		Scopes: []string{oauthScope}, BearerMethods: []string{"header"}, ResourceName: "Throughline",
	})
}

// publicURL is the address of this server as the client sees it. What a request says of it is told to its sender alone.
func (s *Server) publicURL(r *http.Request) string {
	if s.config.PublicURL != "" {
		return s.config.PublicURL
	}
	forwarded, _, _ := strings.Cut(r.Header.Get(echo.HeaderXForwardedProto), ",")
	if r.TLS != nil || strings.EqualFold(strings.TrimSpace(forwarded), "https") {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// acceptsClient reports whether a token is good for a route. One that its user gave to an assistant is good for the tools,
// which is what they were asked about.
func (s *Server) acceptsClient(path string, user auth.Principal) bool {
	return user.ClientID == "" || path == pathMCP ||
		slices.Contains(s.config.OAuthAPIClients, user.ClientID) || slices.Contains(s.config.OAuthAPIClients, "*")
}
