package authserver_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/testkit/authserver"
)

const (
	site     = "https://app.example.com"
	resource = "https://app.example.com/mcp"
	callback = "http://localhost:33418/callback"
	ann, ben = "ann@example.test", "ben@example.test"
	// registration is a good one.
	registration = `{"redirect_uris": ["` + callback + `"], "token_endpoint_auth_method": "none"}`
	verifier     = "a-verifier-of-at-least-forty-three-characters-1"
)

// rig is an auth server with two users and a client.
type rig struct {
	t *testing.T
	*authserver.Server

	client string
}

func newRig(t *testing.T) rig {
	r := rig{t: t, Server: authserver.New(t)}
	r.Serve(site, resource)
	r.AddUser(uuid.New(), ann, "secret")
	r.AddUser(uuid.New(), ben, "secret")
	status, made := r.call(http.MethodPost, "/oauth/clients/register", "", registration)
	r.client, _ = made["client_id"].(string)
	require.Truef(t, status == http.StatusCreated && r.client != "" && made["client_secret"] == nil, "%d %v", status, made)
	return r
}

// call sends JSON, or a form. headers are name, value, name, value …
func (r rig) call(method, path, session, body string, headers ...string) (int, map[string]any) {
	request, err := http.NewRequestWithContext(r.t.Context(), method, r.URL+"/auth/v1"+path, strings.NewReader(body))
	require.NoError(r.t, err)
	request.Header.Set("Content-Type", "application/json")
	if !strings.HasPrefix(body, "{") {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	request.Header.Set("Authorization", "Bearer "+session)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(request)
	require.NoError(r.t, err)
	defer func() { _ = response.Body.Close() }()
	answer := map[string]any{"location": response.Header.Get("Location")}
	_ = json.NewDecoder(response.Body).Decode(&answer)
	return response.StatusCode, answer
}

// request is a good request for authorization, with changes; "" removes a parameter.
func (r rig) request(changes ...string) string {
	hash := sha256.Sum256([]byte(verifier))
	query := url.Values{
		"client_id": {r.client}, "redirect_uri": {callback}, "response_type": {"code"}, "resource": {resource}, "state": {"s"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(hash[:])}, "code_challenge_method": {"S256"},
	}
	for i := 0; i < len(changes); i += 2 {
		query.Set(changes[i], changes[i+1])
		if changes[i+1] == "" {
			query.Del(changes[i])
		}
	}
	return "/oauth/authorize?" + query.Encode()
}

func TestAuthorizeIsStrict(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, c := range map[string]struct {
		changes  []string
		redirect string // "" for an answer without a redirect
	}{
		"good":                  {nil, site + authserver.ConsentPath + "?authorization_id="},
		"an unknown client":     {[]string{"client_id", uuid.NewString()}, ""},
		"another redirect_uri":  {[]string{"redirect_uri", callback + "/"}, ""},
		"no PKCE":               {[]string{"code_challenge", "", "code_challenge_method", ""}, callback + "?error=invalid_request"},
		"a plain challenge":     {[]string{"code_challenge_method", "plain"}, callback + "?error=invalid_request"},
		"a short challenge":     {[]string{"code_challenge", "abc"}, callback + "?error=invalid_request"},
		"another response_type": {[]string{"response_type", "token"}, callback + "?error=invalid_request"},
		"another resource":      {[]string{"resource", "https://other.example/mcp"}, callback + "?error=invalid_request"},
		"no resource":           {[]string{"resource", ""}, callback + "?error=invalid_request"},
		"a scope of somebody's": {[]string{"scope", "email mcp:tools"}, callback + "?error=invalid_request"},
		"the product's scope":   {[]string{"scope", "email"}, site},
	} {
		status, answer := r.call(http.MethodGet, r.request(c.changes...), "", "")
		location, _ := answer["location"].(string)
		if c.redirect == "" && (status != http.StatusBadRequest || location != "") || c.redirect != "" &&
			(status != http.StatusFound || !strings.HasPrefix(location, c.redirect)) {
			t.Errorf("%s: %d %v", name, status, answer)
		}
	}
}

func TestRegistrationIsStrict(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const public = `, "token_endpoint_auth_method": "none"}`
	for _, body := range []string{
		`{"redirect_uris": []` + public, `{"redirect_uris": ["http://example.com/"]` + public, `{"redirect_uris": ["myapp://callback"]` + public,
		`{"redirect_uris": ["https://example.com/#a"]` + public, `{"redirect_uris": ["` + callback + `"]}`,
	} {
		status, answer := r.call(http.MethodPost, "/oauth/clients/register", "", body)
		assert.Truef(t, status == http.StatusBadRequest, "%s: %d %v", body, status, answer)
	}
}

// Supabase answers pages of its own site only, and programs that are no pages.
func TestConsentIsForTheSite(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for origin, want := range map[string]int{"": http.StatusNotFound, site: http.StatusNotFound, "https://evil.example": http.StatusBadRequest} {
		status, answer := r.call(http.MethodGet, "/oauth/authorizations/x", r.SignIn(ann), "", "Origin", origin)
		assert.Truef(t, status == want, "%q: %d %v", origin, status, answer)
	}
}

// code is a code for the client, which Ann approved.
func (r rig) code() string {
	_, sent := r.call(http.MethodGet, r.request(), "", "")
	page, _ := sent["location"].(string)
	_, id, _ := strings.Cut(page, "authorization_id=")
	path := "/oauth/authorizations/" + id
	_, details := r.call(http.MethodGet, path, r.SignIn(ann), "")
	back, known := details["redirect_url"].(string)
	if !known {
		status, answer := r.call(http.MethodPost, path+"/consent", r.SignIn(ben), `{"action": "approve"}`)
		assert.Truef(r.t, status == http.StatusNotFound, "another user decides: %d %v", status, answer)
		_, decided := r.call(http.MethodPost, path+"/consent", r.SignIn(ann), `{"action": "approve"}`)
		back, _ = decided["redirect_url"].(string)
	}
	parsed, err := url.Parse(back)
	require.Truef(r.t, err == nil && parsed.Query().Get("code") != "", "%v: %s", err, back)
	return parsed.Query().Get("code")
}

func (r rig) exchange(code string, changes ...string) (int, map[string]any) {
	form := url.Values{
		"grant_type": {"authorization_code"}, "client_id": {r.client}, "code": {code}, "redirect_uri": {callback}, "code_verifier": {verifier},
		"resource": {resource},
	}
	for i := 0; i < len(changes); i += 2 {
		form.Set(changes[i], changes[i+1])
	}
	return r.call(http.MethodPost, "/oauth/token", "", form.Encode())
}

func TestCodesAreStrict(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	code := r.code()
	_, made := r.call(http.MethodPost, "/oauth/clients/register", "", registration)
	other, _ := made["client_id"].(string)
	for _, c := range []struct {
		change []string
		want   string
	}{
		{[]string{"code", "x"}, "invalid_grant"},
		{[]string{"code_verifier", verifier + "x"}, "invalid_grant"},
		{[]string{"code_verifier", ""}, "invalid_grant"},
		{[]string{"redirect_uri", callback + "/"}, "invalid_grant"},
		{[]string{"resource", "https://other.example/mcp"}, "invalid_grant"},
		{[]string{"client_id", other}, "invalid_grant"},
		{[]string{"client_id", uuid.NewString()}, "invalid_client"},
		{[]string{"client_secret", "x"}, "invalid_client"},
		{[]string{"grant_type", "password"}, "unsupported_grant_type"},
	} {
		status, answer := r.exchange(code, c.change...)
		assert.Truef(t, status == http.StatusBadRequest && answer["error"] == c.want, "%v: %d %v", c.change, status, answer)
	}
	status, answer := r.exchange(code)
	assert.Truef(t, status == http.StatusOK && answer["access_token"] != nil && answer["user"] == nil,
		"%d %v", status, answer)
	status, answer = r.exchange(code)
	assert.Truef(t, status == http.StatusBadRequest, "a code that was used: %d %v", status, answer)
}

func TestRefreshTokensRotate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	refresh := func(token any) (int, map[string]any) {
		text, _ := token.(string)
		return r.call(http.MethodPost, "/oauth/token", "", url.Values{"grant_type": {"refresh_token"}, "client_id": {r.client}, "refresh_token": {text}}.Encode())
	}
	_, first := r.exchange(r.code())
	status, second := refresh(first["refresh_token"])
	require.Truef(t, status == http.StatusOK && second["refresh_token"] != first["refresh_token"], "%d %v", status, second)
	if status, answer := refresh(first["refresh_token"]); status != http.StatusBadRequest || answer["error"] != "invalid_grant" {
		t.Errorf("%d %v", status, answer)
	}
	_, third := r.exchange(r.code())
	if status, _ := r.call(http.MethodDelete, "/user/oauth/grants?client_id="+r.client, r.SignIn(ann), ""); status != http.StatusNoContent {
		t.Errorf("revoke: %d", status)
	}
	if status, answer := refresh(third["refresh_token"]); status != http.StatusBadRequest {
		t.Errorf("revoked: %d %v", status, answer)
	}
}
