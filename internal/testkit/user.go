package testkit

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
)

// JWTSecret signs the tokens of Token. It protects nothing.
const JWTSecret = "a-secret-for-tests-that-protects-nothing"

// NewUser makes a user in the database's auth schema.
func NewUser(t testing.TB, database Database) uuid.UUID {
	t.Helper()
	id := uuid.New()
	conn := Connect(t, database.AdminDSN)
	defer func() { _ = conn.Close(t.Context()) }() // a test may make hundreds
	Exec(t, conn, `
		insert into auth.users (id, aud, role, email, created_at, updated_at)
		values ($1, 'authenticated', 'authenticated', $2, now(), now())`, id, id.String()+"@example.com")
	return id
}

// Token returns an access token of the user, valid for an hour, signed with JWTSecret.
func Token(t testing.TB, userID uuid.UUID) string {
	t.Helper()
	token, err := auth.Mint([]byte(JWTSecret), userID, "", time.Hour, time.Now())
	if err != nil {
		t.Fatalf("testkit: %v", err)
	}
	return token
}
