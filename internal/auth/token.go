package auth

import (
	"bytes"
	"context"
	"crypto"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
)

// compactJWS are the characters of a JWS in its compact form (RFC 7515, 3.1).
const compactJWS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."

// maxTokenBytes is far above any token that a project signs, and low enough to make hostile tokens cheap.
const maxTokenBytes = 16 << 10

// refusedParameters are header parameters with which a token chooses its own key or its own rules
// (RFC 7515, 4.1). Supabase sets none of them.
var refusedParameters = []string{"jku", "jwk", "x5u", "x5c", "crit", "b64"}

// bearerToken returns the token of an Authorization header (RFC 6750, 2.1).
func bearerToken(header string) (string, error) {
	scheme, token, found := strings.Cut(strings.TrimSpace(header), " ")
	if !found || !strings.EqualFold(scheme, "Bearer") {
		return "", errNotBearer
	}
	token = strings.TrimLeft(token, " ")
	if len(token) > maxTokenBytes {
		return "", fmt.Errorf("%w: the token is over %d bytes", errMalformed, maxTokenBytes)
	}
	if strings.HasPrefix(token, "sb_") {
		return "", errAPIKey
	}
	// Go's base64 skips line breaks, so the alphabet is checked here: a token must have one spelling only.
	if strings.Trim(token, compactJWS) != "" {
		return "", fmt.Errorf("%w: no compact JWS", errMalformed)
	}
	return token, nil
}

// hasRepeatedNames reports whether the header or the claims have a name twice (RFC 7519, 4). Parsers disagree
// about which of the two counts, so such a token could mean one thing to its issuer and another thing here.
func hasRepeatedNames(token string) bool {
	for part := range strings.SplitSeq(token[:strings.LastIndexByte(token, '.')], ".") {
		object, err := base64.RawURLEncoding.DecodeString(part)
		if err != nil || repeatsName(object) {
			return true
		}
	}
	return false
}

// repeatsName looks at the names of an object that is valid JSON, not at those inside its values.
func repeatsName(object []byte) bool {
	decoder, seen := json.NewDecoder(bytes.NewReader(object)), map[json.Token]bool{}
	_, err := decoder.Token() // the brace
	for err == nil && decoder.More() {
		var name json.Token
		if name, err = decoder.Token(); err != nil || seen[name] {
			return true
		}
		seen[name] = true
		var value json.RawMessage
		err = decoder.Decode(&value)
	}
	return err != nil
}

// verifySignature checks that the issuer signed the token. Which key may be used follows from the issuer and the
// algorithm alone: a published key is never used as an HS256 secret, nor the secret as a key or for another issuer.
func (v *Verifier) verifySignature(ctx context.Context, token *jwt.Token, from *source, user uuid.UUID) error {
	for _, name := range refusedParameters {
		if _, present := token.Header[name]; present {
			return fmt.Errorf("%w: %q", errHeader, name)
		}
	}
	var key any = v.secret
	switch token.Method {
	case jwt.SigningMethodHS256:
		if !from.home {
			return errAlgorithm
		}
		if len(v.secret) == 0 {
			return v.lookUp(ctx, token.Raw, user)
		}
	case jwt.SigningMethodES256, jwt.SigningMethodRS256:
		var err error
		if key, err = from.publishedKey(ctx, token); err != nil {
			return err
		}
	default:
		return errAlgorithm
	}
	signed := token.Raw[:strings.LastIndexByte(token.Raw, '.')]
	if err := token.Method.Verify(signed, token.Signature, key); err != nil {
		return fmt.Errorf("%w: %w", errSignature, err)
	}
	return nil
}

// publishedKey returns the key of the issuer's key set that the token names.
func (s *source) publishedKey(ctx context.Context, token *jwt.Token) (crypto.PublicKey, error) {
	if s.keys == nil {
		return nil, errNoProject
	}
	if kid, present := token.Header["kid"]; present {
		if _, ok := kid.(string); !ok {
			return nil, fmt.Errorf("%w: kid is not a string", errHeader)
		}
	}
	return s.keys.find(ctx, token)
}

// lookUp has the auth server judge an HS256 token that cannot be checked locally.
func (v *Verifier) lookUp(ctx context.Context, raw string, user uuid.UUID) error {
	if v.users == nil {
		return errNoSecret
	}
	owner, err := v.users.owner(ctx, raw)
	if err == nil && owner != user {
		return errOtherUser
	}
	return err
}

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
