package testkit

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/auth"
)

// JWTSecret signs the tokens of Token. It protects nothing.
const JWTSecret = "a-secret-for-tests-that-protects-nothing"

// NewUser gives a new user of the database's auth server.
func NewUser(t testing.TB, database Database) uuid.UUID {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database.AdminDSN)
	if err != nil {
		t.Fatalf("testkit: %v", err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	id := uuid.New()
	_, err = conn.Exec(t.Context(), `
		insert into auth.users (id, aud, role, email, created_at, updated_at)
		values ($1, 'authenticated', 'authenticated', $2, now(), now())`, id, id.String()+"@example.com")
	if err != nil {
		t.Fatalf("testkit: making a user: %v", err)
	}
	return id
}

// Token gives an access token of the user, good for an hour, signed with JWTSecret.
func Token(t testing.TB, userID uuid.UUID) string {
	t.Helper()
	token, err := auth.Mint([]byte(JWTSecret), userID, "", time.Hour, time.Now())
	if err != nil {
		t.Fatalf("testkit: %v", err)
	}
	return token
}
