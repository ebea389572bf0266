package postgres

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
)

// foreigner is a user of an issuer that is listed and is no Supabase Auth.
func (b *bed) foreigner(subject string) auth.Principal {
	const issuer = "https://issuer.example"
	noError(b.t, errOf((&Accounts{Pool: b.pool}).SetIssuers(b.t.Context(), []string{issuer})))
	claims, err := json.Marshal(map[string]string{"iss": issuer, "sub": subject, "role": "authenticated"})
	noError(b.t, err)
	return auth.Principal{UserID: auth.ForeignUser(issuer, subject), Claims: string(claims)}
}

// rowsOf counts the rows of a user in all tables that have users.
func (b *bed) rowsOf(user uuid.UUID) map[string]int {
	found := map[string]int{}
	for _, table := range ask[[]string](b, `select array_agg(c.oid::regclass::text) from pg_attribute a join pg_class c on c.oid = a.attrelid
		where a.attname = 'user_id' and c.relkind = 'r' and c.relnamespace in ('public'::regnamespace, 'throughline'::regnamespace)`) {
		if rows := b.count(table+" where user_id = $1", user); rows > 0 {
			found[table] = rows
		}
	}
	return found
}

// Everything of the user goes at once, in each table that has users, and the token that is still good brings nothing back: neither
// reads nor writes. Again it is no error, as for one who was never here. The tombstone goes after 30 days.
func TestEraseLeavesOnlyATombstone(t *testing.T) {
	t.Parallel()
	b := newOwnBed(t)
	accounts := &Accounts{Pool: b.pool}
	for name, user := range map[string]auth.Principal{"with a login": b.user, "of another issuer": b.foreigner("user_2x")} {
		b.user = user
		chatID := b.newChat(2)
		b.claim(chatID)
		b.exec("insert into memory_users (user_id) values ($1)", user.UserID)
		b.exec("insert into memories (user_id, content) values ($1, 'Plays the cello.')", user.UserID)
		b.exec("insert into usage_events (user_id, chat_id, purpose) values ($1, $2, 'reply')", user.UserID, chatID)
		is(t, len(b.rowsOf(user.UserID)) > 8, true, "%s: tables with rows", name)
		for range 2 {
			noError(t, accounts.Erase(t.Context(), user.UserID))
			is(t, b.rowsOf(user.UserID), map[string]int{"throughline.departed": 1}, "%s: what is left", name)
		}
		is(t, b.count("throughline.deleted_messages"), 0, "%s: digests of messages", name)
		wantFault(t, errOf(b.turns.StartTurn(t.Context(), user, firstTurn("I am back."))), fault.UserNotFound, "a turn")
		wantFault(t, errOf(NewHistory(b.pool, b.limits, Enqueue{}).ListChats(t.Context(), user, api.ListQuery{Limit: 1})), fault.UserNotFound, "a list")
		is(t, b.rowsOf(user.UserID), map[string]int{"throughline.departed": 1}, "%s: what came back", name)
	}
	noError(t, accounts.Erase(t.Context(), uuid.New()))
	b.exec("update throughline.departed set at = now() - interval '31 days' where user_id = $1", b.user.UserID)
	b.exec("insert into throughline.departed (user_id, why, cell, at) values (gen_random_uuid(), 'moved', 'b', now() - interval '31 days')")
	noError(t, NewMaintenance(b.pool, b.limits).DeleteOldUsage(t.Context()))
	is(t, b.rowsOf(b.user.UserID), map[string]int{}, "after 30 days")
	is(t, b.count("throughline.departed"), 3, "the tombstones that stay: younger ones, and where who moved is")
}

// A first row and the end of its account wait for each other, whichever comes first: the account is gone, and stays so.
func TestFirstRowWhileTheAccountIsErased(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	accounts := &Accounts{Pool: b.pool}
	const insert = "insert into chats (user_id) values ($1)"
	tx := b.begin()
	mustExec(t, tx, insert, b.user.UserID)
	noError(t, b.waitsFor(tx, func() error { return accounts.Erase(t.Context(), b.user.UserID) }))
	is(t, b.rowsOf(b.user.UserID), map[string]int{"throughline.departed": 1}, "the row came first")

	b.user = b.newUser()
	tx = b.begin()
	mustExec(t, tx, "select throughline.erase_account($1)", b.user.UserID)
	wantFault(t, b.waitsFor(tx, func() error { return errOf(b.turns.StartTurn(t.Context(), b.user, firstTurn("Me first."))) }),
		fault.UserNotFound, "the end came first")
	is(t, b.rowsOf(b.user.UserID), map[string]int{"throughline.departed": 1}, "the end came first")
}

// An account is being deleted with its login while its first row is written: the key to the login refuses it.
func TestFirstRowWhileTheLoginGoes(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	tx := b.begin()
	mustExec(t, tx, "delete from auth.users where id = $1", b.user.UserID)
	wantFault(t, b.waitsFor(tx, func() error { return errOf(b.turns.StartTurn(t.Context(), b.user, firstTurn("Too late."))) }),
		fault.UserNotFound, "the first turn")
}

// The list is what migrate wrote, and no more.
func TestListOfIssuers(t *testing.T) {
	t.Parallel()
	b := newOwnBed(t)
	accounts := &Accounts{Pool: b.pool}
	for _, step := range []struct {
		list    []string
		changed bool
	}{{nil, false}, {[]string{"https://b", "https://a"}, true}, {[]string{"https://a", "https://b"}, false}, {[]string{"https://b"}, true}, {nil, true}} {
		is(t, tuple(accounts.SetIssuers(t.Context(), step.list)), tuple(step.changed, nil), "set %v", step.list)
		is(t, tuple(accounts.SameIssuers(t.Context(), step.list)), tuple(true, nil), "the list of %v", step.list)
		is(t, tuple(accounts.SameIssuers(t.Context(), append([]string{"https://z"}, step.list...))), tuple(false, nil), "another than %v", step.list)
	}
}
