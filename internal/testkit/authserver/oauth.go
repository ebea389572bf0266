package authserver

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// ConsentPath is where the consent page is, below the site's address.
const ConsentPath = "/app/oauth/consent"

// scope is the one that the product asks for, and the one of a client that names none.
const scope = "email"

type client struct {
	ID              string   `json:"client_id"`
	Type            string   `json:"client_type"`
	RedirectURIs    []string `json:"redirect_uris"`
	TokenAuthMethod string   `json:"token_endpoint_auth_method"`
	GrantTypes      []string `json:"grant_types"`
	ResponseTypes   []string `json:"response_types"`
	Name            string   `json:"client_name,omitempty"`
	Registration    string   `json:"registration_type"`
}

// answer is what the consent page and the list of grants are told of a client.
func (c client) answer() map[string]string {
	return map[string]string{"id": c.ID, "name": c.Name, "uri": "", "logo_uri": ""}
}

// authorization is one request of a client for a user's consent.
type authorization struct {
	id, state, challenge, redirect string
	client                         client
	user                           user // none until somebody opened it
	answered                       bool
	code                           string // "" before consent
}

type consent struct {
	user   uuid.UUID
	client string
}

// register makes a public client (RFC 7591).
func (s *Server) register(w http.ResponseWriter, r *http.Request) {
	var asked client
	err := json.NewDecoder(r.Body).Decode(&asked)
	refused := func(uri string) bool { return !redirectable(uri) }
	if err != nil || len(asked.RedirectURIs) == 0 || slices.ContainsFunc(asked.RedirectURIs, refused) || asked.TokenAuthMethod != "none" {
		refuse(w, http.StatusBadRequest, "validation_failed", "want redirect_uris and token_endpoint_auth_method none")
		return
	}
	asked.ID, asked.Type, asked.Registration = uuid.NewString(), "public", "dynamic"
	asked.ResponseTypes, asked.GrantTypes = []string{"code"}, []string{"authorization_code", "refresh_token"}
	s.clients[asked.ID] = asked
	answer(w, http.StatusCreated, asked)
}

// redirectable allows https, and http to this machine, without a fragment.
func redirectable(uri string) bool {
	parsed, err := url.Parse(uri)
	if err != nil || parsed.Host == "" || parsed.Fragment != "" {
		return false
	}
	local := parsed.Hostname() == "localhost" || parsed.Hostname() == "127.0.0.1"
	return parsed.Scheme == "https" || parsed.Scheme == "http" && local
}

// authorize begins an authorization and sends the user to the site's consent page. It redirects to the client only when
// client and redirect_uri are known to belong together.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	asking := s.clients[query.Get("client_id")]
	redirect := query.Get("redirect_uri")
	if !slices.Contains(asking.RedirectURIs, redirect) {
		refuse(w, http.StatusBadRequest, "validation_failed", "invalid client_id or redirect_uri")
		return
	}
	if problem := s.wrongRequest(query); problem != "" {
		http.Redirect(w, r, refusal(redirect, "invalid_request", problem, query.Get("state")), http.StatusFound)
		return
	}
	begun := &authorization{
		id: strings.ToLower(rand.Text()), client: asking, redirect: redirect,
		state: query.Get("state"), challenge: query.Get("code_challenge"),
	}
	s.authorizations[begun.id] = begun
	http.Redirect(w, r, s.site+ConsentPath+"?authorization_id="+begun.id, http.StatusFound)
}

// wrongRequest returns the fault of the rest of a request; "" for nothing.
func (s *Server) wrongRequest(query url.Values) string {
	asked := query.Get("scope")
	switch {
	case query.Get("response_type") != "code":
		return "only response_type=code is supported"
	case query.Get("code_challenge_method") != "S256":
		return "code_challenge_method must be 'S256'"
	case len(query.Get("code_challenge")) < 43 || len(query.Get("code_challenge")) > 128:
		return "code_challenge must be between 43 and 128 characters"
	case asked != "" && asked != scope:
		return "unsupported scope"
	case query.Get("resource") != s.resource:
		return "resource is not " + s.resource
	}
	return ""
}

// getAuthorization tells the consent page who asks. The first user who opens it is the one who may decide. A client that
// has the user's consent gets a code at once.
func (s *Server) getAuthorization(w http.ResponseWriter, r *http.Request, by user) {
	found, ok := s.pending(w, r, by)
	if !ok {
		return
	}
	if _, ok := s.consents[consent{by.id, found.client.ID}]; ok {
		answer(w, http.StatusOK, map[string]string{"redirect_url": found.approve()})
		return
	}
	answer(w, http.StatusOK, map[string]any{
		"authorization_id": found.id, "redirect_uri": found.redirect, "scope": scope,
		"user": map[string]any{"id": by.id, "email": by.email}, "client": found.client.answer(),
	})
}

