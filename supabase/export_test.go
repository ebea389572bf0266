package supabase

// For the tests in supabase_test, which are not in this package because testkit imports it.

var (
	Embedded    = embedded
	MigrateFrom = migrateFrom
)

// Split returns the texts of the statements, and the line on which each begins.
func Split(sql string) (texts []string, lines []int) {
	for _, s := range splitStatements(sql) {
		texts = append(texts, s.text)
		lines = append(lines, s.lineAt(0))
	}
	return texts, lines
}
