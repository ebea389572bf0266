package authserver

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// register makes a client (RFC 7591).
func (s *Server) register(w http.ResponseWriter, r *http.Request) {
	var asked client
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		refuse(w, http.StatusBadRequest, "bad_json", "Invalid JSON body")
		return
	}
	if problem := asked.problem(); problem != "" {
		refuse(w, http.StatusBadRequest, "validation_failed", problem)
		return
	}
	asked.ID, asked.Secret, asked.Registration = uuid.NewString(), "", "dynamic"
	asked.ResponseTypes = []string{"code"}
	if len(asked.GrantTypes) == 0 {
		asked.GrantTypes = []string{"authorization_code", "refresh_token"}
	}
	asked.Type = "public"
	if asked.TokenAuthMethod != "none" {
		asked.Type, asked.TokenAuthMethod, asked.Secret = "confidential", "client_secret_basic", rand.Text()
	}
	s.clients[asked.ID] = asked
	answer(w, http.StatusCreated, asked)
}

// problem says what is wrong with a registration; "" for nothing.
func (c client) problem() string {
	if len(c.RedirectURIs) == 0 || len(c.RedirectURIs) > 10 {
		return "redirect_uris must have 1 to 10 items"
	}
	for _, uri := range c.RedirectURIs {
		if !redirectable(uri) {
			return fmt.Sprintf("invalid redirect_uri '%s'", uri)
		}
	}
	for _, grant := range c.GrantTypes {
		if grant != "authorization_code" && grant != "refresh_token" {
			return "grant_types must only contain 'authorization_code' and/or 'refresh_token'"
		}
	}
	if c.TokenAuthMethod != "" && !slices.Contains([]string{"none", "client_secret_basic", "client_secret_post"}, c.TokenAuthMethod) {
		return "token_endpoint_auth_method is unknown"
	}
	return ""
}

// redirectable allows https, http to this machine, and Cursor, without a fragment.
func redirectable(uri string) bool {
	parsed, err := url.Parse(uri)
	if err != nil || parsed.Host == "" || parsed.Fragment != "" {
		return false
	}
	local := parsed.Hostname() == "localhost" || parsed.Hostname() == "127.0.0.1"
	return parsed.Scheme == "https" || parsed.Scheme == "http" && local || parsed.Scheme == "cursor" && parsed.Host == "anysphere.cursor-mcp"
}

// authorize begins an authorization and sends the user to the site's consent page. It redirects to the client only when
// client and redirect_uri are known to belong together.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	asking, ok := s.clients[query.Get("client_id")]
	if !ok {
		refuse(w, http.StatusBadRequest, "oauth_client_not_found", "invalid client_id")
		return
	}
	redirect := query.Get("redirect_uri")
	if !slices.Contains(asking.RedirectURIs, redirect) {
		refuse(w, http.StatusBadRequest, "validation_failed", "invalid redirect_uri")
		return
	}
	if problem := s.wrongRequest(query); problem != "" {
		http.Redirect(w, r, withQuery(redirect, "error", "invalid_request", "error_description", problem, "state", query.Get("state")), http.StatusFound)
		return
	}
	scope := query.Get("scope")
	if scope == "" {
		scope = "email"
	}
	begun := &authorization{
		id: strings.ToLower(rand.Text()), client: asking, redirect: redirect, scope: scope, state: query.Get("state"), resource: query.Get("resource"),
		challenge: query.Get("code_challenge"), status: "pending", expires: time.Now().Add(codeLife),
	}
	s.authorizations[begun.id] = begun
	http.Redirect(w, r, s.site+ConsentPath+"?authorization_id="+begun.id, http.StatusFound)
}

