package system

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// A pooler that turns bad while the server runs: it says so, and answers nobody until transactions keep their user again.
func TestServerBehindAPoolerThatTurnsBad(t *testing.T) {
	t.Parallel()
	db := testkit.NewDatabase(t)
	gateway := testkit.NewGateway(t, db, testkit.Parting)
	for dsn, warned := range map[string]bool{db.ServerDSN: false, db.DSN: true} {
		gateway.Manner.Store(int32(testkit.Parting))
		r := newStoppedRig(t, db, nil, env{"DATABASE_URL": gateway.Through(dsn)})
		r.newUser()
		r.node = r.start(app.Role{API: true}, nil)
		ready := func(code string) func() bool {
			return func() bool { return r.Call(http.MethodGet, "/readyz", nil).Code() == code }
		}
		got := r.Call(http.MethodGet, "/v1/chats", nil)
		require.Equalf(t, http.StatusOK, got.Status, "parted pipelines: %s", got.Text)
		for range 2 { // each of which looks
			got = r.Call(http.MethodGet, "/readyz", nil)
			assert.Truef(t, got.Status == http.StatusOK && strings.Contains(got.Text, `"warnings":["connection_bypasses_rls"]`) == warned, "%d %s", got.Status, got.Text)
			assert.Equal(t, map[bool]int{true: 1}[warned], strings.Count(r.logs.String(), "row-level security does not bind"), "times in the log")
		}
		for _, manner := range []testkit.Manner{testkit.Forgetting, testkit.Scattering} {
			gateway.Manner.Store(int32(manner))
			testkit.Eventually(t, "it is not ready", ready("session_not_isolated"))
			got = r.Call(http.MethodGet, "/v1/chats", nil)
			assert.Truef(t, got.Status == http.StatusServiceUnavailable && got.Code() == "not_ready", "%d %s", got.Status, got.Text)
			gateway.Manner.Store(int32(testkit.Parting))
			testkit.Eventually(t, "it is ready again", ready(""))
			got = r.Call(http.MethodGet, "/v1/chats", nil)
			assert.Equalf(t, http.StatusOK, got.Status, "again: %s", got.Text)
		}
	}
}
