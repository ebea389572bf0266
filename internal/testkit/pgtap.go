package testkit

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"

	"github.com/arcoscribe/throughline/internal/dev/localpg"
)

// pgTAPFile matches the complete pgTAP, not an upgrade between versions.
var pgTAPFile = regexp.MustCompile(`/pgtap--[0-9.]+\.sql$`)

// InstallPgTAP installs pgTAP in the schema extensions of a database. It is plain SQL, so the file of any server package
// works on every version of Postgres, also where it is not available as an extension. Test files therefore do not
// contain "create extension pgtap".
func InstallPgTAP(ctx context.Context, database Database) error {
	paths, err := filepath.Glob("/usr/share/postgresql/*/extension/pgtap--*.sql")
	if err != nil {
		return err
	}
	for _, path := range paths {
		if !pgTAPFile.MatchString(path) {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return localpg.Bootstrap(ctx, database.AdminDSN, "set search_path = extensions, public;\n"+string(text))
	}
	return errors.New("pgTAP is not installed: no pgtap--*.sql under /usr/share/postgresql (scripts/setup test installs it)")
}
