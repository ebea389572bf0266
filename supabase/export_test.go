package supabase

// For the tests in supabase_test, which are not in this package because testkit imports it.

var MigrateFrom = migrateFrom
