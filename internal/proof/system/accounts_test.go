package system

import (
	"errors"
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/testkit/authserver"
)

// login adds a login to the project's auth server, and to the database as it does.
func (r *rig) login(logins *authserver.Server, email string) (client testkit.Client, user uuid.UUID) {
	user = testkit.NewUser(r.t, r.db)
	logins.AddUser(user, email, "password")
	return testkit.Client{T: r.t, Base: r.Base, Token: logins.SignIn(email)}, user
}

// left counts the rows of a user by table, the tombstone too.
func (r *rig) left(user uuid.UUID) map[string]int {
	found := map[string]int{}
	for _, table := range testkit.Ask[[]string](r.t, r.pool, `select array_agg(c.oid::regclass::text) from pg_attribute a join pg_class c on c.oid = a.attrelid
		where a.attname = 'user_id' and c.relkind = 'r' and c.relnamespace in ('public'::regnamespace, 'throughline'::regnamespace)`) {
		if rows := testkit.Ask[int](r.t, r.pool, "select count(*) from "+table+" where user_id = $1", user); rows > 0 {
			found[table] = rows
		}
	}
	return found
}

var onlyTombstone = map[string]int{"throughline.departed": 1}

// sample is a body of the route that is well formed.
func (r route) sample() testkit.Body {
	if r.example == nil && r.types != nil { // it takes a file
		return testkit.Body{"role": "user", "content": "x", "memory": "x"}
	}
	return r.example
}

// accountRig serves logins of the project, and those of another issuer with the same keys.
func accountRig(t *testing.T, logins *authserver.Server, change env) *rig {
	t.Helper()
	r := newStoppedRig(t, testkit.NewDatabase(t), nil, env{
		"SUPABASE_URL": logins.URL, "SUPABASE_JWT_SECRET": "",
		"AUTH_ISSUERS": logins.URL + "/ jwks=" + logins.URL + "/auth/v1/.well-known/jwks.json",
	}.And(change))
	r.newUser()
	r.node = r.start(app.Role{API: true, Workers: true}, nil)
	return r
}

// foreigner is one who has signed in at the other issuer.
func (r *rig) foreigner(logins *authserver.Server, subject string) (client testkit.Client, user uuid.UUID) {
	issuer := logins.URL + "/"
	token := logins.Sign("a@example.test", "", map[string]any{"iss": issuer, "sub": subject, "aud": nil})
	return testkit.Client{T: r.t, Base: r.Base, Token: token}, auth.ForeignUser(issuer, subject)
}

// A server whose list is not the database's waits for migrate. Then users of the other issuer talk, each in their own chats, and
// one who deletes the account is gone from every route for as long as the token lives.
func TestUsersOfAnotherIssuer(t *testing.T) {
	t.Parallel()
	logins := authserver.New(t)
	r := accountRig(t, logins, env{"LONG_TERM_MEMORY": "true"})
	waits := r.Call(http.MethodGet, "/readyz", nil)
	assert.Equal(t, "issuers_differ", waits.Code(), waits.Text)
	_, listed, err := app.Migrate(t.Context(), r.config(nil), discard)
	require.NoError(t, err)
	assert.True(t, listed)
	assert.Equal(t, http.StatusOK, r.Call(http.MethodGet, "/readyz", nil).Status)

	home, user := r.login(logins, "a@example.test")
	text, gone := r.foreigner(logins, "user_2x")
	alike, notThem := r.foreigner(logins, user.String()) // is not that user
	people := map[uuid.UUID]testkit.Client{user: home, gone: text, notThem: alike}
	for id, client := range people {
		client.Say("", "I play the cello.")
		assert.Len(t, client.Call(http.MethodGet, "/v1/chats", nil).JSON(t)["chats"], 1)
		assert.Equal(t, 1, r.left(id)["chats"])
	}

	for range 2 {
		assert.Equal(t, http.StatusNoContent, people[gone].Call(http.MethodDelete, "/v1/account", nil).Status)
	}
	assert.Equal(t, onlyTombstone, r.left(gone))
	for _, route := range routes(t, people[gone]) {
		if route.user && route.path != "/v1/account" {
			path := idInPath.ReplaceAllString(numberInPath.ReplaceAllString(route.path, "1"), uuid.NewString())
			answer := people[gone].Call(route.method, path+"?q=x&query=x", route.sample())
			assert.Equalf(t, "user_not_found", answer.Code(), "%s %s: %d %s", route.method, route.path, answer.Status, answer.Text)
		}
	}
	assert.Equal(t, onlyTombstone, r.left(gone), "what came back")
	assert.Len(t, people[user].Call(http.MethodGet, "/v1/chats", nil).JSON(t)["chats"], 1, "the others have theirs")
}

