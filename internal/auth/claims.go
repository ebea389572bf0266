package auth

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
)

// authenticated is both the audience and the role of a signed-in user's token. The keys of a
// project (anon, service_role) are JWTs of the same signer with another role.
const authenticated = "authenticated"

const (
	// maxNumericDate is the end of the year 9999. A later exp is a mistake (milliseconds) or a token
	// made to live for ever.
	maxNumericDate = 253402300799
	// maxTextClaim bounds the optional text claims; the auth server writes uuids and short words.
	maxTextClaim = 255
)

// claims are what is read of a token: everything that is decided by, nothing else.
type claims struct {
	user        uuid.UUID
	expiresAt   time.Time
	issuer      string
	sessionID   string
	isAnonymous bool
	assurance   string
	clientID    string
}

// readClaims checks all claims except the expiry, which only the caller may judge (see check).
// An empty issuer allows any.
func readClaims(body jwt.MapClaims, issuer string, now time.Time) (claims, error) {
	c := claims{}
	err := cmp.Or(
		c.readUser(body),
		c.readTimes(body, now),
		readText(body, "iss", &c.issuer),
		readText(body, "session_id", &c.sessionID),
		readText(body, "aal", &c.assurance),
		readText(body, "client_id", &c.clientID),
		readFlag(body, "is_anonymous", &c.isAnonymous),
	)
	if err != nil {
		return claims{}, err
	}
	if issuer != "" && c.issuer != issuer {
		return claims{}, errors.New("iss is not this project")
	}
	return c, nil
}

func (c *claims) readUser(body jwt.MapClaims) error {
	if role, _ := body["role"].(string); role != authenticated {
		return errors.New("role is not authenticated")
	}
	if !forUsers(body["aud"]) {
		return errors.New("aud does not contain authenticated")
	}
	sub, _ := body["sub"].(string)
	user, err := uuid.Parse(sub)
	// Parse takes other spellings as well; one user has one name.
	if err != nil || user == uuid.Nil || user.String() != sub {
		return errors.New("sub is not a user's uuid")
	}
	c.user = user
	return nil
}

// forUsers tells whether aud, one text or an array of texts, contains authenticated.
func forUsers(aud any) bool {
	if one, ok := aud.(string); ok {
		return one == authenticated
	}
	many, ok := aud.([]any)
	if !ok || slices.ContainsFunc(many, notText) {
		return false
	}
	return slices.Contains(many, any(authenticated))
}

func notText(value any) bool {
	_, ok := value.(string)
	return !ok
}

func (c *claims) readTimes(body jwt.MapClaims, now time.Time) error {
	expiresAt, err := readTime(body, "exp")
	if err != nil {
		return err
	}
	if expiresAt.IsZero() {
		return errors.New("exp is missing")
	}
	notBefore, err := readTime(body, "nbf")
	if err != nil {
		return err
	}
	issuedAt, err := readTime(body, "iat")
	if err != nil {
		return err
	}
	if now.Before(notBefore.Add(-leeway)) || now.Before(issuedAt.Add(-leeway)) {
		return errors.New("the token is not valid yet")
	}
	c.expiresAt = expiresAt
	return nil
}

// readTime reads a NumericDate in seconds (RFC 7519, 2); the zero time where there is none. A quoted
// number is no number.
func readTime(body jwt.MapClaims, name string) (time.Time, error) {
	value := body[name]
	if value == nil {
		return time.Time{}, nil
	}
	seconds, ok := value.(float64)
	if !ok || seconds < -maxNumericDate || seconds > maxNumericDate {
		return time.Time{}, fmt.Errorf("%s is not a time", name)
	}
	return time.Unix(int64(seconds), 0), nil
}

// readText reads an optional claim. Printable ASCII only, because it goes on into Postgres, whose
// jsonb refuses \u0000.
func readText(body jwt.MapClaims, name string, into *string) error {
	value := body[name]
	if value == nil {
		return nil
	}
	text, ok := value.(string)
	if !ok || len(text) > maxTextClaim {
		return fmt.Errorf("%s is not a short text", name)
	}
	for _, b := range []byte(text) {
		if b < ' ' || b > '~' {
			return fmt.Errorf("%s has unprintable characters", name)
		}
	}
	*into = text
	return nil
}

func readFlag(body jwt.MapClaims, name string, into *bool) error {
	value := body[name]
	if value == nil {
		return nil
	}
	flag, ok := value.(bool)
	if !ok {
		return fmt.Errorf("%s is not a boolean", name)
	}
	*into = flag
	return nil
}

func (c claims) expired(now time.Time) bool {
	return !now.Before(c.expiresAt.Add(leeway))
}

// sqlClaims is the form in which policies see the token, through auth.uid() and auth.jwt().
type sqlClaims struct {
	Issuer      string `json:"iss,omitempty"`
	Subject     string `json:"sub"`
	Audience    string `json:"aud"`
	Role        string `json:"role"`
	ExpiresAt   int64  `json:"exp"`
	SessionID   string `json:"session_id,omitempty"`
	IsAnonymous bool   `json:"is_anonymous"`
	Assurance   string `json:"aal,omitempty"`
	ClientID    string `json:"client_id,omitempty"`
}

func (c claims) principal() (Principal, error) {
	encoded, err := json.Marshal(sqlClaims{
		Issuer: c.issuer, Subject: c.user.String(), Audience: authenticated, Role: authenticated,
		ExpiresAt: c.expiresAt.Unix(), SessionID: c.sessionID, IsAnonymous: c.isAnonymous,
		Assurance: c.assurance, ClientID: c.clientID,
	})
	if err != nil {
		return Principal{}, refusal(err)
	}
	return Principal{UserID: c.user, SessionID: c.sessionID, IsAnonymous: c.isAnonymous, Claims: string(encoded)}, nil
}
