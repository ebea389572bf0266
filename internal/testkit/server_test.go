package testkit

import "testing"

// What was committed is there after an immediate shutdown, at the same address.
func TestServerCrashesAndComesBack(t *testing.T) {
	t.Parallel()
	server := NewServer(t)
	pool := NewPool(t, server.Direct()) // a pooler would wait for the server for minutes
	Exec(t, pool, "create table kept as select 1 as n")
	server.Crash()
	if _, err := pool.Exec(t.Context(), "select 1"); err == nil {
		t.Error("it answers although it is down")
	}
	server.Start()
	var n int
	Eventually(t, "the pool has thrown away what is broken", func() bool {
		return pool.QueryRow(t.Context(), "select n from kept").Scan(&n) == nil
	})
	if n != 1 || !Ask[bool](t, pool, "select to_regclass('public.chats') is not null") {
		t.Error("it has forgotten something")
	}
	server.Stop()
	server.Start()
}
