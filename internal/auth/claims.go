package auth

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
)

// authenticated is both the audience and the role of a signed-in user's token. The keys of a
// project (anon, service_role) are JWTs of the same signer with another role.
const authenticated = "authenticated"

const (
	// maxNumericDate is the end of the year 9999. A later exp is a mistake (milliseconds) or an attempt at a
	// token that never expires.
	maxNumericDate = 253402300799
	// maxTextClaim is the most bytes of an optional text claim. The auth server writes uuids and short words.
	maxTextClaim = 255
)

// claims is the part of a token that is read and checked: everything that decisions are made by, nothing else.
// Its JSON is what policies get from auth.uid() and auth.jwt().
type claims struct {
	Issuer      string    `json:"iss,omitempty"`
	UserID      uuid.UUID `json:"sub"`
	Audience    string    `json:"aud"`
	Role        string    `json:"role"`
	ExpiresAt   int64     `json:"exp"`
	SessionID   string    `json:"session_id,omitempty"`
	IsAnonymous bool      `json:"is_anonymous"`
	Assurance   string    `json:"aal,omitempty"`
	ClientID    string    `json:"client_id,omitempty"`
}

// readClaims checks all claims except the expiry, which only the caller may judge (see check).
// An empty issuer allows any.
func readClaims(body jwt.MapClaims, issuer string, now time.Time) (claims, error) {
	c := claims{Audience: authenticated, Role: authenticated}
	err := cmp.Or(
		c.readUser(body),
		c.readTimes(body, now),
		read(body, "iss", &c.Issuer, isShortText),
		read(body, "session_id", &c.SessionID, isShortText),
		read(body, "aal", &c.Assurance, isShortText),
		read(body, "client_id", &c.ClientID, isShortText),
		read(body, "is_anonymous", &c.IsAnonymous, func(bool) bool { return true }),
	)
	if err != nil {
		return claims{}, err
	}
	if issuer != "" && c.Issuer != issuer {
		return claims{}, errIssuer
	}
	return c, nil
}

func (c *claims) readUser(body jwt.MapClaims) error {
	switch role, _ := body["role"].(string); role {
	case authenticated:
	case "anon":
		return errAnonKey
	case "service_role":
		return errServiceKey
	default:
		return errRole
	}
	if audience, err := body.GetAudience(); err != nil || !slices.Contains(audience, authenticated) {
		return errAudience
	}
	sub, _ := body["sub"].(string)
	user, err := uuid.Parse(sub)
	// Parse accepts other spellings too, but one user must have one name.
	if err != nil || user == uuid.Nil || user.String() != sub {
		return errNoUser
	}
	c.UserID = user
	return nil
}

func (c *claims) readTimes(body jwt.MapClaims, now time.Time) error {
	var expiresAt, notBefore, issuedAt float64
	err := cmp.Or(
		read(body, "exp", &expiresAt, isTime),
		read(body, "nbf", &notBefore, isTime),
		read(body, "iat", &issuedAt, isTime),
	)
	if err != nil {
		return err
	}
	if body["exp"] == nil {
		return errNoExpiry
	}
	if latest := int64(max(notBefore, issuedAt)); now.Before(time.Unix(latest, 0).Add(-leeway)) {
		return errNotYetValid
	}
	c.ExpiresAt = int64(expiresAt)
	return nil
}

// read stores an optional claim in into. It fails if the claim has another type or an invalid value.
func read[T any](body jwt.MapClaims, name string, into *T, isValid func(T) bool) error {
	if body[name] == nil {
		return nil
	}
	value, ok := body[name].(T)
	if !ok || !isValid(value) {
		return fmt.Errorf("%w: %s has a wrong type or value", errClaim, name)
	}
	*into = value
	return nil
}

// isTime reports whether a NumericDate in seconds (RFC 7519, 2) is a possible time.
func isTime(seconds float64) bool {
	return seconds >= -maxNumericDate && seconds <= maxNumericDate
}

// isShortText accepts printable ASCII only, because the text is sent on to Postgres, whose jsonb refuses \u0000.
func isShortText(text string) bool {
	unprintable := func(r rune) bool { return r < ' ' || r > '~' }
	return len(text) <= maxTextClaim && !strings.ContainsFunc(text, unprintable)
}

func (c claims) expired(now time.Time) bool {
	return !now.Before(time.Unix(c.ExpiresAt, 0).Add(leeway))
}

func (c claims) principal() (Principal, error) {
	encoded, err := json.Marshal(c)
	if err != nil {
		return Principal{}, refusal(err)
	}
	return Principal{UserID: c.UserID, Claims: string(encoded)}, nil
}