// wrongRequest says what is wrong with the rest of a request; "" for nothing.
func (s *Server) wrongRequest(query url.Values) string {
	resource, err := url.Parse(query.Get("resource"))
	switch {
	case query.Get("response_type") != "code":
		return "only response_type=code is supported"
	case query.Get("code_challenge_method") != "S256":
		return "code_challenge_method must be 'S256'"
	case len(query.Get("code_challenge")) < 43 || len(query.Get("code_challenge")) > 128:
		return "code_challenge must be between 43 and 128 characters"
	case !covers(scopes, strings.Fields(query.Get("scope"))):
		return "unsupported scope"
	case err != nil || query.Has("resource") && (!resource.IsAbs() || resource.Fragment != "" || resource.RawQuery != ""):
		return "resource must be an absolute URI without query and fragment"
	case s.resource != "" && query.Get("resource") != s.resource:
		return "resource is not " + s.resource
	}
	return ""
}

// getAuthorization tells the consent page who asks. The first user who opens it is the one who may decide. A client with
// consent for all of the scopes gets a code at once.
func (s *Server) getAuthorization(w http.ResponseWriter, r *http.Request) {
	of, ok := s.caller(w, r)
	if !ok {
		return
	}
	found, ok := s.pending(w, r, of)
	if !ok {
		return
	}
	if granted, ok := s.consents[consent{of.id, found.client.ID}]; ok && covers(granted, strings.Fields(found.scope)) {
		answer(w, http.StatusOK, map[string]string{"redirect_url": found.approve()})
		return
	}
	answer(w, http.StatusOK, map[string]any{
		"authorization_id": found.id, "redirect_uri": found.redirect, "scope": found.scope, "user": map[string]any{"id": of.id, "email": of.email},
		"client": clientAnswer(found.client),
	})
}

func clientAnswer(of client) map[string]string {
	return map[string]string{"id": of.ID, "name": of.Name, "uri": of.URI, "logo_uri": of.LogoURI}
}

// pending is the authorization that the path names, if that user may decide it.
func (s *Server) pending(w http.ResponseWriter, r *http.Request, of user) (*authorization, bool) {
	if origin := r.Header.Get("Origin"); origin != "" && origin != s.site {
		refuse(w, http.StatusBadRequest, "validation_failed", "unauthorized request origin")
		return nil, false
	}
	found := s.authorizations[r.PathValue("id")]
	if found != nil && found.user == uuid.Nil && r.Method == http.MethodGet {
		found.user = of.id
	}
	switch {
	case found == nil || found.user != of.id || time.Now().After(found.expires):
		refuse(w, http.StatusNotFound, "oauth_authorization_not_found", "authorization not found")
		return nil, false
	case found.status != "pending":
		refuse(w, http.StatusBadRequest, "validation_failed", "authorization request cannot be processed")
		return nil, false
	}
	return found, true
}

func (s *Server) decide(w http.ResponseWriter, r *http.Request) {
	of, ok := s.caller(w, r)
	if !ok {
		return
	}
	found, ok := s.pending(w, r, of)
	if !ok {
		return
	}
	var asked struct{ Action string }
	_ = json.NewDecoder(r.Body).Decode(&asked) // no action is a wrong one
	switch asked.Action {
	case "approve":
		s.consents[consent{of.id, found.client.ID}] = strings.Fields(found.scope)
		answer(w, http.StatusOK, map[string]string{"redirect_url": found.approve()})
	case "deny":
		found.status = "denied"
		answer(w, http.StatusOK, map[string]string{
			"redirect_url": withQuery(found.redirect, "error", "access_denied", "error_description", "User denied the request", "state", found.state),
		})
	default:
		refuse(w, http.StatusBadRequest, "validation_failed", "action must be 'approve' or 'deny'")
	}
}

// approve returns where the user goes, with a code for the client.
func (a *authorization) approve() string {
	a.status, a.code = "approved", rand.Text()
	return withQuery(a.redirect, "code", a.code, "state", a.state)
}

func withQuery(address string, pairs ...string) string {
	parsed, _ := url.Parse(address) // registered ones can be parsed
	query := parsed.Query()
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			query.Set(pairs[i], pairs[i+1])
		}
	}
	parsed.RawQuery = query.Encode()
	return parsed.String()
}

