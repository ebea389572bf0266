package auth

import (
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
)

// Mint signs an access token for local development (HS256), with the claims that the auth server would give
// userID: a new session, valid from now for ttl. An empty issuer leaves iss out. It fails without a secret, for
// the nil uuid and for a ttl that is not positive.
func Mint(secret []byte, userID uuid.UUID, issuer string, ttl time.Duration, now time.Time) (string, error) {
	switch {
	case len(secret) == 0:
		return "", errors.New("mint: the JWT secret is empty")
	case userID == uuid.Nil:
		return "", errors.New("mint: the nil uuid is nobody")
	case ttl <= 0:
		return "", fmt.Errorf("mint: ttl %v is not positive", ttl)
	}
	body := jwt.MapClaims{
		"sub": userID.String(), "aud": authenticated, "role": authenticated,
		"iat": now.Unix(), "exp": now.Add(ttl).Unix(),
		"session_id": uuid.NewString(), "is_anonymous": false, "aal": "aal1",
	}
	if issuer != "" {
		body["iss"] = issuer
	}
	return jwt.NewWithClaims(jwt.SigningMethodHS256, body).SignedString(secret)
}
