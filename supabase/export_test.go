package supabase

// For tests in supabase_test: testkit is made of this package, so they cannot be in it.

var (
	Embedded    = embedded
	MigrateFrom = migrateFrom
)

// Split gives the texts of the statements, and the line each begins in.
func Split(sql string) (texts []string, lines []int) {
	for _, s := range splitStatements(sql) {
		texts = append(texts, s.text)
		lines = append(lines, s.lineAt(0))
	}
	return texts, lines
}
