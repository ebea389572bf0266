package auth

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

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
	// MaxIssuer is the same of the name of an issuer.
	MaxIssuer = maxTextClaim
)

// claims is what decisions are made by, and the whole body of the token for Postgres.
type claims struct {
	UserID    uuid.UUID
	Home      bool
	ClientID  string
	ExpiresAt int64
	// JSON is the body as it was signed: policies of the app may read any claim, such as app_metadata or one that an
	// access token hook added.
	JSON string
}

// readClaims checks all claims that have a meaning here except the expiry, which only the caller may judge (see check). A
// source without a name allows any issuer.
func readClaims(body jwt.MapClaims, raw string, from *source, now time.Time) (claims, error) {
	c := claims{Home: from.home}
	var claimedIssuer string
	err := cmp.Or(
		c.readUser(body, from),
		c.readTimes(body, now),
		read(body, "iss", &claimedIssuer, isShortText),
	)
	if err == nil && from.supabase() {
		err = c.readSession(body)
	}
	if err != nil {
		return claims{}, err
	}
	if from.Name != "" && claimedIssuer != from.Name {
		return claims{}, errIssuer
	}
	c.JSON, err = signedBody(raw)
	return c, err
}

// readSession reads what only Supabase Auth means as it does: every access token of Cognito has a client_id.
func (c *claims) readSession(body jwt.MapClaims) error {
	var text string
	var flag bool
	return cmp.Or(
		read(body, "client_id", &c.ClientID, isShortText),
		read(body, "session_id", &text, isShortText),
		read(body, "aal", &text, isShortText),
		read(body, "is_anonymous", &flag, func(bool) bool { return true }),
	)
}

// signedBody returns the claims of a token as they were signed. Its size is bounded by the token's.
func signedBody(raw string) (string, error) {
	_, rest, _ := strings.Cut(raw, ".")
	encoded, _, _ := strings.Cut(rest, ".")
	body, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errMalformed, err)
	}
	if !isStorable(body) {
		return "", fmt.Errorf("%w: it holds a character that Postgres cannot hold", errClaim)
	}
	return string(body), nil
}

var (
	// escapes are those of a JSON document. Two halves of a surrogate pair are one.
	escapes = regexp.MustCompile(`\\(?:u(?i:d[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|[0-9a-f]{4})|.)`)
	// unstorable are U+0000 and half of a pair.
	unstorable = regexp.MustCompile(`^\\u(?:0000|(?i:d[89a-f])..)$`)
)

// isStorable reports whether Postgres' jsonb takes the text of a valid JSON document: it has to be UTF-8, without U+0000
// and without half of a surrogate pair, which JSON can write as escapes.
func isStorable(document []byte) bool {
	return utf8.Valid(document) && !slices.ContainsFunc(escapes.FindAll(document, -1), unstorable.Match)
}

// readUser reads whose token it is. The audience is that of every token, as Supabase Auth makes them, an OAuth client's too;
// another issuer's is what was asked for.
func (c *claims) readUser(body jwt.MapClaims, from *source) (err error) {
	switch role, _ := body["role"].(string); role {
	case authenticated:
	case "anon":
		return errAnonKey
	case "service_role":
		return errServiceKey
	default:
		return errRole
	}
	if audience, err := body.GetAudience(); from.Audience != "" && (err != nil || !slices.Contains(audience, from.Audience)) {
		return errAudience
	}
	sub, _ := body["sub"].(string)
	c.UserID, err = from.user(sub)
	return err
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

// isShortText accepts printable ASCII, which is all that the auth server writes into these claims.
func isShortText(text string) bool {
	unprintable := func(r rune) bool { return r < ' ' || r > '~' }
	return len(text) <= maxTextClaim && !strings.ContainsFunc(text, unprintable)
}

func (c claims) expired(now time.Time) bool {
	return !now.Before(time.Unix(c.ExpiresAt, 0).Add(leeway))
}
