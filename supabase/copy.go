package supabase

import (
	"fmt"
	"os"
	"path/filepath"
)

// CopyMigrations writes those of the embedded migrations that a project of the Supabase CLI lacks into its folder of
// migrations, and returns their file names, oldest first. It changes no file: if one has the number of ours and is not
// ours, that is an error and nothing is written.
func CopyMigrations(folder string) (written []string, err error) {
	if err := findProject(folder); err != nil {
		return nil, err
	}
	missing, err := missingFiles(folder)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // source code, as the CLI makes it
		return nil, fmt.Errorf("copying migrations: %w", err)
	}
	for _, m := range missing {
		name := m.String() + ".sql"
		if err := os.WriteFile(filepath.Join(folder, name), []byte(m.sql), 0o644); err != nil { //nolint:gosec // as above
			return written, fmt.Errorf("copying migrations: %w", err)
		}
		written = append(written, name)
	}
	return written, nil
}

// findProject returns an error if neither the folder nor the project's config.toml beside it exists.
func findProject(folder string) error {
	config := filepath.Join(filepath.Dir(filepath.Clean(folder)), "config.toml")
	for _, path := range []string{folder, config} {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
	}
	return fmt.Errorf("there is no Supabase project here: neither %s nor %s exists; run this where `supabase init` was run, "+
		"or name the folder of migrations with --to", folder, config)
}

// missingFiles returns the embedded migrations that a folder lacks.
func missingFiles(folder string) ([]migration, error) {
	ours, err := readMigrations(Migrations, "migrations")
	if err != nil {
		return nil, err
	}
	theirs, err := readMigrations(os.DirFS(folder), ".")
	if err != nil {
		return nil, err
	}
	there := map[string]migration{}
	for _, m := range theirs {
		there[m.version] = m
	}
	var missing []migration
	for _, m := range ours {
		switch found, ok := there[m.version]; {
		case !ok:
			missing = append(missing, m)
		case found != m:
			return nil, fmt.Errorf("%s is not our %s.sql, which has the same number: give yours another number; "+
				"if it is ours from before an update, restore it", filepath.Join(folder, found.String()+".sql"), m)
		}
	}
	return missing, nil
}
