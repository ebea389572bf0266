// Package system holds the tests of the whole system: each starts the program as the command does, in this
// process, on a database of its own and beside the offline model, and talks to it over HTTP. What one package
// does by itself is tested there.
package system