// The login goes first. Where it cannot go, or does not, nothing is erased. No assistant may end an account.
func TestAccountOfTheProjectIsDeletedWithItsLogin(t *testing.T) {
	t.Parallel()
	logins := authserver.New(t)
	r := accountRig(t, logins, nil)
	client, user := r.login(logins, "a@example.test")
	client.Say("", "I play the cello.")
	before := r.left(user)["messages"]
	refused := client.Call(http.MethodDelete, "/v1/account", nil)
	assert.Equal(t, http.StatusNotImplemented, refused.Status, refused.Text)

	able := r.start(app.Role{API: true}, env{"SUPABASE_SECRET_KEY": authserver.SecretKey, "OAUTH_API_CLIENTS": "*"})
	client.Base = able.Base
	admin := testkit.Connect(t, r.db.AdminDSN)
	logins.DeleteWith(func(uuid.UUID) error { return errors.New("away") })
	failed := client.Call(http.MethodDelete, "/v1/account", nil)
	assert.Equal(t, http.StatusBadGateway, failed.Status, failed.Text)
	logins.DeleteWith(func(id uuid.UUID) error {
		_, err := admin.Exec(t.Context(), "delete from auth.users where id = $1", id)
		return err
	})
	assistant := client
	assistant.Token = logins.Sign("a@example.test", "an-assistant", nil)
	assert.Equal(t, "forbidden_client", assistant.Call(http.MethodDelete, "/v1/account", nil).Code())
	assert.Equal(t, before, r.left(user)["messages"], "nothing was erased")

	for range 2 {
		assert.Equal(t, http.StatusNoContent, client.Call(http.MethodDelete, "/v1/account", nil).Status)
		assert.Equal(t, onlyTombstone, r.left(user))
	}
	assert.Equal(t, "user_not_found", client.Call(http.MethodGet, "/v1/chats", nil).Code())
}

// A webhook of the identity provider calls throughline erase for each database that may have the user. Nothing is left in any, and
// the tokens that are still good open none, whichever Auth they are of.
func TestErasedInTwoDatabases(t *testing.T) {
	t.Parallel()
	logins := authserver.New(t)
	for _, r := range []*rig{accountRig(t, logins, nil), accountRig(t, logins, nil)} {
		_, _, err := app.Migrate(t.Context(), r.config(nil), discard)
		require.NoError(t, err)
		home, user := r.login(logins, "a@example.test")
		text, foreign := r.foreigner(logins, "user_2x")
		for id, client := range map[uuid.UUID]testkit.Client{user: home, foreign: text} {
			client.Say("", "I play the cello.")
			require.NoError(t, app.Erase(t.Context(), r.config(nil), id))
			assert.Equal(t, onlyTombstone, r.left(id))
			assert.Equal(t, "user_not_found", client.Call(http.MethodGet, "/v1/chats", nil).Code())
			assert.Equal(t, "user_not_found", client.Call(http.MethodPost, "/v1/message/first", testkit.Body{"content": "I am back."}).Code())
			assert.Equal(t, onlyTombstone, r.left(id))
		}
	}
}