// pending is the authorization that the path names, if that user may decide it.
func (s *Server) pending(w http.ResponseWriter, r *http.Request, by user) (*authorization, bool) {
	if origin := r.Header.Get("Origin"); origin != "" && origin != s.site {
		refuse(w, http.StatusBadRequest, "validation_failed", "unauthorized request origin")
		return nil, false
	}
	found := s.authorizations[r.PathValue("id")]
	if found != nil && found.user == (user{}) && r.Method == http.MethodGet {
		found.user = by
	}
	switch {
	case found == nil || found.user != by:
		refuse(w, http.StatusNotFound, "oauth_authorization_not_found", "authorization not found")
		return nil, false
	case found.answered:
		refuse(w, http.StatusBadRequest, "validation_failed", "authorization request cannot be processed")
		return nil, false
	}
	return found, true
}

func (s *Server) decide(w http.ResponseWriter, r *http.Request, by user) {
	found, ok := s.pending(w, r, by)
	if !ok {
		return
	}
	var asked struct{ Action string }
	_ = json.NewDecoder(r.Body).Decode(&asked) // no action is a wrong one
	switch asked.Action {
	case "approve":
		s.consents[consent{by.id, found.client.ID}] = time.Now()
		answer(w, http.StatusOK, map[string]string{"redirect_url": found.approve()})
	case "deny":
		found.answered = true
		address := refusal(found.redirect, "access_denied", "User denied the request", found.state)
		answer(w, http.StatusOK, map[string]string{"redirect_url": address})
	default:
		refuse(w, http.StatusBadRequest, "validation_failed", "action must be 'approve' or 'deny'")
	}
}

// approve returns where the user goes, with a code for the client.
func (a *authorization) approve() string {
	a.answered, a.code = true, rand.Text()
	return a.redirect + "?" + url.Values{"code": {a.code}, "state": {a.state}}.Encode()
}

// refusal is where the user goes without a code.
func refusal(redirect, code, description, state string) string {
	return redirect + "?" + url.Values{"error": {code}, "error_description": {description}, "state": {state}}.Encode()
}

// grantToClient gives a client its tokens (RFC 6749, 4.1.3 and 6) for a code or a refresh token, each once.
func (s *Server) grantToClient(w http.ResponseWriter, r *http.Request) {
	id, grant := r.PostFormValue("client_id"), r.PostFormValue("grant_type")
	if _, known := s.clients[id]; !known || r.PostForm.Has("client_secret") {
		refuseGrant(w, "invalid_client", "Invalid client credentials")
		return
	}
	switch grant {
	case "authorization_code":
		s.exchange(w, r.PostForm)
	case "refresh_token":
		spent := r.PostForm.Get("refresh_token")
		going, ok := s.sessions[spent]
		if !ok || going.client != id {
			refuseGrant(w, "invalid_grant", "Refresh token is invalid or expired.")
			return
		}
		delete(s.sessions, spent)
		answer(w, http.StatusOK, s.grant(going))
	default:
		refuseGrant(w, "unsupported_grant_type", "Unsupported grant type")
	}
}

func (s *Server) exchange(w http.ResponseWriter, form url.Values) {
	hash := sha256.Sum256([]byte(form.Get("code_verifier")))
	challenge := base64.RawURLEncoding.EncodeToString(hash[:])
	for id, a := range s.authorizations {
		if a.code == "" || a.code != form.Get("code") {
			continue
		}
		if a.client.ID != form.Get("client_id") || form.Get("resource") != s.resource || form.Get("redirect_uri") != a.redirect || a.challenge != challenge {
			break
		}
		delete(s.authorizations, id)
		answer(w, http.StatusOK, s.grant(session{a.user, a.client.ID}))
		return
	}
	refuseGrant(w, "invalid_grant", "The code is unknown, or it is not for this client, resource, redirect_uri and code_verifier")
}

// refuseGrant answers as RFC 6749, 5.2 says (apierrors.OAuthError).
func refuseGrant(w http.ResponseWriter, code, description string) {
	answer(w, http.StatusBadRequest, map[string]string{"error": code, "error_description": description})
}

func (s *Server) getGrants(w http.ResponseWriter, _ *http.Request, by user) {
	grants := []map[string]any{}
	for given, at := range s.consents {
		if given.user == by.id {
			grants = append(grants, map[string]any{"client": s.clients[given.client].answer(), "scopes": []string{scope}, "granted_at": at})
		}
	}
	answer(w, http.StatusOK, grants)
}

// revokeGrant takes a client's sessions away: its refresh tokens end, its access tokens live until they expire.
func (s *Server) revokeGrant(w http.ResponseWriter, r *http.Request, by user) {
	given := consent{by.id, r.URL.Query().Get("client_id")}
	if _, ok := s.consents[given]; !ok {
		refuse(w, http.StatusNotFound, "oauth_consent_not_found", "No active grant found for this client")
		return
	}
	delete(s.consents, given)
	maps.DeleteFunc(s.sessions, func(_ string, going session) bool { return going == session{by, given.client} })
	w.WriteHeader(http.StatusNoContent)
}