// oauthToken gives a client its tokens (RFC 6749, 4.1.3 and 6).
func (s *Server) oauthToken(w http.ResponseWriter, r *http.Request) {
	if r.ParseForm() != nil {
		refuseOAuth(w, "invalid_request", "Failed to parse form data")
		return
	}
	by, problem := s.authenticate(r)
	if problem != "" {
		refuseOAuth(w, "invalid_client", problem)
		return
	}
	switch r.PostForm.Get("grant_type") {
	case "authorization_code":
		s.exchange(w, r.PostForm, by)
	case "refresh_token":
		if going := s.refresh(r.PostForm.Get("refresh_token"), by.ID); going != nil {
			answer(w, http.StatusOK, s.grant(going))
			return
		}
		refuseOAuth(w, "invalid_grant", "Refresh token is invalid or expired.")
	default:
		refuseOAuth(w, "unsupported_grant_type", "Unsupported grant type")
	}
}

// authenticate finds the client that asks, which proves itself if it has a secret and sends none if it has not.
func (s *Server) authenticate(r *http.Request) (client, string) {
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	}
	found, ok := s.clients[id]
	switch {
	case !ok:
		return client{}, "Invalid client credentials"
	case found.Secret == "" && secret != "":
		return client{}, "public clients must not provide client_secret"
	case found.Secret != secret:
		return client{}, "Invalid client credentials"
	}
	return found, ""
}

// exchange gives tokens for a code, once.
func (s *Server) exchange(w http.ResponseWriter, form url.Values, by client) {
	var found *authorization
	for _, a := range s.authorizations {
		if a.code != "" && a.code == form.Get("code") {
			found = a
		}
	}
	if found == nil || time.Now().After(found.expires) {
		refuseOAuth(w, "invalid_grant", "Invalid authorization code")
		return
	}
	hash := sha256.Sum256([]byte(form.Get("code_verifier")))
	switch {
	case found.client.ID != by.ID:
		refuseOAuth(w, "invalid_grant", "Authorization code was not issued for this client")
	case form.Get("resource") != found.resource:
		refuseOAuth(w, "invalid_grant", "Authorization code resource does not match the resource parameter")
	case form.Get("redirect_uri") != found.redirect:
		refuseOAuth(w, "invalid_grant", "Invalid redirect_uri")
	case base64.RawURLEncoding.EncodeToString(hash[:]) != found.challenge:
		refuseOAuth(w, "invalid_grant", "PKCE verification failed")
	default:
		delete(s.authorizations, found.id)
		answer(w, http.StatusOK, s.grant(&session{id: uuid.NewString(), user: s.userOf(found.user), client: by.ID, scope: found.scope, ended: new(bool)}))
	}
}

func (s *Server) userOf(id uuid.UUID) user {
	for _, known := range s.users {
		if known.id == id {
			return known
		}
	}
	return user{}
}

func (s *Server) getGrants(w http.ResponseWriter, r *http.Request) {
	of, ok := s.caller(w, r)
	if !ok {
		return
	}
	grants := []map[string]any{}
	for given, granted := range s.consents {
		if given.user == of.id {
			grants = append(grants, map[string]any{"client": clientAnswer(s.clients[given.client]), "scopes": granted, "granted_at": time.Now()})
		}
	}
	answer(w, http.StatusOK, grants)
}

// revokeGrant takes a client's sessions away: its refresh tokens end, its access tokens live until they expire.
func (s *Server) revokeGrant(w http.ResponseWriter, r *http.Request) {
	of, ok := s.caller(w, r)
	if !ok {
		return
	}
	given := consent{of.id, r.URL.Query().Get("client_id")}
	if _, ok := s.consents[given]; !ok {
		refuse(w, http.StatusNotFound, "oauth_consent_not_found", "No active grant found for this client")
		return
	}
	delete(s.consents, given)
	for _, going := range s.sessions {
		if going.user.id == of.id && going.client == given.client {
			*going.ended = true
		}
	}
	w.WriteHeader(http.StatusNoContent)
}
