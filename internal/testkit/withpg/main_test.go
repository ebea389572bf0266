package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// roleEnv says what TestRole does when this test's own binary is the command that withpg runs.
const roleEnv = "WITHPG_TEST_ROLE"

// TestRole is what the other tests run beside a cluster.
func TestRole(t *testing.T) {
	t.Parallel()
	switch role := os.Getenv(roleEnv); role {
	case "": // an ordinary test run: there is nothing to be
	case "pooled", "parted", "straight":
		database := testkit.NewEmptyDatabase(t)
		assert.Equalf(t, role != "straight", database.Pooled(),
			"a command that should be %s got the database %s", role, database.DSN)
		testkit.Exec(t, testkit.Connect(t, database.DSN), "create table used ()")
	case "past the pooler":
		testkit.Exec(t, testkit.Connect(t, testkit.NewEmptyDatabase(t).Direct()), "create table used ()")
	default:
		t.Errorf("no such role: %s", role)
	}
}

func runAs(role string, o options) (int, error) {
	return run(o, []string{"env", roleEnv + "=" + role, os.Args[0], "-test.run=^TestRole$", "-test.v=false"})
}

func TestPoolerStandsBeforeTheClusterWhereAskedFor(t *testing.T) {
	t.Parallel()
	for role, o := range map[string]options{"pooled": {pooler: true}, "parted": {parting: true}, "straight": {}} {
		code, err := runAs(role, o)
		assert.Truef(t, code == 0 && err == nil, "%s: exit code %d, %v", role, code, err)
	}
}

// Tests that a pooler stands before, and that all go past it, have shown nothing of it.
func TestPassThatWentPastItsPoolerFails(t *testing.T) {
	t.Parallel()
	code, err := runAs("past the pooler", options{pooler: true})
	assert.Truef(t, code == 0 && err != nil && strings.Contains(err.Error(), "no transaction went through the pooler"),
		"exit code %d, %v", code, err)
}

func TestCommandsExitCodeIsOurs(t *testing.T) {
	t.Parallel()
	code, err := runAs("nobody", options{})
	assert.Truef(t, code == 1 && err == nil, "exit code %d, %v", code, err)
}
