package auth

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"github.com/tidwall/gjson"
)

// maxTokenBytes is far above any token a project signs, and low enough that hostile ones are cheap.
const maxTokenBytes = 16 << 10

// selfServedKeys are header parameters by which a token would choose its own key or its own rules
// (RFC 7515, 4.1). Supabase sets none of them.
var selfServedKeys = []string{"jku", "jwk", "x5u", "x5c", "crit", "b64"}

// bearerToken takes the token out of an Authorization header (RFC 6750, 2.1): one scheme, one token.
func bearerToken(header string) (string, error) {
	scheme, token, found := strings.Cut(strings.TrimSpace(header), " ")
	if !found || !strings.EqualFold(scheme, "Bearer") {
		return "", errors.New("the scheme is not Bearer")
	}
	token = strings.TrimLeft(token, " ")
	if len(token) > maxTokenBytes {
		return "", fmt.Errorf("the token is over %d bytes", maxTokenBytes)
	}
	// Go's base64 skips line breaks, so the alphabet is checked here: one token has one spelling.
	if strings.ContainsFunc(token, notInCompactJWS) {
		return "", errors.New("the token is no compact JWS")
	}
	return token, nil
}

func notInCompactJWS(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
		return false
	}
	return true
}

// repeatsName tells whether header or claims hold a name twice (RFC 7519, 4). Readers disagree about which of
// the two counts, so a token that had one meaning for whoever let it pass could have another one here.
func repeatsName(token string) bool {
	for part := range strings.SplitSeq(token[:strings.LastIndexByte(token, '.')], ".") {
		object, err := base64.RawURLEncoding.DecodeString(part)
		if err != nil || hasTwins(object) {
			return true
		}
	}
	return false
}

// hasTwins looks at the names of an object that is valid JSON, not at those inside its values.
func hasTwins(object []byte) bool {
	names, twins := map[string]bool{}, false
	gjson.ParseBytes(object).ForEach(func(name, _ gjson.Result) bool {
		twins = twins || names[name.String()]
		names[name.String()] = true
		return !twins
	})
	return twins
}

// prove makes sure that the project signed the token. Which key may be used follows from the
// algorithm alone: a published key never serves as an HS256 secret, and the reverse.
func (v *Verifier) prove(ctx context.Context, token *jwt.Token, user uuid.UUID) error {
	for _, name := range selfServedKeys {
		if _, present := token.Header[name]; present {
			return fmt.Errorf("header parameter %q is refused", name)
		}
	}
	signed := token.Raw[:strings.LastIndexByte(token.Raw, '.')]
	switch token.Method.Alg() {
	case jwt.SigningMethodHS256.Alg():
		if len(v.secret) == 0 {
			return v.ask(ctx, token.Raw, user)
		}
		return jwt.SigningMethodHS256.Verify(signed, token.Signature, v.secret)
	case jwt.SigningMethodES256.Alg():
		return v.proveByKeySet(ctx, token, signed, jwt.SigningMethodES256)
	case jwt.SigningMethodRS256.Alg():
		return v.proveByKeySet(ctx, token, signed, jwt.SigningMethodRS256)
	}
	return errors.New("the signature algorithm is not allowed")
}

func (v *Verifier) proveByKeySet(ctx context.Context, token *jwt.Token, signed string, method jwt.SigningMethod) error {
	if v.keys == nil {
		return errors.New("no project URL is configured for keys")
	}
	kid, ok := token.Header["kid"].(string)
	if _, present := token.Header["kid"]; present && !ok {
		return errors.New("kid is not a string")
	}
	key, err := v.keys.find(ctx, keyName{method.Alg(), kid})
	if err != nil {
		return err
	}
	return method.Verify(signed, token.Signature, key)
}

// ask has the auth server judge an HS256 token that cannot be checked here.
func (v *Verifier) ask(ctx context.Context, raw string, user uuid.UUID) error {
	if v.users == nil {
		return errors.New("HS256 is refused without the secret")
	}
	owner, err := v.users.owner(ctx, raw)
	if err != nil {
		return err
	}
	if owner != user {
		return errors.New("the auth server names another user than sub")
	}
	return nil
}
