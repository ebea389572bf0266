package page

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/testkit/authserver"
)

// TestConsent connects an assistant as a person does: from the assistant to the page, and back. Another person ends the account, whose
// login does not go at first.
func TestConsent(t *testing.T) {
	t.Parallel()
	const email, leaver, password = "ann@example.test", "lea@example.test", "a password"
	auth := authserver.New(t)
	r := newRig(t, nil, env{"SUPABASE_URL": auth.URL, "SUPABASE_ANON_KEY": "sb_publishable_test", "SUPABASE_SECRET_KEY": authserver.SecretKey})
	auth.AddUser(r.user, email, password)
	auth.AddUser(testkit.NewUser(t, r.db), leaver, password)
	failures := []error{errors.New("away")}
	auth.DeleteWith(func(uuid.UUID) (err error) {
		if len(failures) > 0 {
			err, failures = failures[0], nil
		}
		return err
	})
	auth.Serve(r.Base, r.Base+"/mcp")
	r.inBrowser("consent.mjs", env{"EMAIL": email, "PASSWORD": password, "LEAVER": leaver, "SUPABASE_URL": auth.URL})
	there := testkit.Client{T: t, Base: auth.URL, Token: auth.SignIn(email)}
	got := there.Call(http.MethodGet, "/auth/v1/user/oauth/grants", nil)
	assert.Truef(t, got.Status == http.StatusOK && strings.TrimSpace(got.Text) == "[]",
		"a disconnected or refused program may still act: %d %s", got.Status, got.Text)
}
