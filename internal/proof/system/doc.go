// Package system has the tests of the whole system. Each starts the program as the command does, in this process, with
// a database of its own and the offline model, and talks to it over HTTP. Files are named by what they test; the rig
// that they share is in main_test.go, and the checks in checks_test.go.
package system
